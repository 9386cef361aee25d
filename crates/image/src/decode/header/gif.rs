//! The header of a GIF file, up to the size of its first frame.

use super::bytes::Bytes;
use super::facts::Header;
use crate::{ImageError, Job};

/// The bytes before the table of colours.
const HEAD: usize = 13;

/// The bytes of a table of colours, by the flags of its owner.
fn table(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

pub(super) fn read(bytes: &[u8], job: &Job<'_>) -> Result<Header, ImageError> {
    let bytes = Bytes::new(bytes, job);
    let (width, height) = (bytes.u16_le(6)?, bytes.u16_le(8)?);
    let mut at = HEAD + table(bytes.byte(10)?);
    loop {
        match bytes.byte(at)? {
            // an extension: its label, then blocks of bytes up to an empty one
            0x21 => {
                at += 2;
                loop {
                    let length = bytes.byte(at)?;
                    at += 1 + usize::from(length);
                    if length == 0 {
                        break;
                    }
                }
            }
            0x2c => break,
            0x3b => return Err(job.malformed("it has no frame")),
            other => {
                let problem = format!("its block {other:#04x} is none of the format GIF");
                return Err(job.malformed(problem));
            }
        }
    }
    let [left, top] = [bytes.u16_le(at + 1)?, bytes.u16_le(at + 3)?].map(u32::from);
    let [wide, high] = [bytes.u16_le(at + 5)?, bytes.u16_le(at + 7)?].map(u32::from);
    if left + wide > width.into() || top + high > height.into() || wide == 0 || high == 0 {
        return Err(job.malformed(format!(
            "its first frame of {wide} x {high} pixels at {left}, {top} is not within {width} x {height}"
        )));
    }
    // the picture and the frame in four channels, and the frame's colours
    Ok(Header { width: width.into(), height: height.into(), bytes_per_pixel: 9 })
}
