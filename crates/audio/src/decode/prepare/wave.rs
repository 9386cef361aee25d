//! WAV: chunks before the samples are hidden, and sizes that were never written are mended.
//!
//! A writer that cannot seek leaves sizes of 0, of 2^32 − 1, or those of an empty file. The samples
//! then reach to the end of the file. RF64 and BW64 (EBU Tech 3306, ITU-R BS.2088) have sizes of 64
//! bits in `ds64`.

use super::walked::{CHUNKS, Walked};
use crate::decode::input::{Change, Input};

/// Bytes of a header of a chunk.
const HEADER: u64 = 8;

pub(super) fn walk(input: &mut Input) -> Result<Walked, String> {
    let mut walked = Walked::whole(input);
    let length = input.length();
    // The reader wants this name, and no bound by the size of the outer chunk.
    walked.changes.push(Change::new(0, b"RIFF\xff\xff\xff\xff"));
    let (mut at, mut block, mut wide) = (12, 1, None);
    for _ in 0..CHUNKS {
        let Some(head) = input.array::<8>(at) else { return Ok(walked) };
        let size = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        let content = at + HEADER;
        match &head[..4] {
            b"data" => {
                let stated = match wide {
                    Some(wide) if size == 0 || size == u64::from(u32::MAX) => wide,
                    _ => size,
                };
                data(&mut walked, content, length, stated, block);
                return Ok(walked);
            }
            b"fmt " => {
                let format = input.array::<14>(content);
                block = format.map_or(1, |f| u64::from(u16::from_le_bytes([f[12], f[13]]))).max(1);
            }
            b"ds64" => wide = input.array::<8>(content + 8).map(u64::from_le_bytes),
            _ => walked.changes.push(Change::new(at, b"JUNK")),
        }
        at = content + size + (size & 1);
    }
    Err(format!("it has {CHUNKS} chunks before its samples, expected fewer"))
}

/// Mends the size of the chunk with the samples, and ends the part with it.
fn data(walked: &mut Walked, content: u64, length: u64, stated: u64, block: u64) {
    let rest = length - content;
    let is_written = stated != 0 && stated != u64::from(u32::MAX);
    let size = if is_written { stated } else { rest / block * block };
    // a greater size means samples up to the end of the part
    let field = u32::try_from(size).unwrap_or(u32::MAX);
    walked.changes.push(Change::new(content - 4, &field.to_le_bytes()));
    walked.part.end = content.saturating_add(size).min(length);
}
