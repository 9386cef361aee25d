//! Headers, which are read and bounded before a decoder is built.
//!
//! A reader of a format finds the size of the picture and how many bytes of memory the decoder
//! takes for a pixel. It refuses what would make a decoder allocate or work beyond that.

mod bmp;
mod bytes;
mod facts;
mod gif;
mod jpeg;
mod png;
mod webp;

pub(super) use facts::Header;

use super::kind::Format;
use crate::{ImageError, Job};

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
