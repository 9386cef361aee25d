//! Ops on whole rows.

use pelton_graph::{Pooling, TableRow};

use crate::batch::BatchRow;

/// The row of a table that is added to a row.
pub(super) fn table_row(table: TableRow, row: &BatchRow, vocab: usize) -> usize {
    match table {
        TableRow::Position => row.position as usize,
        TableRow::Fixed(row) => row,
        TableRow::TokenType => row.token as usize / vocab,
    }
}

/// `x + y`, in place.
pub(super) fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// `f(x)` of each element, in place.
pub(super) fn each(x: &mut [f32], f: impl Fn(f64) -> f64) {
    for x in x {
        *x = f(f64::from(*x)) as f32;
    }
}

/// The weights of a head, from those of a head or of all heads.
pub(super) fn of_head(all: &[f32], head: usize, head_dim: usize) -> &[f32] {
    match all.len() == head_dim {
        true => all,
        false => &all[head * head_dim..(head + 1) * head_dim],
    }
}

/// `Σ_s weights[s] · y[s]` of `y` `[used, width]`.
pub(super) fn weighted_sum(y: &[f32], weights: &[f32], o: &mut [f32]) {
    let width = o.len();
    for (i, o) in o.iter_mut().enumerate() {
        let values = weights.iter().zip(y.chunks(width));
        *o = values.map(|(&weight, y)| f64::from(weight) * f64::from(y[i])).sum::<f64>() as f32;
    }
}

/// The summary of the rows of a sequence, at least one.
pub(super) fn pool<'a>(
    pooling: Pooling,
    mut rows: impl Iterator<Item = &'a [f32]> + Clone,
    y: &mut [f32],
) {
    match pooling {
        Pooling::Mean => {
            let count = rows.clone().count() as f64;
            for (i, y) in y.iter_mut().enumerate() {
                *y = (rows.clone().map(|row| f64::from(row[i])).sum::<f64>() / count) as f32;
            }
        }
        Pooling::First => rows.next().into_iter().for_each(|row| y.copy_from_slice(row)),
        Pooling::Last => rows.last().into_iter().for_each(|row| y.copy_from_slice(row)),
    }
}
