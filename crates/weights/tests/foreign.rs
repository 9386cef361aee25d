//! Files that are not what their names say, incomplete downloads, and folders that hold a model in
//! another form: the errors name what was found.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/folders.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod folders;
#[path = "common/raw.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod raw;

use std::fs;
use std::path::Path;

use folders::Folder;
use pelton_weights::{Checkpoint, Source};
use raw::RawFile;

/// As git-lfs writes it (its docs/spec.md).
const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n\
     oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 1503300328\n";

#[track_caller]
fn rejected(path: &Path) -> String {
    Checkpoint::open(path).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn other_formats_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let safetensors = Folder::valid().safetensors();
    for (name, bytes, words) in [
        ("pointer.gguf", POINTER.as_bytes(), &["Git LFS pointer", "`git lfs pull`"][..]),
        ("pytorch_model.bin", b"PK\x03\x04\x00\x00\x08\x08", &["PyTorch", ".safetensors"]),
        // the first bytes of torch.save with _use_new_zipfile_serialization=False
        ("old.pt", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", &["PyTorch"]),
        // onnx.ModelProto with ir_version 8 and producer_name "pytorch"
        ("model.onnx", b"\x08\x08\x12\x07pytorch\x1a\x052.0.1", &["ONNX"]),
        ("empty.gguf", b"", &["empty"]),
        ("model.safetensors", &safetensors, &[".safetensors file", "folder"]),
        ("page.gguf", b"<!doctype html>\n<html>", &["web page"]),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let said = rejected(&path);
        assert!(words.iter().all(|word| said.contains(word)), "{name}: {said}");
    }
}

#[test]
fn pointers_in_a_folder_are_named() {
    for name in ["model.safetensors", "config.json", "tokenizer.json"] {
        let folder = Folder::valid().written();
        let path = folder.path().join(name);
        fs::write(&path, POINTER).unwrap();
        let said = rejected(folder.path());
        let expected = format!("{}: a Git LFS pointer", path.display());
        assert!(said.starts_with(&expected), "{said}");
    }
}

#[test]
fn an_incomplete_download_has_its_sizes() {
    let folder = Folder::valid().written();
    let path = folder.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 4]).unwrap();
    let said = rejected(folder.path());
    let sizes = format!("incomplete: {} of {} bytes", bytes.len() - 4, bytes.len());
    assert!(said.contains(&sizes), "{said}");

    let mut large = RawFile::with_b(|b| b.dims = vec![100 << 20]);
    large.data = vec![0; 3 << 20];
    let path = folder.path().join("large.gguf");
    fs::write(&path, large.bytes()).unwrap();
    let said = rejected(&path);
    assert!(said.contains("incomplete: 3 of 400 MiB"), "{said}");
}

#[test]
fn folders_of_other_systems() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
    };
    let valid = RawFile::valid().bytes();
    // LM Studio: one file, and an encoder of images next to it
    write("one/model-Q4_K_M.gguf", &valid);
    write("one/mmproj-model.gguf", &valid);
    let one = Checkpoint::open(folder.path().join("one")).unwrap();
    assert_eq!(Path::new(one.name()), folder.path().join("one").join("model-Q4_K_M.gguf"));
    assert_eq!(one.source(), Source::Gguf);
    write("one/model-Q8_0.gguf", &valid);
    let said = rejected(&folder.path().join("one"));
    assert!(
        said.contains("2 models") && said.contains("model-Q4_K_M.gguf, model-Q8_0.gguf"),
        "{said}"
    );
    // PEFT
    write("adapter/adapter_config.json", b"{}");
    let said = rejected(&folder.path().join("adapter"));
    assert!(said.contains("LoRA adapter"), "{said}");
    // the hub's cache: refs/main names the snapshot; without it there must be one
    let hub = folder.path().join("models--owner--name");
    write("models--owner--name/snapshots/aaa/x.gguf", &valid);
    assert!(Checkpoint::open(&hub).unwrap().name().contains("aaa"));
    write("models--owner--name/snapshots/bbb/x.gguf", &valid);
    assert!(rejected(&hub).contains("2 models"));
    write("models--owner--name/refs/main", b"bbb");
    assert!(Checkpoint::open(&hub).unwrap().name().contains("bbb"));
}
