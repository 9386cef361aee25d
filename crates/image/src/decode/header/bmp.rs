//! The header of a BMP file.

use super::bytes::Bytes;
use super::facts::Header;
use crate::{ImageError, Job};

/// The size of the oldest header, whose numbers have 16 bits.
const CORE: u32 = 12;

pub(super) fn read(bytes: &[u8], job: &Job<'_>) -> Result<Header, ImageError> {
    let bytes = Bytes::new(bytes, job);
    let (width, height) = if bytes.u32_le(14)? == CORE {
        (bytes.u16_le(18)?.into(), bytes.u16_le(20)?.into())
    } else {
        // a negative height says that the first row is the top one
        let height = bytes.u32_le(22)?.cast_signed().unsigned_abs();
        (bytes.u32_le(18)?, height)
    };
    Ok(Header { width, height, bytes_per_pixel: 4 })
}
