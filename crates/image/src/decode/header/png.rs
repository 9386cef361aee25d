//! The chunks of a PNG file before its pixels.

use super::bytes::Bytes;
use super::facts::Header;
use crate::{ImageError, Job};

/// The place of the first chunk.
const FIRST: usize = 8;
/// Bytes of a chunk besides its content: length, kind and checksum.
const FRAME: usize = 12;
/// The kind of colours that are indices into a palette.
const INDEXED: u8 = 3;

pub(super) fn read(bytes: &[u8], job: &Job<'_>) -> Result<Header, ImageError> {
    let bytes = Bytes::new(bytes, job);
    if bytes.array(FIRST + 4)? != *b"IHDR" {
        return Err(job.malformed("its first chunk is not IHDR"));
    }
    let (depth, colours) = (bytes.byte(24)?, bytes.byte(25)?);
    check_palette(&bytes, colours)?;
    let bytes_per_pixel = if depth == 16 { 8 } else { 4 };
    Ok(Header { width: bytes.u32_be(16)?, height: bytes.u32_be(20)?, bytes_per_pixel })
}

/// The sizes of a palette and its transparency, which the decoder does not compare.
fn check_palette(bytes: &Bytes<'_>, colours: u8) -> Result<(), ImageError> {
    let (mut at, mut palette) = (FIRST, None);
    // a file that ends here is the decoder's to report
    while let Ok(kind) = bytes.array::<4>(at + 4) {
        let length = bytes.u32_be(at)? as usize;
        match &kind {
            b"IDAT" => break,
            b"PLTE" if !(1..=256).any(|count| count * 3 == length) || palette.is_some() => {
                let problem =
                    format!("its palette has {length} bytes: expected one of 1 to 256 colours");
                return Err(bytes.job.malformed(problem));
            }
            b"PLTE" => palette = Some(length / 3),
            b"tRNS" if colours == INDEXED && length > palette.unwrap_or(0) => {
                let count = palette.unwrap_or(0);
                let problem = format!("{length} of its {count} colours are transparent");
                return Err(bytes.job.malformed(problem));
            }
            _ => {}
        }
        at = at.saturating_add(FRAME).saturating_add(length);
    }
    Ok(())
}
