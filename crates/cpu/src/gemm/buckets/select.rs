//! The ranks of each input that a row multiplies.

use std::cell::UnsafeCell;

use pelton_graph::Effort;
use pelton_quant::{BUCKET, PROBES};

use super::pack::Buckets;

/// An input of which a row multiplies the first ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Entry {
    pub(super) input: u32,
    pub(super) ranks: u32,
    /// The activation, times the matrix's power of two.
    pub(super) x: f32,
}

/// The selections of several rows, and the memory of the threads that make them.
#[derive(Debug)]
pub struct Selections {
    rows: Box<[UnsafeCell<Vec<Entry>>]>,
    products: Box<[UnsafeCell<Vec<u32>>]>,
}

// SAFETY: plain data; the contracts of `select` and `multiply` keep writers and readers apart.
unsafe impl Sync for Selections {}

impl Selections {
    /// Memory for `rows` rows of up to `cols` inputs, selected by `threads` threads.
    pub fn new(rows: usize, cols: usize, threads: usize) -> Self {
        let rows = (0..rows).map(|_| UnsafeCell::new(Vec::with_capacity(cols)));
        let products = (0..threads).map(|_| UnsafeCell::new(Vec::with_capacity(PROBES)));
        Self { rows: rows.collect(), products: products.collect() }
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub fn bytes(rows: usize, cols: usize, threads: usize) -> u128 {
        let entries = rows as u128 * cols as u128 * size_of::<Entry>() as u128;
        entries + threads as u128 * 4 * PROBES as u128
    }

    /// Selects the ranks of the inputs `x` `[cols]` as row `to`: those whose mean product exceeds
    /// the cutoff of an effort, and all ranks that are kept at effort 1.
    ///
    /// # Safety
    /// No other thread reads or writes row `to`, nor calls this as thread `thread`.
    ///
    /// # Panics
    /// If there is no such row, or `x` is of another length.
    pub unsafe fn select(
        &self,
        thread: usize,
        to: usize,
        matrix: &Buckets,
        x: &[f32],
        effort: Effort,
    ) {
        assert_eq!(x.len(), matrix.cols, "rows of another length");
        // SAFETY: the caller's promise.
        let (to, products) =
            unsafe { (&mut *self.rows[to].get(), &mut *self.products[thread].get()) };
        let cutoff = cutoff(matrix, x, effort, products);
        to.clear();
        for (input, (&x, means)) in x.iter().zip(matrix.means.chunks_exact(BUCKET)).enumerate() {
            let ranks = match cutoff {
                None => matrix.ranks,
                // a NaN exceeds no cutoff, and must reach the results
                Some(_) if x.is_nan() => matrix.ranks,
                Some(cutoff) => {
                    let means = &means[..matrix.ranks];
                    means.iter().map(|mean| usize::from(x.abs() * mean > cutoff)).sum()
                }
            };
            if ranks > 0 {
                let x = x * matrix.unit;
                to.push(Entry { input: input as u32, ranks: ranks as u32, x });
            }
        }
    }

    /// The entries of a row.
    ///
    /// # Safety
    /// The row has been selected, and is not being written.
    pub(super) unsafe fn row(&self, row: usize) -> &[Entry] {
        // SAFETY: the caller's promise.
        unsafe { &*self.rows[row].get() }
    }

    /// The fraction of all weights of a matrix that a row multiplies.
    ///
    /// # Safety
    /// As for [`multiply`](super::multiply()).
    pub unsafe fn fraction(&self, row: usize, matrix: &Buckets) -> f64 {
        // SAFETY: the caller's promise.
        let entries = unsafe { self.row(row) };
        let ranks: u64 = entries.iter().map(|entry| u64::from(entry.ranks)).sum();
        ranks as f64 / (matrix.cols * BUCKET) as f64
    }
}

/// The magnitude of a product above which a fraction of all is: exactly the one of its rank among
/// the products with the probes. `None` at effort 1, where no product is left out.
pub(super) fn cutoff(
    matrix: &Buckets,
    x: &[f32],
    effort: Effort,
    products: &mut Vec<u32>,
) -> Option<f32> {
    let index = effort.cutoff(matrix.probes.len())?;
    products.clear();
    // magnitudes are in the order of their bits
    let product = |&(input, weight): &(u32, f32)| (x[input as usize] * weight).abs().to_bits();
    products.extend(matrix.probes.iter().map(product));
    let (_, cutoff, _) = products.select_nth_unstable(index);
    Some(f32::from_bits(*cutoff))
}
