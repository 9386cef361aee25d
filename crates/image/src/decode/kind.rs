//! The format of a file by its first bytes.

use crate::{ImageError, Job};

/// A format that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Bmp,
    Gif,
    Jpeg,
    Png,
    WebP,
}

/// Beginnings of files whose formats are not decoded: a place, the bytes there, the name.
const OTHERS: &[(usize, &[u8], &str)] = &[
    (4, b"ftypheic", "a HEIC picture"),
    (4, b"ftypheix", "a HEIC picture"),
    (4, b"ftypheim", "a HEIC picture"),
    (4, b"ftypheis", "a HEIC picture"),
    (4, b"ftyphevc", "a HEIC picture"),
    (4, b"ftypmif1", "a HEIF picture"),
    (4, b"ftypmsf1", "a HEIF picture"),
    (4, b"ftypavif", "an AVIF picture"),
    (4, b"ftypavis", "an AVIF picture"),
    (4, b"ftyp", "a video"),
    (0, b"\x1a\x45\xdf\xa3", "a video"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"II*\0", "a TIFF picture"),
    (0, b"MM\0*", "a TIFF picture"),
    (0, b"\xff\x0a", "a JPEG XL picture"),
    (0, b"\0\0\0\x0cJXL ", "a JPEG XL picture"),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000 picture"),
    (0, b"\0\0\x01\0", "an ICO picture"),
    (0, b"8BPS", "a Photoshop document"),
];

/// Bytes in which the root of an SVG document is looked for.
const SVG_HEAD: usize = 1_024;

/// Finds the format of a file.
pub(super) fn format(bytes: &[u8], job: &Job<'_>) -> Result<Format, ImageError> {
    let at = |place: usize, mark: &[u8]| bytes.get(place..).is_some_and(|b| b.starts_with(mark));
    let name = || job.name().to_owned();
    if at(0, b"\x89PNG\r\n\x1a\n") {
        return Ok(Format::Png);
    }
    if at(0, b"\xff\xd8\xff") {
        return Ok(Format::Jpeg);
    }
    if at(0, b"RIFF") && at(8, b"WEBP") {
        return Ok(Format::WebP);
    }
    if at(0, b"GIF87a") || at(0, b"GIF89a") {
        return Ok(Format::Gif);
    }
    if at(0, b"BM") {
        return Ok(Format::Bmp);
    }
    if let Some((.., format)) = OTHERS.iter().find(|(place, mark, _)| at(*place, mark)) {
        return Err(ImageError::Format { name: name(), format });
    }
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(SVG_HEAD)]);
    let is_markup = head.trim_start_matches('\u{feff}').trim_start().starts_with('<');
    if is_markup && head.contains("<svg") {
        return Err(ImageError::Format { name: name(), format: "an SVG drawing" });
    }
    Err(ImageError::Unknown { name: name() })
}
