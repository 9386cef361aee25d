//! Headers, which are read and bounded before a decoder is built.
//!
//! A reader of a format finds the size of the picture and how many bytes of memory the decoder
//! takes for a pixel. It refuses what would make a decoder allocate or work beyond that.

mod bmp;
mod bytes;
mod gif;
mod jpeg;
mod png;
mod webp;

use super::kind::Format;
use crate::{ImageError, Job};

/// What a header says.
pub(super) struct Header {
    pub(super) width: u32,
    pub(super) height: u32,
    /// Bytes of memory of the decoder, its output included.
    pub(super) bytes_per_pixel: u64,
}

/// Reads the header of a file.
pub(super) fn read(format: Format, bytes: &[u8], job: &Job<'_>) -> Result<Header, ImageError> {
    match format {
        Format::Bmp => bmp::read(bytes, job),
        Format::Gif => gif::read(bytes, job),
        Format::Jpeg => jpeg::read(bytes, job),
        Format::Png => png::read(bytes, job),
        Format::WebP => webp::read(bytes, job),
    }
}
