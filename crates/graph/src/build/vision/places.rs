//! Tables of positions, for a picture's own grid.

use super::super::tensors::Tensors;
use super::family::Places;
use super::sizes::Sizes;
use crate::Error;

/// The table of positions, whose rows are added to patches.
const TABLE: &str = "v.position_embd.weight";
/// The values that the row of a class begins with.
const CLASS: &str = "v.class_embd";
/// The summands of all patches.
const BIAS: &str = "v.patch_embd.bias";

/// The row and the column of each patch of a grid: a square of `merge · merge` patches after
/// another, in the order of rows, and so the patches of a square.
pub(super) fn patches([rows, columns]: [u32; 2], merge: u32) -> impl Iterator<Item = [u32; 2]> {
    let squares = (0..rows / merge).flat_map(move |y| (0..columns / merge).map(move |x| (y, x)));
    squares.flat_map(move |(y, x)| {
        let inside = (0..merge).flat_map(move |dy| (0..merge).map(move |dx| (dy, dx)));
        inside.map(move |(dy, dx)| [y * merge + dy, x * merge + dx])
    })
}

/// The rows that are added to patches, decoded.
#[derive(Clone, Debug)]
pub(super) struct PlaceRows {
    kind: Places,
    /// `[rows, width]`.
    values: Vec<f32>,
    width: usize,
    /// Rows of a side of a table that pictures of several grids share.
    side: usize,
    /// The row of a class.
    class: Vec<f32>,
}

impl PlaceRows {
    /// The table of a file.
    pub(super) fn read(
        kind: Places,
        sizes: &Sizes,
        tensors: &mut Tensors<'_>,
    ) -> Result<Self, Error> {
        let width = sizes.hidden;
        let one = sizes.side.map_or(0, |side| side * side);
        let rows = tensors.dim(TABLE, 1);
        let (shape, side) = match kind {
            Places::None => (Vec::new(), 0),
            Places::Table => (vec![width, one], 0),
            Places::Class => (vec![width, one + 1], 0),
            Places::Axes => (vec![width, rows, 2], rows),
            Places::Resampled => (vec![width, rows.isqrt().pow(2)], rows.isqrt()),
        };
        let mut values = match shape.is_empty() {
            true => Vec::new(),
            false => tensors.decode(TABLE, &shape)?,
        };
        let mut class = Vec::new();
        if kind == Places::Class {
            let patches = values.split_off(width);
            class = std::mem::replace(&mut values, patches);
            let bias = match tensors.has(BIAS) {
                true => tensors.decode(BIAS, &[width])?,
                false => vec![0.0; width],
            };
            let own = tensors.decode(CLASS, &[width])?;
            // its pixels are zeros, to which the patches' summands are added
            for ((place, own), bias) in class.iter_mut().zip(&own).zip(&bias) {
                *place += own - bias;
            }
        }
        Ok(Self { kind, values, width, side, class })
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }

    /// Appends the summands of each row of a picture `[rows, width]`; none without a table. `merge`
    /// is the number of patches of a square's side.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the picture has more patches on a side than the table.
    pub(super) fn add_to(
        &self,
        out: &mut Vec<f32>,
        grid: [u32; 2],
        merge: u32,
    ) -> Result<(), Error> {
        let (width, side) = (self.width, self.side);
        let [rows, columns] = grid.map(|side| side as usize);
        let places = patches(grid, merge).map(|of| of.map(|at| at as usize));
        match self.kind {
            Places::None => {}
            Places::Table | Places::Class => {
                out.extend_from_slice(&self.class);
                places.for_each(|[y, x]| out.extend_from_slice(self.row(y * columns + x)));
            }
            Places::Axes => {
                if rows.max(columns) > side {
                    let found = format!("a picture of {rows} x {columns} patches");
                    return Err(Error::Pass(format!("{found}, expected at most {side} a side")));
                }
                for [y, x] in places {
                    let both = self.row(x).iter().zip(self.row(side + y));
                    out.extend(both.map(|(column, row)| column + row));
                }
            }
            Places::Resampled => {
                let (down, across) = (taps(rows, side), taps(columns, side));
                for [y, x] in places {
                    let first = out.len();
                    out.resize(first + width, 0.0);
                    for (row, of_row) in down[y] {
                        for (column, of_column) in across[x] {
                            let values = self.row(row * side + column);
                            let sums = out[first..].iter_mut().zip(values);
                            sums.for_each(|(sum, value)| *sum += of_row * of_column * value);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// The two places of a table's side between which each of `count` places lies, and their factors:
/// the corners lie on each other (PyTorch's bilinear `interpolate` with `align_corners`).
fn taps(count: usize, side: usize) -> Vec<[(usize, f32); 2]> {
    let last = side.saturating_sub(1);
    let step = last as f32 / count.saturating_sub(1).max(1) as f32;
    let of = |i| {
        let at = i as f32 * step;
        let first = (at as usize).min(last);
        let part = at - first as f32;
        [(first, 1.0 - part), ((first + 1).min(last), part)]
    };
    (0..count).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_in_squares() {
        let places: Vec<_> = patches([2, 4], 2).collect();
        let expected = [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]];
        assert_eq!(places, expected);
    }

    /// torch.nn.functional.interpolate(torch.tensor([0., 1, 4, 9]).reshape(1, 1, 1, 4),
    /// size=(1, n), mode="bilinear", align_corners=True), of PyTorch 2.15.
    #[test]
    fn taps_are_those_of_torch() {
        let table = [0.0, 1.0, 4.0, 9.0f32];
        let at = |n| -> Vec<f32> {
            let of = |taps: [(usize, f32); 2]| taps.iter().map(|(i, of)| table[*i] * of).sum();
            taps(n, table.len()).into_iter().map(of).collect()
        };
        assert_eq!(at(1), [0.0]);
        assert_eq!(at(2), [0.0, 9.0]);
        let close = |found: &[f32], expected: &[f32]| {
            assert_eq!(found.len(), expected.len());
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?}");
        };
        close(&at(3), &[0.0, 2.5, 9.0]);
        close(&at(6), &[0.0, 0.6, 1.6, 3.4, 6.0, 9.0]);
    }
}
