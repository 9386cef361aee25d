//! Constants and limits of GGUF, and the validation of names and alignments.

use crate::{Problem, Value};

/// The first four bytes of every file.
pub(super) const MAGIC: [u8; 4] = *b"GGUF";

/// The alignment of a file that has no `general.alignment`.
pub(super) const DEFAULT_ALIGNMENT: usize = 32;

/// The largest accepted alignment: the size of a huge page. Pages are 4 to 64 KiB, huge pages
/// 2 MiB; a larger alignment only adds padding.
pub(super) const MAX_ALIGNMENT: usize = 2 << 20;

/// The longest metadata key, in bytes: "at most 2^16 - 1 bytes long" in the specification.
pub(super) const MAX_KEY_LEN: usize = (1 << 16) - 1;

/// The longest tensor name, in bytes: "at most 64 bytes long" in the specification.
pub(crate) const MAX_TENSOR_NAME_LEN: usize = 64;

/// Maximum number of keys and of tensors in a file, tens of times the counts of the largest
/// models. Descriptions are larger in memory than in the file, so their number must be bounded.
pub(super) const MAX_ENTRIES: u64 = 1 << 20;

/// Maximum number of dimensions of a tensor in the current specification.
pub(crate) const MAX_DIMS: usize = 4;

/// The key that sets a file's alignment.
pub(super) const ALIGNMENT_KEY: &str = "general.alignment";

/// Whether `general.alignment` may have this value. The specification requires a multiple of
/// eight; ggml rounds with bit masks and therefore requires a power of two.
fn alignment_is_valid(alignment: usize) -> bool {
    alignment.is_power_of_two() && (8..=MAX_ALIGNMENT).contains(&alignment)
}

/// The rule that a metadata key or tensor name violates, if any.
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
        Some("a string with a NUL byte, expected text without one")
    } else {
        None
    }
}

/// The name for an error message: at most 64 characters, bytes that are not UTF-8 replaced.
fn for_message(name: &[u8]) -> String {
    const SHOWN: usize = 64;
    let shown = name.get(..SHOWN).unwrap_or(name);
    let mut text = String::from_utf8_lossy(shown).into_owned();
    if shown.len() < name.len() {
        text.push('…');
    }
    text
}

/// Validates a metadata key or tensor name and returns it as text.
pub(crate) fn checked_name<'a>(
    name: &'a [u8],
    longest: usize,
    what: &'static str,
) -> Result<&'a str, Problem> {
    let rejected = |fault| Problem::Name { what: what.to_owned(), name: for_message(name), fault };
    if let Some(fault) = name_fault(name, longest) {
        return Err(rejected(fault));
    }
    str::from_utf8(name).map_err(|_| rejected("not UTF-8"))
}

/// Validates the value of `general.alignment`.
pub(super) fn stated_alignment(value: &Value) -> Result<usize, Problem> {
    match value {
        Value::U32(found) if alignment_is_valid(*found as usize) => Ok(*found as usize),
        other => Err(Problem::Alignment { found: other.describe(), limit: MAX_ALIGNMENT }),
    }
}
