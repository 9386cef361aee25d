//! AIFF and AIFF-C: only the format and the samples are shown, with sizes that the file can hold.

use super::walked::{CHUNKS, Walked};
use crate::decode::input::{Change, Input};

/// Bytes of a header of a chunk.
const HEADER: u64 = 8;

pub(super) fn walk(input: &mut Input) -> Result<Walked, String> {
    let mut walked = Walked::whole(input);
    let length = input.length();
    let mut at = 12;
    for _ in 0..CHUNKS {
        let Some(head) = input.array::<8>(at) else { return Ok(end(walked, at)) };
        let mut size = u64::from(u32::from_be_bytes([head[4], head[5], head[6], head[7]]));
        let rest = length - at - HEADER;
        match &head[..4] {
            b"SSND" => {
                // a size of 0 was never written: the samples reach to the end
                if size == 0 || size > rest {
                    size = rest;
                    walked.changes.push(Change::new(at + 4, &(size as u32).to_be_bytes()));
                }
            }
            // a chunk that the file cuts off ends it
            _ if size > rest => return Ok(end(walked, at)),
            b"COMM" | b"FVER" => {}
            _ => walked.changes.push(Change::new(at, b"JUNK")),
        }
        at += HEADER + size + (size & 1);
    }
    Err(format!("it has {CHUNKS} chunks, expected fewer"))
}

/// Ends the part at a place, and the outer chunk with it: bytes that are no chunk would be an error
/// of the reader.
fn end(mut walked: Walked, at: u64) -> Walked {
    walked.part.end = walked.part.end.min(at);
    let size = u32::try_from(walked.part.end.saturating_sub(HEADER)).unwrap_or(u32::MAX);
    walked.changes.push(Change::new(4, &size.to_be_bytes()));
    walked
}
