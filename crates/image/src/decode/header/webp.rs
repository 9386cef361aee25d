//! The chunks of a WebP file.
//!
//! The decoder allocates the length that a chunk states and the size that a frame states, so both
//! are compared with the file and with the canvas before.

use super::bytes::Bytes;
use super::facts::Header;
use crate::{ImageError, Job};

/// Greatest number of chunks: those of an animation of 25 minutes, at 60 frames a second.
const CHUNKS: usize = 100_000;
/// The bytes of an animation's frame before its chunks.
const FRAME: usize = 16;

type Size = (u32, u32);

pub(super) fn read(bytes: &[u8], job: &Job<'_>) -> Result<Header, ImageError> {
    let bytes = Bytes::new(bytes, job);
    let canvas = match &bytes.array::<4>(12)? {
        b"VP8X" => (bytes.u24_le(24)? + 1, bytes.u24_le(27)? + 1),
        b"VP8 " => lossy(&bytes, 20)?,
        b"VP8L" => lossless(&bytes, 20)?,
        other => {
            let name = String::from_utf8_lossy(other);
            return Err(job.malformed(format!("its first chunk is {name:?}: expected VP8")));
        }
    };
    let (mut at, mut chunks, mut frames, mut has_alpha) = (12, 0, 0, false);
    while at + 8 <= bytes.all.len() {
        let (kind, content, next) = chunk(&bytes, at, bytes.all.len())?;
        if kind == *b"ANMF" {
            // only the first frame is decoded
            if frames == 0 {
                check_frame(&bytes, content, next)?;
            }
            frames += 1;
        }
        check_picture(&bytes, kind, content, canvas)?;
        has_alpha |= kind == *b"ALPH";
        (at, chunks) = (next, chunks + 1);
        if chunks > CHUNKS {
            return Err(job.beyond(format!("has more than {CHUNKS} chunks, the limit")));
        }
    }
    // The picture in four channels, and then in three. Separate transparency is decoded in four
    // channels too, besides planes. An animation has a canvas and a frame.
    let bytes_per_pixel = match (frames > 0, has_alpha) {
        (true, _) => 20,
        (false, true) => 12,
        (false, false) => 8,
    };
    Ok(Header { width: canvas.0, height: canvas.1, bytes_per_pixel })
}

/// A chunk's kind, the place of its content and that of the next chunk.
fn chunk(bytes: &Bytes<'_>, at: usize, end: usize) -> Result<([u8; 4], usize, usize), ImageError> {
    let (kind, length) = (bytes.array::<4>(at)?, bytes.u32_le(at + 4)? as usize);
    if length > end.saturating_sub(at + 8) {
        let name = String::from_utf8_lossy(&kind);
        let rest = end.saturating_sub(at + 8);
        let problem = format!("its chunk {name:?} has {length} bytes, but {rest} follow");
        return Err(bytes.job.malformed(problem));
    }
    Ok((kind, at + 8, at + 8 + length + length % 2))
}

/// The chunks of an animation's frame.
fn check_frame(bytes: &Bytes<'_>, at: usize, end: usize) -> Result<(), ImageError> {
    let size = (bytes.u24_le(at + 6)? + 1, bytes.u24_le(at + 9)? + 1);
    let mut at = at + FRAME;
    while at + 8 <= end {
        let (kind, content, next) = chunk(bytes, at, end)?;
        check_picture(bytes, kind, content, size)?;
        at = next;
    }
    Ok(())
}

/// Compares the size that the data of a picture state with that of its frame.
fn check_picture(
    bytes: &Bytes<'_>,
    kind: [u8; 4],
    at: usize,
    frame: Size,
) -> Result<(), ImageError> {
    let size = match &kind {
        b"VP8 " => lossy(bytes, at)?,
        b"VP8L" => lossless(bytes, at)?,
        _ => return Ok(()),
    };
    if size == frame {
        return Ok(());
    }
    let ((wide, high), (width, height)) = (size, frame);
    let problem = format!("its data have {wide} x {high} pixels: expected {width} x {height}");
    Err(bytes.job.malformed(problem))
}

/// The size of a lossy picture: RFC 6386, section 9.1.
fn lossy(bytes: &Bytes<'_>, at: usize) -> Result<Size, ImageError> {
    let [width, height] = [bytes.u16_le(at + 6)?, bytes.u16_le(at + 8)?].map(|x| x & 0x3fff);
    Ok((width.into(), height.into()))
}

/// The size of a lossless picture: RFC 9649, section 3.4.
fn lossless(bytes: &Bytes<'_>, at: usize) -> Result<Size, ImageError> {
    let bits = bytes.u32_le(at + 1)?;
    Ok(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
}
