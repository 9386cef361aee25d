//! FLAC: all blocks of metadata but the first, with the stream's format, become padding.

use super::tags;
use super::walked::{CHUNKS, Walked};
use crate::decode::input::{Change, Input};

/// The type of a block that has no meaning.
const PADDING: u8 = 1;
/// The bit of the last block.
const LAST: u8 = 0x80;

pub(super) fn walk(input: &mut Input) -> Result<Walked, String> {
    let mut walked = Walked { part: tags::end(input), ..Walked::whole(input) };
    let mut at = 4;
    for _ in 0..CHUNKS {
        let Some([kind, a, b, c]) = input.array(at) else { return Ok(walked) };
        if kind & !LAST > PADDING {
            walked.changes.push(Change::new(at, &[PADDING | kind & LAST]));
        }
        if kind & LAST != 0 {
            return Ok(walked);
        }
        at += 4 + u64::from(u32::from_be_bytes([0, a, b, c]));
    }
    Err(format!("it has {CHUNKS} blocks of metadata, expected fewer"))
}
