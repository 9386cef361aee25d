//! Files of other formats, and what stands in a file's place.

use crate::Problem;

/// The first bytes of a Git LFS pointer (github.com/git-lfs/git-lfs, docs/spec.md).
const LFS: &[u8] = b"version https://git-lfs";

/// The problem of a text or a model file that is a Git LFS pointer.
pub(crate) fn lfs_pointer(bytes: &[u8]) -> Option<Problem> {
    bytes.starts_with(LFS).then_some(Problem::LfsPointer)
}

/// The problem of a file that is no GGUF file, if its first bytes say what it is.
pub(crate) fn recognized(bytes: &[u8]) -> Option<Problem> {
    const CONVERT: &str = "use the .safetensors files of its repository, or a .gguf file";
    let foreign = |what, advice| Some(Problem::Foreign { what, advice });
    match bytes {
        [] => Some(Problem::Empty),
        _ if bytes.starts_with(LFS) => Some(Problem::LfsPointer),
        [b'P', b'K', 3, 4, ..] => foreign("a PyTorch file or another ZIP archive", CONVERT),
        // a pickle of protocol 2 to 5, as old versions of PyTorch wrote it
        [0x80, 2..=5, ..] => foreign("a PyTorch file (pickle)", CONVERT),
        // ModelProto's ir_version, then another of its first fields
        [0x08, 1..=31, 0x12 | 0x1a | 0x22 | 0x28 | 0x32 | 0x3a | 0x42, ..] => {
            foreign("an ONNX file", CONVERT)
        }
        [_, _, _, _, _, _, 0, 0, b'{', ..] => foreign(
            "a .safetensors file",
            "give the folder that it is in, with its config.json and tokenizer.json",
        ),
        _ if is_html(bytes) => {
            foreign("a web page", "download the file itself, as by a link with /resolve/ in it")
        }
        _ => None,
    }
}

fn is_html(bytes: &[u8]) -> bool {
    let head = bytes.get(..bytes.len().min(64)).unwrap_or_default();
    let head = head.trim_ascii_start().to_ascii_lowercase();
    head.starts_with(b"<!doctype") || head.starts_with(b"<html")
}
