//! Pictures as rows of patches.

use super::plan::Grid;
use super::size::Area;
use super::tower::Tower;
use super::values::Values;
use crate::Picture;

/// The order of the values of a patch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Channels {
    /// Channel, row, column.
    First,
    /// Row, column, channel.
    Last,
}

/// Appends the patches of an area, in the order of [`Grid`], and their rows and columns.
pub(super) fn append(
    picture: &Picture,
    area: Area,
    grid: Grid,
    tower: Tower,
    channels: Channels,
    values: &Values,
    out: &mut Vec<f32>,
) {
    let patch = tower.patch;
    for (row, column) in grid.places() {
        let (x, y) = (area.x + column * patch, area.y + row * patch);
        let line = |y: u32| {
            let row = picture.row(y);
            row[x as usize * 3..][..patch as usize * 3].chunks_exact(3)
        };
        match channels {
            Channels::First => {
                for (channel, table) in values.table.iter().enumerate() {
                    for y in y..y + patch {
                        out.extend(line(y).map(|pixel| table[usize::from(pixel[channel])]));
                    }
                }
            }
            Channels::Last => {
                for y in y..y + patch {
                    out.extend(line(y).flat_map(|pixel| {
                        let values = pixel.iter().zip(values.table.iter());
                        values.map(|(byte, table)| table[usize::from(*byte)])
                    }));
                }
            }
        }
    }
}
