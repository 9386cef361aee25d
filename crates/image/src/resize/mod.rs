//! Resizing with the bits of Pillow.
//!
//! Pillow's `ImagingResample` filters rows and columns in two passes, and rounds to bytes after
//! each. Weights have 22 fraction bits, and a filter gets wider where the picture gets smaller.

mod filter;
mod weights;

pub use filter::Filter;

use crate::{ImageError, Job, Picture, parallel};
use weights::{BITS, Weights};

/// Half of the last place of a result.
const HALF: i32 = 1 << (BITS - 1);
/// Rows between two looks at the job.
const ROWS: usize = 16;
/// Values of a row that are summed together, in registers.
const LANES: usize = 32;

/// Resizes a picture, with the bits of Pillow's `Image.resize`.
///
/// # Errors
///
/// The new size is zero or beyond the job's limits, or the job ends.
pub fn resize(
    picture: &Picture,
    width: u32,
    height: u32,
    filter: Filter,
    job: &Job<'_>,
) -> Result<Picture, ImageError> {
    let (columns, rows) = (picture.width(), picture.height());
    job.check_result(width, height)?;
    let is_wide = width == columns;
    let is_high = height == rows;
    if is_wide || is_high {
        return match (is_wide, is_high) {
            (true, true) => Ok(picture.clone()),
            (true, false) => vertical(picture, height, filter, job),
            _ => horizontal(picture, width, filter, job),
        };
    }
    if is_vertical_first((columns, rows), (width, height)) {
        job.check_result(columns, height)?;
        return horizontal(&vertical(picture, height, filter, job)?, width, filter, job);
    }
    job.check_result(width, rows)?;
    vertical(&horizontal(picture, width, filter, job)?, height, filter, job)
}

/// Which pass comes first, by widths and heights: the order shows where a pass clips.
///
/// Pillow 13 begins with columns where more than twice as many rows go as columns. Versions before
/// always begin with rows.
fn is_vertical_first(from: (u32, u32), to: (u32, u32)) -> bool {
    let gone = |from: u32, to: u32| i64::from(from) - i64::from(to);
    let rows = gone(from.1, to.1);
    rows > 0 && rows > 2 * gone(from.0, to.0)
}

fn horizontal(
    picture: &Picture,
    width: u32,
    filter: Filter,
    job: &Job<'_>,
) -> Result<Picture, ImageError> {
    let weights = Weights::new(filter, picture.width(), width);
    let length = width as usize * 3;
    let mut rgb = vec![0; length * picture.height() as usize];
    parallel::fill(&mut rgb, length, |first, part| {
        for (y, out) in (first..).zip(part.chunks_exact_mut(length)) {
            if y.is_multiple_of(ROWS) {
                job.check()?;
            }
            narrow(picture.row(y as u32), &weights, out);
        }
        Ok(())
    })?;
    Ok(Picture::of(width, picture.height(), rgb))
}

/// A row of another width.
fn narrow(row: &[u8], weights: &Weights, out: &mut [u8]) {
    for (x, pixel) in out.chunks_exact_mut(3).enumerate() {
        let (first, weights) = weights.of(x);
        let mut sums = [HALF; 3];
        for (weight, pixel) in weights.iter().zip(row[first * 3..].chunks_exact(3)) {
            for (sum, value) in sums.iter_mut().zip(pixel) {
                *sum += weight * i32::from(*value);
            }
        }
        for (value, sum) in pixel.iter_mut().zip(sums) {
            *value = byte(sum);
        }
    }
}

fn vertical(
    picture: &Picture,
    height: u32,
    filter: Filter,
    job: &Job<'_>,
) -> Result<Picture, ImageError> {
    let weights = Weights::new(filter, picture.height(), height);
    let length = picture.width() as usize * 3;
    let mut rgb = vec![0; length * height as usize];
    parallel::fill(&mut rgb, length, |begin, part| {
        for (y, out) in (begin..).zip(part.chunks_exact_mut(length)) {
            if y.is_multiple_of(ROWS) {
                job.check()?;
            }
            let (first, weights) = weights.of(y);
            blend(&picture.rgb()[first * length..], length, weights, out);
        }
        Ok(())
    })?;
    Ok(Picture::of(picture.width(), height, rgb))
}

/// The weighted sum of the first of some rows of `length` values.
fn blend(rows: &[u8], length: usize, weights: &[i32], out: &mut [u8]) {
    let mut blocks = out.chunks_exact_mut(LANES);
    let mut at = 0;
    for block in &mut blocks {
        let mut sums = [HALF; LANES];
        for (weight, row) in weights.iter().zip(rows.chunks_exact(length)) {
            let values = &row[at..][..LANES];
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += weight * i32::from(*value);
            }
        }
        for (value, sum) in block.iter_mut().zip(sums) {
            *value = byte(sum);
        }
        at += LANES;
    }
    for value in blocks.into_remainder() {
        let column = rows.iter().skip(at).step_by(length);
        let products = weights.iter().zip(column).map(|(weight, v)| weight * i32::from(*v));
        *value = byte(HALF + products.sum::<i32>());
        at += 1;
    }
}

/// A sum as a byte: the shift is arithmetic, and what is beyond a byte is clipped.
fn byte(sum: i32) -> u8 {
    (sum >> BITS).clamp(0, 255) as u8
}
