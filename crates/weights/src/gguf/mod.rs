//! GGUF, the format of llama.cpp.
//!
//! Layout and limits follow the specification, `docs/gguf.md` in github.com/ggml-org/ggml:
//! a header, metadata, tensor descriptions, then the tensors' bytes from an aligned offset on.
//! Everything in a file is checked here, before anything else sees it.

pub(crate) mod cursor;
mod dtype;
mod header;
mod split;
mod tensors;
mod writer;

pub(crate) use header::Part;
pub(crate) use split::{Split, part_path};
pub(crate) use tensors::TensorEntry;
pub use writer::{GgufBody, GgufWriter};

/// The first four bytes of every file.
const MAGIC: [u8; 4] = *b"GGUF";

/// The alignment of a file that has no `general.alignment`.
const DEFAULT_ALIGNMENT: usize = 32;

/// The largest alignment that is accepted. Pages are 4 to 64 KiB, huge ones 2 MiB; more would
/// only be padding.
const MAX_ALIGNMENT: usize = 2 << 20;

/// The longest metadata key, in bytes: "at most 2^16 - 1 bytes long" in the specification.
const MAX_KEY_LEN: usize = (1 << 16) - 1;

/// The longest tensor name, in bytes: "at most 64 bytes long" in the specification.
const MAX_TENSOR_NAME_LEN: usize = 64;

/// The most keys and the most tensors of a file, tens of times what the largest models have.
/// Descriptions take more room in memory than in the file, so their number has to have a bound.
const MAX_ENTRIES: u64 = 1 << 20;

/// The most dimensions of a tensor in the current specification.
const MAX_DIMS: usize = 4;

/// The key that sets a file's alignment.
const ALIGNMENT_KEY: &str = "general.alignment";

/// Whether `general.alignment` may have this value. The specification asks for a multiple of
/// eight; ggml rounds with bit masks and so needs a power of two.
fn alignment_is_valid(alignment: usize) -> bool {
    alignment.is_power_of_two() && (8..=MAX_ALIGNMENT).contains(&alignment)
}

/// What is wrong with a metadata key or tensor name, if anything.
fn name_fault(name: &[u8], longest: usize) -> Option<&'static str> {
    if name.is_empty() {
        Some("empty, expected at least one character")
    } else if name.len() > longest {
        Some(if longest == MAX_KEY_LEN {
            "too long, expected 65535 bytes at most"
        } else {
            "too long, expected 64 bytes at most"
        })
    } else if str::from_utf8(name).is_err() {
        Some("not UTF-8")
    } else if name.contains(&0) {
        Some("a name with a zero byte, expected text")
    } else {
        None
    }
}

/// A name for a message: no more than 64 characters, odd bytes replaced.
fn for_message(name: &[u8]) -> String {
    const SHOWN: usize = 64;
    let shown = name.get(..SHOWN).unwrap_or(name);
    let mut text = String::from_utf8_lossy(shown).into_owned();
    if shown.len() < name.len() {
        text.push('…');
    }
    text
}
