//! Decoding of files within limits.

mod header;
mod kind;
mod reader;
mod rgb;

use crate::{ImageError, Job, Picture};
use header::Header;
use image::codecs::{bmp::BmpDecoder, gif::GifDecoder, jpeg::JpegDecoder, png::PngDecoder};
use image::{DynamicImage, ImageDecoder, ImageResult, RgbImage, codecs::webp::WebPDecoder};
use kind::Format;
use reader::Watched;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of memory for a file's metadata, a profile of colours for example.
const METADATA: u64 = 32 << 20;
/// Bytes of a pixel that conversion and rotation take besides the decoder's own.
const RESULT: u64 = 3;

/// Reads a picture.
///
/// The format is found by the content: PNG, JPEG, WebP, GIF (its first frame) or BMP. The
/// orientation that EXIF states is applied, transparency is put on white, and profiles of colours
/// are ignored. The header is compared with the limits before anything is allocated.
///
/// # Errors
///
/// The bytes are no picture of a supported format, are damaged or beyond a limit, or the job ends.
///
/// ```
/// use pelton_image::{Job, Limits, decode};
///
/// # fn main() -> Result<(), pelton_image::ImageError> {
/// # const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pictures/rgb.png");
/// # let bytes = std::fs::read(FILE).unwrap_or_default();
/// let picture = decode(&bytes, &Job::new("an upload", Limits::default(), &|| false))?;
/// assert_eq!((picture.width(), picture.height()), (37, 53));
/// # Ok(())
/// # }
/// ```
pub fn decode(bytes: &[u8], job: &Job<'_>) -> Result<Picture, ImageError> {
    job.check()?;
    job.check_bytes(bytes.len())?;
    let format = kind::format(bytes, job)?;
    let header = header::read(format, bytes, job)?;
    job.check_size(header.width, header.height, header.bytes_per_pixel + RESULT)?;
    let decoded = catch_unwind(AssertUnwindSafe(|| pixels(format, bytes, &header, job)));
    // a decoder reports the end of a job as a failure to read
    job.check()?;
    decoded.map_err(|_| job.malformed("its decoder gave up on it"))?
}

/// Builds a decoder and runs it.
fn pixels(
    format: Format,
    bytes: &[u8],
    header: &Header,
    job: &Job<'_>,
) -> Result<Picture, ImageError> {
    let input = Watched::new(bytes, *job);
    let failed = |error: image::ImageError| job.malformed(problem(&error));
    match format {
        Format::Bmp => run(BmpDecoder::new(input), header, job),
        Format::Gif => run(GifDecoder::new(input), header, job),
        Format::Jpeg => run(JpegDecoder::new(input), header, job),
        Format::WebP => run(WebPDecoder::new(input), header, job),
        Format::Png => {
            let mut limits = image::Limits::default();
            limits.max_alloc = Some(METADATA);
            run(PngDecoder::with_limits(input, limits), header, job)
        }
    }
    .map_err(failed)?
}

/// The sentence of a decoder's error without its first words, which say that decoding failed.
fn problem(error: &image::ImageError) -> String {
    use std::error::Error;
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    format!("its decoder says {:?}", text.trim())
}

fn run(
    decoder: ImageResult<impl ImageDecoder>,
    header: &Header,
    job: &Job<'_>,
) -> ImageResult<Result<Picture, ImageError>> {
    let mut decoder = decoder?;
    let (width, height) = decoder.dimensions();
    if (width, height) != (header.width, header.height) {
        return Ok(Err(job.malformed("two of its headers state different sizes")));
    }
    let kind = decoder.color_type();
    let bytes = u64::from(width) * u64::from(height) * u64::from(kind.bytes_per_pixel());
    let orientation = decoder.orientation()?;
    let mut pixels = vec![0; bytes as usize];
    let mut limits = image::Limits::default();
    limits.max_alloc = Some(job.limits().memory);
    decoder.set_limits(limits)?;
    decoder.read_image(&mut pixels)?;
    if rgb::convert(&mut pixels, kind).is_none() {
        return Ok(Err(job.malformed(format!("its pixels are of the unknown kind {kind:?}"))));
    }
    let Some(picture) = RgbImage::from_raw(width, height, pixels) else {
        return Ok(Err(job.malformed("its pixels are not of its size")));
    };
    let mut picture = DynamicImage::ImageRgb8(picture);
    picture.apply_orientation(orientation);
    let (width, height) = (picture.width(), picture.height());
    let mut rgb = picture.into_rgb8().into_raw();
    rgb.shrink_to_fit();
    Ok(Picture::new(width, height, rgb).ok_or_else(|| job.malformed("it has no pixels")))
}
