//! Names of models in place of paths, with the feature `hub`.

use std::{env, fs, path::Path, process::Command};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/pelton-tiny.gguf");
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The program `chat` of the examples with a model's name, and a cache with `o/tiny-GGUF`; its
/// output and its errors.
fn chat(name: &str) -> (bool, String, String) {
    let home = tempfile::tempdir().unwrap();
    let repository = home.path().join("hub/models--o--tiny-GGUF");
    for folder in ["refs", &format!("snapshots/{COMMIT}")] {
        fs::create_dir_all(repository.join(folder)).unwrap();
    }
    fs::write(repository.join("refs/main"), COMMIT).unwrap();
    fs::copy(TINY, repository.join(format!("snapshots/{COMMIT}/tiny-Q8_0.gguf"))).unwrap();
    let test = env::current_exe().unwrap();
    let examples = test.parent().and_then(Path::parent).unwrap().join("examples");
    let output = Command::new(examples.join(format!("chat{}", env::consts::EXE_SUFFIX)))
        .arg(name)
        .current_dir(home.path())
        .env("HF_HUB_CACHE", home.path().join("hub"))
        .env("OLLAMA_MODELS", home.path())
        .env("XDG_CACHE_HOME", home.path())
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_name_is_loaded() {
    for name in ["o/tiny-GGUF", "hf.co/o/tiny-GGUF:q8_0"] {
        let (success, said, errors) = chat(name);
        assert!(success && said.contains("> What is 2 plus 3?"), "{name}: {errors}");
    }
}

#[test]
fn a_name_that_is_nowhere() {
    let (success, _, errors) = chat("o/other");
    assert!(
        !success && errors.contains("Error: o/other is not on this machine (hub cache "),
        "{errors}"
    );
    let (success, _, errors) = chat("nobody");
    assert!(
        !success && errors.contains("Error: nobody is neither on this machine (hub cache "),
        "{errors}"
    );
    let (success, _, errors) = chat("nothing.gguf");
    assert!(!success && errors.contains("Error: nothing.gguf: cannot be read: "), "{errors}");
}
