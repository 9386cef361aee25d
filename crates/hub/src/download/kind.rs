//! The first bytes of a file, by which one that is no model is refused before it gets its name.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Bytes at the beginning of a file that are looked at.
const HEAD: usize = 64;
/// Bytes of a GGUF file without keys and tensors: magic, version and two counts.
const GGUF_BYTES: u64 = 24;
/// The largest version of GGUF that is expected; the present one is 3.
const GGUF_VERSION: u32 = 16;
/// The longest header of a safetensors file in bytes, as the library `safetensors` limits it.
const HEADER_BYTES: u64 = 100_000_000;
/// The magic number of ggml files, of which whisper.cpp's are.
const GGML: &[u8] = b"lmgg";

/// Why a file of this name and size is no model, if its name says that it is one.
pub(super) fn fault(path: &Path, name: &str, size: u64) -> io::Result<Option<String>> {
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let is_known = [".gguf", ".safetensors"].iter().any(|ending| name.ends_with(ending))
        || (name.starts_with("ggml-") && name.ends_with(".bin"));
    if !is_known {
        return Ok(None);
    }
    let mut head = Vec::with_capacity(HEAD);
    File::open(path)?.take(HEAD as u64).read_to_end(&mut head)?;
    let expected = match name.rsplit('.').next() {
        Some("gguf") if !is_gguf(&head, size) => "a GGUF file",
        Some("safetensors") if !is_safetensors(&head, size) => "a safetensors file",
        Some("bin") if !head.starts_with(GGML) => "a ggml file of whisper.cpp",
        _ => return Ok(None),
    };
    Ok(Some(format!("its {size} bytes begin with {}, expected {expected}", shown(&head))))
}

fn is_gguf(head: &[u8], size: u64) -> bool {
    let Some(version) = head.strip_prefix(b"GGUF").and_then(|rest| rest.first_chunk()) else {
        return false;
    };
    let versions = [u32::from_le_bytes(*version), u32::from_be_bytes(*version)];
    size >= GGUF_BYTES && versions.iter().any(|version| (1..=GGUF_VERSION).contains(version))
}

fn is_safetensors(head: &[u8], size: u64) -> bool {
    let Some((length, rest)) = head.split_first_chunk() else { return false };
    let length = u64::from_le_bytes(*length);
    (2..=HEADER_BYTES.min(size.saturating_sub(8))).contains(&length) && rest.starts_with(b"{")
}

/// The first bytes of a file for an error: in quotes, or their meaning if it is known.
fn shown(head: &[u8]) -> String {
    if head.is_empty() {
        return "nothing".to_owned();
    }
    if head.starts_with(b"version https://git-lfs") {
        return "a pointer of Git LFS, which stands for the file".to_owned();
    }
    let text = String::from_utf8_lossy(&head[..head.len().min(16)]).into_owned();
    match text.trim_start().starts_with('<') {
        true => format!("{text:?}, as a web page does"),
        false => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_begin_as_their_names_say() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let gguf = [b"GGUF\x03\0\0\0".as_slice(), &[0; 16]].concat();
        let big_endian = [b"GGUF\0\0\0\x03".as_slice(), &[0; 16]].concat();
        let tensors = [b"\x02\0\0\0\0\0\0\0{}".as_slice()].concat();
        for (name, bytes, is_right) in [
            ("m.gguf", &gguf[..], true),
            ("deep/M.GGUF", &big_endian, true),
            ("m.gguf", &gguf[..22], false),
            ("m.gguf", b"GGUF\xff\xff\xff\xff................", false),
            ("m.gguf", b"<!DOCTYPE html>", false),
            ("m.gguf", b"", false),
            ("m.safetensors", &tensors, true),
            ("m.safetensors", &tensors[..9], false),
            ("m.safetensors", &gguf, false),
            ("ggml-tiny.bin", b"lmgg....", true),
            ("ggml-tiny.bin", b"PK......", false),
            ("config.json", b"<", true),
            ("pytorch_model.bin", b"PK", true),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let fault = fault(&path, name, bytes.len() as u64).unwrap();
            assert_eq!(fault.is_none(), is_right, "{name}: {fault:?}");
        }
        std::fs::write(&path, "version https://git-lfs.github.com/spec/v1").unwrap();
        assert!(fault(&path, "m.gguf", 42).unwrap().unwrap().contains("a pointer of Git LFS"));
    }
}
