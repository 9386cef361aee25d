//! Files that commands write: regular ones are replaced whole, and nothing else is replaced at all.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt, symlink},
    path::Path,
    process::Command,
    thread,
};

use super::{fixture, refused, run, stdout, temporary};

/// A command up to its output, the option of the output, and what follows it.
type Case = (Vec<String>, Vec<String>);

/// Each command that writes a file, with small work.
fn commands() -> Vec<Case> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (wide, llama) = (fixture("models/llama-wide"), fixture("models/llama3"));
    let text = temporary("outputs.txt");
    fs::write(&text, "Once upon a time there was a cat. ".repeat(20)).unwrap();
    let text = text.to_str().unwrap();
    vec![
        (words(&["quantize", &wide]), words(&["q8_0", "--force"])),
        (words(&["convert", &llama]), words(&["--force"])),
        (words(&["logits", &llama, "--ids", "1,2", "-o"]), vec![]),
        (words(&["embed", "built-in", "Hi", "--pooling", "last", "-o"]), vec![]),
        (
            words(&["imatrix", "built-in", text, "-c", "32", "--windows", "1", "--force", "-o"]),
            vec![],
        ),
        (
            words(&["perplexity", "built-in", text, "-c", "32", "--windows", "1", "--save-base"]),
            vec![],
        ),
        (
            words(&["compare", "built-in", "built-in", text, "-c", "32", "--windows", "1"]),
            words(&["--force"]),
        ),
        (words(&["effort", "pack", &fixture("models/falcon-40b")]), vec![]),
    ]
    .into_iter()
    .map(|(mut before, after): Case| {
        if before[0] == "compare" {
            before.push("--plot".to_owned());
        }
        (before, after)
    })
    .collect()
}

fn write(case: &Case, to: &Path) -> std::process::Output {
    let to = to.to_str().unwrap();
    let words: Vec<&str> = case.0.iter().map(String::as_str).chain([to]).collect();
    run(&[&words[..], &case.1.iter().map(String::as_str).collect::<Vec<_>>()].concat())
}

/// A link stays one and its file is replaced, with its permissions; a pipe gets the same bytes and
/// stays; a device stays.
#[test]
fn only_regular_files_are_replaced() {
    for case in commands() {
        let name = &case.0[0];
        let folder = temporary(&format!("outputs-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        let plain = at("plain");
        let output = write(&case, &plain);
        assert!(output.status.success(), "{name}: {output:?}");
        let expected = fs::read(&plain).unwrap();
        assert!(!expected.is_empty(), "{name}");

        fs::write(at("target"), "old").unwrap();
        fs::set_permissions(at("target"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("target", at("link")).unwrap();
        assert!(write(&case, &at("link")).status.success(), "{name}");
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink(), "{name}");
        assert_eq!(fs::read(at("target")).unwrap(), expected, "{name}");
        let mode = fs::metadata(at("target")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{name}");

        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        let fifo = at("fifo");
        let reader = thread::spawn(move || fs::read(fifo).unwrap());
        let output = write(&case, &at("fifo"));
        assert!(output.status.success(), "{name}: {output:?}");
        assert_eq!(reader.join().unwrap(), expected, "{name}");
        assert!(fs::metadata(at("fifo")).unwrap().file_type().is_fifo(), "{name}");

        assert!(write(&case, Path::new("/dev/null")).status.success(), "{name}");
        let null = fs::metadata("/dev/null").unwrap();
        assert!(null.file_type().is_char_device(), "{name}");
        let mut left: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["fifo", "link", "plain", "target"], "{name}");
    }
}

#[test]
fn folders_and_sockets_are_refused() {
    let folder = temporary("outputs-refused");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let model = fixture("models/llama-wide");
    let to =
        |path: &Path| refused(&["quantize", &model, path.to_str().unwrap(), "q8_0", "--force"], 1);
    assert!(to(&folder).contains("it is a folder, expected a file"));
    let socket = folder.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(to(&socket).contains("it is a socket, expected a file"));
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    // standard output has a name, and no file beside it
    let words = ["convert", &fixture("models/llama3"), "/dev/stdout"];
    assert!(run(&words).stdout.starts_with(b"GGUF"));
    assert_eq!(stdout(&run(&["list"])), "");
}
