//! Files that are cut or written to while they are mapped.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, SystemTime};

use memmap2::Mmap;
use pelton_weights::{Checkpoint, DType, Error, GgufWriter, Problem};

/// Bytes of the tensor of [`write_model`].
const BYTES: usize = 1 << 20;

/// A file with one tensor of ones.
fn write_model(path: &Path) {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", "test").unwrap();
    writer.declare("ones", DType::F32, &[BYTES / 4]).unwrap();
    let mut body = writer.begin(Vec::new()).unwrap();
    body.write(&1f32.to_le_bytes().repeat(BYTES / 4)).unwrap();
    fs::write(path, body.finish().unwrap()).unwrap();
}

fn cut(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

fn sum(model: &Checkpoint) -> f32 {
    model.tensor("ones").unwrap().decode().iter().sum()
}

#[track_caller]
fn assert_names(error: &Error, path: &Path, how: &str) {
    assert!(matches!(error.problem(), Problem::Changed { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(path.to_str().unwrap()), "{text}");
    assert!(text.contains(how) && text.ends_with("while it was in use: load it again"), "{text}");
}

#[test]
fn one_that_is_cut_is_named_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.gguf", "b.gguf"].map(|name| folder.path().join(name));
    write_model(&a);
    write_model(&b);
    let [first, second] = [&a, &b].map(|path| Checkpoint::open(path).unwrap());
    cut(&a, 8192);
    assert!(first.files().check_pages().is_ok(), "nothing was read yet");
    let all = sum(&first);
    assert!(all > 0.0 && all <= 2048.0, "{all}");
    assert_names(&first.files().check_pages().unwrap_err(), &a, "cut");
    assert_names(&first.check_files().unwrap_err(), &a, "was cut from");
    assert_eq!(sum(&second), BYTES as f32 / 4.0);
    second.check_files().unwrap();
    // a page that became zeros stays so, and its entry is free for another mapping afterwards
    assert_eq!(sum(&first), all);
    drop(first);
    write_model(&a);
    let again = Checkpoint::open(&a).unwrap();
    assert_eq!(sum(&again), BYTES as f32 / 4.0);
    again.files().check_pages().unwrap();
    again.check_files().unwrap();
    // threads that read it at the same time
    cut(&a, 0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(sum(&again), 0.0));
        }
    });
    assert_names(&again.files().check_pages().unwrap_err(), &a, "was cut from");
}

#[test]
fn one_that_is_written_to_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    write_model(&path);
    let model = Checkpoint::open(&path).unwrap();
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(std::io::SeekFrom::End(-8)).unwrap();
    file.write_all(&[1; 8]).unwrap();
    // the clock of file systems may stand still for some milliseconds
    file.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
    assert_names(&model.check_files().unwrap_err(), &path, "was written to");
}

#[test]
fn one_that_is_replaced_or_removed_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other] = ["a.gguf", "b.gguf"].map(|name| folder.path().join(name));
    write_model(&path);
    let model = Checkpoint::open(&path).unwrap();
    fs::write(&other, b"another").unwrap();
    fs::rename(&other, &path).unwrap();
    model.check_files().unwrap();
    fs::remove_file(&path).unwrap();
    model.check_files().unwrap();
    assert_eq!(sum(&model), BYTES as f32 / 4.0);
}

/// Every file of a directory is watched.
#[test]
fn a_file_of_a_directory() {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/qwen3");
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(from).unwrap().map(|file| file.unwrap().path()) {
        if file.is_file() && file.extension().is_none_or(|end| end != "gguf") {
            fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
        }
    }
    let model = Checkpoint::open(folder.path()).unwrap();
    model.check_files().unwrap();
    let path = folder.path().join("model.safetensors");
    cut(&path, 100);
    let values: f32 = model.tensors().map(|tensor| tensor.decode().len() as f32).sum();
    assert!(values > 0.0);
    assert_names(&model.check_files().unwrap_err(), &path, "was cut from");
}

/// Reads of this process that end it, in a process of their own.
fn child(what: &str) -> ExitStatus {
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new(test);
    command.args(["--exact", "in_a_process_of_its_own", "--ignored"]).env("PELTON_FAULT", what);
    command.output().unwrap().status
}

#[test]
fn other_faults_go_to_the_handler_before() {
    assert_eq!(child("foreign map, foreign handler").code(), Some(7));
    assert_eq!(child("foreign map, simple handler").code(), Some(8));
    assert_eq!(child("foreign map").signal(), Some(libc::SIGBUS));
    assert_eq!(child("sent, ignored").code(), Some(0));
}

extern "C" fn with_information(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes a valid pointer, and `_exit` may be called in a handler.
    unsafe { libc::_exit(if (*info).si_signo == libc::SIGBUS { 7 } else { 9 }) };
}

extern "C" fn simple(_: i32) {
    // SAFETY: `_exit` may be called in a handler.
    unsafe { libc::_exit(8) };
}

fn set_handler(handler: usize, flags: i32) {
    // SAFETY: zeros are an empty action, and the handlers have the types of their flags.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        assert_eq!(libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()), 0);
    }
}

#[test]
#[ignore = "the process of another test"]
fn in_a_process_of_its_own() {
    let Ok(what) = std::env::var("PELTON_FAULT") else { return };
    match &*what {
        "foreign map, foreign handler" => {
            set_handler(with_information as *const () as usize, libc::SA_SIGINFO);
        }
        "foreign map, simple handler" => set_handler(simple as *const () as usize, 0),
        "sent, ignored" => set_handler(libc::SIG_IGN, 0),
        _ => {}
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    write_model(&path);
    let model = Checkpoint::open(&path).unwrap();
    cut(&path, 0);
    assert_eq!(sum(&model), 0.0);
    if what.starts_with("sent") {
        // SAFETY: the call sends this process a signal.
        unsafe { libc::raise(libc::SIGBUS) };
        return;
    }
    let path: PathBuf = folder.path().join("foreign");
    fs::write(&path, vec![1; 1 << 16]).unwrap();
    // SAFETY: the bytes are only read one by one.
    let map = unsafe { Mmap::map(&File::open(&path).unwrap()) }.unwrap();
    cut(&path, 0);
    assert_eq!(std::hint::black_box(map[1 << 15]), 1);
}
