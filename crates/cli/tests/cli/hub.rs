//! Models by name, from a hub on this machine.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Output,
    sync::Arc,
    thread,
};

use super::{pelton, stdout, temporary};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn hub(files: &[(&'static str, Vec<u8>)]) -> String {
    hub_of("o/tiny-GGUF", files)
}

/// A hub without ranges and without large-file storage, whose only repository has
/// these files; its address.
pub(super) fn hub_of(repository: &'static str, files: &[(&'static str, Vec<u8>)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let files: Arc<BTreeMap<_, _>> = Arc::new(files.iter().cloned().collect());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let files = Arc::clone(&files);
            thread::spawn(move || serve(&stream, repository, &files));
        }
    });
    address
}

fn serve(mut stream: &TcpStream, repository: &str, files: &BTreeMap<&'static str, Vec<u8>>) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (method, path) = (words[0], words[1].split('?').next().unwrap());
        for header in lines.by_ref() {
            if header.is_ok_and(|header| header.is_empty()) {
                break;
            }
        }
        let resolve = format!("/{repository}/resolve/{COMMIT}/");
        let api = format!("/api/models/{repository}/");
        let (status, body) = match path.strip_prefix(&*api) {
            Some(rest) if rest.starts_with("revision/") => {
                (200, serde_json::json!({ "sha": COMMIT }).to_string().into_bytes())
            }
            Some(_) => {
                let list = files.iter().map(|(name, bytes)| {
                    serde_json::json!({ "type": "file", "path": name, "size": bytes.len() })
                });
                (200, serde_json::Value::from_iter(list).to_string().into_bytes())
            }
            None => match path.strip_prefix(&*resolve).and_then(|name| files.get(name)) {
                Some(bytes) => (200, bytes.clone()),
                None => (404, Vec::new()),
            },
        };
        let head = format!(
            "HTTP/1.1 {status} Status\r\nETag: \"v1\"\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut answer = head.into_bytes();
        if method != "HEAD" {
            answer.extend(body);
        }
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn on(hub: &str, cache: &Path, args: &[&str]) -> Output {
    pelton().args(args).env("HF_ENDPOINT", hub).env("HF_HUB_CACHE", cache).output().unwrap()
}

#[test]
fn a_model_is_pulled_listed_shown_run_and_removed() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/pelton-tiny.gguf");
    let hub = hub(&[("tiny-Q8_0.gguf", fs::read(file).unwrap()), ("tiny-Q4_0.gguf", vec![0; 9])]);
    let cache = temporary("hub-pull");
    let _ = fs::remove_dir_all(&cache);
    let on = |args: &[&str]| on(&hub, &cache, args);

    // the first use downloads, and says so
    let question = ["-p", "What is 7 plus 5?", "-n", "40", "--temp", "0"];
    let output = on(&[&["run", "-hf", "o/tiny-GGUF:q8_0"][..], &question].concat());
    assert!(stdout(&output).contains("12"), "{output:?}");
    let noted = String::from_utf8(output.stderr).unwrap();
    assert!(noted.contains("downloading o/tiny-GGUF:Q8_0, "), "{noted}");
    // the second one needs no hub
    for words in
        [&["run", "o/tiny-GGUF", "--offline"][..], &["run", "-m", "hf.co/o/tiny-GGUF:Q8_0"]]
    {
        let output = self::on("http://127.0.0.1:1", &cache, &[words, &question].concat());
        assert!(stdout(&output).contains("12"), "{output:?}");
    }
    let path = stdout(&on(&["pull", "o/tiny-GGUF:Q8_0"]));
    assert_eq!(fs::read(path.trim()).unwrap(), fs::read(file).unwrap());
    let refused = on(&["run", "o/tiny-GGUF:Q4_0", "--offline", "x"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let refused = on(&["pull", "o/tiny-GGUF:Q6_K"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("there is no Q6_K; there are Q4_0, Q8_0"), "{said}");

    assert!(stdout(&on(&["ls"])).contains("o/tiny-GGUF:Q8_0"));
    let list: serde_json::Value = serde_json::from_str(&stdout(&on(&["list", "--json"]))).unwrap();
    assert_eq!(list[0]["name"], "o/tiny-GGUF:Q8_0");
    assert_eq!(list[0]["bytes"], fs::metadata(file).unwrap().len());
    let shown: serde_json::Value =
        serde_json::from_str(&stdout(&on(&["show", "o/tiny-GGUF", "--json"]))).unwrap();
    assert_eq!(shown["path"], path.trim());
    assert!(shown["parameters"].as_u64().unwrap() > 6_000_000, "{shown}");
    assert!(stdout(&on(&["inspect", "o/tiny-GGUF"])).contains("context_length"));

    let removed = on(&["rm", "o/tiny-GGUF:Q8_0"]);
    assert!(removed.status.success(), "{removed:?}");
    assert_eq!(stdout(&on(&["list"])), "");
    assert!(!Path::new(path.trim()).exists());
    assert_eq!(on(&["rm", "o/tiny-GGUF:Q8_0"]).status.code(), Some(1));
}

/// A draft model and an adapter by their names: both are downloaded, and the text is the same.
#[test]
fn drafts_and_adapters_have_names() {
    let folder = temporary("hub-drafts");
    let _ = fs::remove_dir_all(&folder);
    let base = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/pelton-tiny.gguf");
    let hub = hub(&[("tiny-Q8_0.gguf", fs::read(base).unwrap())]);
    let question = ["--raw", "-p", "Once upon a", "-n", "8", "--temp", "0"];
    let alone = on(&hub, &folder, &[&["run", base][..], &question].concat());
    let drafted = ["run", base, "--draft", "o/tiny-GGUF:Q8_0", "--speculate", "always"];
    let drafted = on(&hub, &folder, &[&drafted[..], &question].concat());
    assert_eq!(stdout(&drafted), stdout(&alone));
    let noted = String::from_utf8(drafted.stderr).unwrap();
    assert!(noted.contains("downloading o/tiny-GGUF:Q8_0, "), "{noted}");
    // a model is no adapter: the download came before that was seen
    let adapted = ["run", base, "--lora", "o/tiny-GGUF:Q8_0=0.5", "--offline"];
    let adapted = on("http://127.0.0.1:1", &folder, &[&adapted[..], &question].concat());
    assert_eq!(adapted.status.code(), Some(1), "{adapted:?}");
    let said = String::from_utf8(adapted.stderr).unwrap();
    assert!(said.contains("tiny-Q8_0.gguf"), "{said}");
    let offline = ["run", base, "--lora", "o/other", "--offline"];
    let offline = on("http://127.0.0.1:1", &folder, &[&offline[..], &question].concat());
    assert!(String::from_utf8(offline.stderr).unwrap().contains("o/other is not on this machine"));
}

/// Bytes that begin as a GGUF file does.
fn head(length: usize) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.resize(length, 0);
    bytes
}

/// A file past the limit of sizes is an error with its name, and no signal.
#[cfg(unix)]
#[test]
fn a_limit_of_sizes_is_an_error() {
    let cache = temporary("hub-limit");
    let _ = fs::remove_dir_all(&cache);
    let hub = hub(&[("tiny-Q8_0.gguf", head(3 << 20))]);
    let program = env!("CARGO_BIN_EXE_pelton");
    let mut command = std::process::Command::new("sh");
    super::alone(&mut command);
    let output = command
        .args(["-c", &format!("ulimit -f 1000; exec {program} pull o/tiny-GGUF:Q8_0")])
        .envs([("HF_ENDPOINT", hub.as_str()), ("HF_HUB_CACHE", cache.to_str().unwrap())])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("File too large") && said.contains("incomplete"), "{said}");
}

/// A file that a hub has under the name of a model, and that is none, is refused and not listed.
#[test]
fn what_is_no_model_is_no_success() {
    let cache = temporary("hub-no-model");
    let _ = fs::remove_dir_all(&cache);
    let hub = hub(&[("tiny-Q8_0.gguf", b"<!DOCTYPE html><html>!".to_vec())]);
    let output = on(&hub, &cache, &["pull", "o/tiny-GGUF:Q8_0"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("its 22 bytes begin with \"<!DOCTYPE html><\""), "{said}");
    assert_eq!(stdout(&on(&hub, &cache, &["list"])), "");
}

/// The quantization is said with the memory that decided.
#[test]
fn the_choice_by_memory_is_said() {
    let cache = temporary("hub-memory");
    let _ = fs::remove_dir_all(&cache);
    let hub = hub(&[("tiny-Q8_0.gguf", head(90)), ("tiny-Q4_0.gguf", head(9))]);
    let pulled = on(&hub, &cache, &["pull", "o/tiny-GGUF"]);
    assert!(stdout(&pulled).contains("tiny-Q8_0.gguf"));
    let said = String::from_utf8(pulled.stderr).unwrap();
    if cfg!(target_os = "linux") {
        assert!(said.contains("the most exact one that fits"), "{said}");
        assert!(said.contains("; counted are 70% of the "), "{said}");
    }
}
