//! Matrices with weights sorted within buckets of 16 outputs (`pelton_quant`), as kernels read them.
//!
//! A buffer has four sections of words. *Codes*: for each chunk of 64 inputs and each tile of 512
//! outputs the lines of its inputs, for each rank 16 words with the codes of two neighbouring buckets
//! each. *Means* in f16, those of the 16 ranks of an input one after the other. *Probes*: an input and
//! a weight in f32 each. The *unit* of all three, a power of two in f32.

use std::{
    sync::{Mutex, PoisonError},
    thread,
};

use pelton_graph::{EffortMode, Error, Plan, Weight};
use pelton_quant::{BUCKET, BucketSource, PROBES, bucket_exponent, pack_buckets};

use crate::device::Device;

/// Inputs of a chunk.
pub(crate) const CHUNK: usize = 64;
/// Words of a line: two buckets each.
pub(crate) const LINE: usize = 16;
/// Outputs of a tile.
pub(crate) const TILE: usize = 2 * LINE * BUCKET;

/// The shape of a matrix `[rows, cols]` of which the first ranks of each bucket are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) ranks: usize,
}

impl Buckets {
    /// Tiles of outputs.
    pub(crate) const fn tiles(&self) -> usize {
        self.rows.div_ceil(TILE)
    }

    /// Chunks of inputs.
    pub(crate) const fn chunks(&self) -> usize {
        self.cols.div_ceil(CHUNK)
    }

    /// Words of the codes of a chunk.
    const fn chunk_words(&self) -> usize {
        self.tiles() * CHUNK * self.ranks * LINE
    }

    /// The first words of means, probes and unit, and the number of all.
    pub(crate) const fn sections(&self) -> [usize; 4] {
        let means = self.chunks() * self.chunk_words();
        let probes = means + self.cols * BUCKET / 2;
        let unit = probes + 2 * PROBES;
        [means, probes, unit, unit + 1]
    }

    /// The words of a matrix, sorted by some threads.
    pub(crate) fn packed(&self, source: &BucketSource<'_>, threads: usize) -> Vec<u32> {
        let threads = threads.max(1);
        let [means_at, probes_at, unit_at, end] = self.sections();
        let greatest = Mutex::new(0.0_f32);
        let rows = self.rows.div_ceil(threads);
        thread::scope(|scope| {
            for first in (0..self.rows).step_by(rows) {
                let greatest = &greatest;
                scope.spawn(move || {
                    let own = source.greatest(first..self.rows.min(first + rows));
                    let mut greatest = greatest.lock().unwrap_or_else(PoisonError::into_inner);
                    *greatest = greatest.max(own);
                });
            }
        });
        let exponent = bucket_exponent(*greatest.lock().unwrap_or_else(PoisonError::into_inner));
        let scale = 2.0_f32.powi(exponent);
        let mut all = vec![0; end];
        all[unit_at] = 2.0_f32.powi(-exponent).to_bits();
        let probes = all[probes_at..unit_at].chunks_exact_mut(2);
        for (to, (input, weight)) in probes.zip(source.probes(scale)) {
            to.copy_from_slice(&[input, weight.to_bits()]);
        }
        let (codes, rest) = all.split_at_mut(means_at);
        let means = &mut rest[..probes_at - means_at];
        let each = self.chunks().div_ceil(threads);
        let codes = codes.chunks_mut(each * self.chunk_words());
        let means = means.chunks_mut(each * CHUNK * BUCKET / 2);
        thread::scope(|scope| {
            for (i, (codes, means)) in codes.zip(means).enumerate() {
                scope.spawn(move || self.pack_chunks(source, scale, i * each, codes, means));
            }
        });
        all
    }

    /// Sorts the inputs of chunks from `first` on.
    fn pack_chunks(
        &self,
        source: &BucketSource<'_>,
        scale: f32,
        first: usize,
        codes: &mut [u32],
        means: &mut [u32],
    ) {
        let buckets = self.rows / BUCKET;
        let mut packed = vec![0; self.rows];
        let chunks = codes.chunks_mut(self.chunk_words());
        for (i, (codes, means)) in chunks.zip(means.chunks_mut(CHUNK * BUCKET / 2)).enumerate() {
            let start = (first + i) * CHUNK;
            let inputs = start..self.cols.min(start + CHUNK);
            let columns = source.columns(inputs, scale);
            let inputs = columns.chunks_exact(self.rows).zip(means.chunks_exact_mut(BUCKET / 2));
            for (input, (column, means)) in inputs.enumerate() {
                let of = pack_buckets(column, &mut packed);
                for (to, pair) in means.iter_mut().zip(of.chunks_exact(2)) {
                    *to = word(pair[0].to_bits(), pair[1].to_bits());
                }
                for tile in 0..self.tiles() {
                    let lines = (tile * CHUNK + input) * self.ranks * LINE;
                    for rank in 0..self.ranks {
                        let from = &packed[rank * buckets..][..buckets];
                        let from = &from[tile * 2 * LINE..buckets.min((tile + 1) * 2 * LINE)];
                        let to = &mut codes[lines + rank * LINE..][..LINE];
                        for (to, pair) in to.iter_mut().zip(from.chunks(2)) {
                            *to = word(pair[0], pair.get(1).copied().unwrap_or(0));
                        }
                    }
                }
            }
        }
    }
}

/// Two values of 16 bits, the first in the lower half.
fn word(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// Whether a plan's marked matrices have sorted buckets.
pub(crate) fn has_buckets(plan: &Plan) -> bool {
    plan.effort.mode == EffortMode::Bucket && plan.has_effort()
}

/// Whether those of its ranks that are left out are nowhere, so that no row runs densely.
pub(crate) fn is_partial(plan: &Plan) -> bool {
    has_buckets(plan) && plan.effort.ranks < BUCKET
}

/// The buckets of a marked weight.
///
/// # Errors
/// [`Error::Effort`] if its type or its shape has none.
pub(crate) fn buckets_of(plan: &Plan, weight: &Weight) -> Result<Buckets, Error> {
    let &Weight { rows, row_len: cols, dtype, .. } = weight;
    match dtype.block_len() == 1 && rows.is_multiple_of(BUCKET) {
        true => Ok(Buckets { rows, cols, ranks: plan.effort.ranks }),
        false => Err(Error::Effort(format!(
            "tensor '{}' is {rows} x {cols} in {dtype}, expected F16, BF16 or F32 with a multiple \
             of 16 outputs for buckets",
            weight.name
        ))),
    }
}

/// Bytes of the sorted buckets of a plan.
pub(super) fn resident_bytes(plan: &Plan) -> u64 {
    let marked = plan.weights.iter().filter(|weight| weight.effort && has_buckets(plan));
    let bytes = marked.filter_map(|weight| buckets_of(plan, weight).ok());
    bytes.fold(0, |all, of| all.saturating_add(4 * of.sections()[3] as u64))
}

/// A matrix with sorted buckets on the GPU.
#[derive(Debug)]
pub(crate) struct SortedBuckets(pub(super) wgpu::Buffer);

impl SortedBuckets {
    /// The buffer of a matrix, without its content.
    pub(super) fn new(device: &Device, name: &str, shape: Buckets) -> Result<Self, Error> {
        let (bytes, most) = (4 * shape.sections()[3] as u64, device.capabilities.binding_bytes);
        if bytes > most {
            return Err(Error::Effort(format!(
                "tensor '{name}' takes {bytes} bytes in sorted buckets, expected at most {most} of a \
                 matrix on this GPU"
            )));
        }
        Ok(Self(device.buffer(name, bytes)?))
    }

    /// All sections.
    pub(crate) fn binding(&self) -> wgpu::BufferBinding<'_> {
        self.0.as_entire_buffer_binding()
    }
}
