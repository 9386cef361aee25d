//! Changes of a valid ggml file, which a few bytes describe: the whole file is too large for a
//! fuzzer.

use std::sync::LazyLock;

#[path = "bin.rs"]
pub(crate) mod bin;
#[path = "exercise.rs"]
pub(crate) mod exercise;

use bin::RawBin;

#[allow(dead_code, reason = "one of the tests that share this file does not use it")]
static VALID: LazyLock<(Vec<u8>, Vec<usize>)> =
    LazyLock::new(|| RawBin::valid().bytes_and_fields());

/// Applies changes to the valid file and reads the result. A change has two bytes that choose a
/// field, a signed byte added to its offset, the number of bytes that are removed, the number of
/// those that follow and are inserted, and these. A last change that is cut off ends the file at
/// its field. Returns whether the result is a model.
#[allow(dead_code, reason = "one of the tests that share this file does not call it")]
pub(crate) fn read_case(mut changes: &[u8]) -> bool {
    let (valid, fields) = &*VALID;
    let mut file = valid.clone();
    while let [low, high, offset, removed, inserted, rest @ ..] = changes {
        let field = usize::from(u16::from_le_bytes([*low, *high])) % fields.len();
        let at = fields[field].saturating_add_signed(isize::from(*offset as i8)).min(file.len());
        let end = (at + usize::from(*removed)).min(file.len());
        let (new, next) = rest.split_at(usize::from(*inserted).min(rest.len()));
        file.splice(at..end, new.iter().copied());
        changes = next;
    }
    if let [low, high, ..] = changes {
        let field = usize::from(u16::from_le_bytes([*low, *high])) % fields.len();
        file.truncate(fields[field]);
    }
    exercise::exercise(file)
}
