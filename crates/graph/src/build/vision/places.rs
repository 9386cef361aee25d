//! Tables of positions, for a picture's own grid.

use pelton_weights::Checkpoint;

use super::family::Places;
use super::plans::VisionTower;
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

/// A table `[rows, width]` of f32.
struct Table {
    values: Vec<f32>,
    width: usize,
}

impl Table {
    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }
}

impl VisionTower {
    /// Appends the summands of each row of a picture `[rows, hidden]`; none without a table.
    pub(super) fn add_place_rows(
        &self,
        checkpoint: &Checkpoint,
        grid: [u32; 2],
        out: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let width = self.hidden;
        let read = |shape: &[usize]| -> Result<Table, Error> {
            Ok(Table { values: checkpoint.require(TABLE, shape)?.decode(), width })
        };
        let [rows, columns] = grid.map(|side| side as usize);
        let places = patches(grid, self.merge).map(|of| of.map(|at| at as usize));
        match self.of.places {
            Places::None => {}
            Places::Table => {
                let table = read(&[width, rows * columns])?;
                places.for_each(|[y, x]| out.extend_from_slice(table.row(y * columns + x)));
            }
            Places::Class => {
                let table = read(&[width, rows * columns + 1])?;
                let class = checkpoint.require(CLASS, &[width])?.decode();
                let bias = match checkpoint.tensor(BIAS) {
                    Some(_) => checkpoint.require(BIAS, &[width])?.decode(),
                    None => vec![0.0; width],
                };
                // its pixels are zeros, to which the patches' summands are added
                let first = table.row(0).iter().zip(&class).zip(&bias);
                out.extend(first.map(|((place, class), bias)| class - bias + place));
                places.for_each(|[y, x]| out.extend_from_slice(table.row(1 + y * columns + x)));
            }
            Places::Axes => {
                let length = checkpoint.tensor(TABLE).map_or(0, |table| table.rows() / 2);
                let table = read(&[width, length, 2])?;
                if rows.max(columns) > length {
                    let found = format!("a picture of {rows} x {columns} patches");
                    return Err(Error::Pass(format!("{found}, expected at most {length} a side")));
                }
                for [y, x] in places {
                    let both = table.row(x).iter().zip(table.row(length + y));
                    out.extend(both.map(|(column, row)| column + row));
                }
            }
            Places::Resampled => {
                let side = checkpoint.tensor(TABLE).map_or(0, |table| table.rows().isqrt());
                let table = read(&[width, side * side])?;
                let (down, across) = (taps(rows, side), taps(columns, side));
                for [y, x] in places {
                    let first = out.len();
                    out.resize(first + width, 0.0);
                    for (row, of_row) in down[y] {
                        for (column, of_column) in across[x] {
                            let values = table.row(row * side + column);
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
