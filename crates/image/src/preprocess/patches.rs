//! Pictures as rows of patches.

use super::plan::Grid;
use super::size::Area;
use super::tower::Tower;
use super::values::Values;
use crate::{ImageError, Picture, parallel};

/// The order of the values of a patch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Channels {
    /// Channel, row, column.
    First,
    /// Row, column, channel.
    Last,
}

/// Fills `out` with the patches of an area, in the order of [`Grid`].
pub(super) fn fill(
    picture: &Picture,
    area: Area,
    (grid, tower): (Grid, Tower),
    channels: Channels,
    values: &Values,
    out: &mut [f32],
) -> Result<(), ImageError> {
    let patch = tower.patch;
    let width = 3 * (patch as usize).pow(2);
    let places: Vec<(u32, u32)> = grid.places().collect();
    parallel::fill(out, width, |first, part| {
        for ((row, column), out) in places[first..].iter().zip(part.chunks_exact_mut(width)) {
            let (x, y) = (area.x + column * patch, area.y + row * patch);
            let lines = (y..y + patch).map(|y| {
                let row = picture.row(y);
                &row[x as usize * 3..][..patch as usize * 3]
            });
            match channels {
                Channels::First => planes(lines, values, out),
                Channels::Last => pixels(lines, values, out),
            }
        }
        Ok(())
    })
}

/// The values of a patch with these rows of pixels, one channel after another.
fn planes<'a>(
    lines: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    values: &Values,
    out: &mut [f32],
) {
    let side = lines.len();
    let planes = out.chunks_exact_mut(side * side).zip(values.table.iter());
    for (channel, (plane, table)) in planes.enumerate() {
        for (line, out) in lines.clone().zip(plane.chunks_exact_mut(side)) {
            for (pixel, out) in line.chunks_exact(3).zip(out) {
                *out = table[usize::from(pixel[channel])];
            }
        }
    }
}

/// The values of a patch with these rows of pixels, one pixel after another.
fn pixels<'a>(lines: impl Iterator<Item = &'a [u8]>, values: &Values, out: &mut [f32]) {
    let pixels = lines.flat_map(|line| line.chunks_exact(3));
    for (pixel, out) in pixels.zip(out.chunks_exact_mut(3)) {
        for ((byte, table), out) in pixel.iter().zip(values.table.iter()).zip(out) {
            *out = table[usize::from(*byte)];
        }
    }
}
