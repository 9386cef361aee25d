//! Matrices with sorted buckets, in tiles.

use std::sync::Mutex;
use std::sync::PoisonError;

use half::f16;
use memmap2::MmapMut;
use pelton_quant::{
    BUCKET, BucketSource, DType, PROBES, bucket_exponent, bucket_position, pack_buckets,
};

use crate::pool::{Pool, SharedMut};

/// Outputs of a tile: 16 words of a rank, to whose multiples a partition between threads is
/// aligned.
pub const BUCKET_OUTPUTS: usize = BUCKET * LANES;
/// Codes of a rank of a tile.
pub(super) const LANES: usize = 16;
/// Inputs that a task packs.
const INPUTS: usize = 32;

/// A matrix `[rows, cols]` with sorted buckets, of which the first ranks alone can be kept.
#[derive(Debug)]
pub struct Buckets {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) ranks: usize,
    /// Codes `[tiles, cols, ranks, 16]`: those of a rank of the buckets of a tile.
    pub(super) codes: MmapMut,
    /// The mean magnitude of each rank `[cols, all ranks]`, 0 of those that are not kept.
    pub(super) means: Vec<f32>,
    /// Inputs and weights of some products.
    pub(super) probes: Vec<(u32, f32)>,
    /// The power of two that codes, means and probes are multiples of.
    pub(super) unit: f32,
}

/// The parts of a matrix as they are in a file, all of whose bytes are little-endian.
#[derive(Clone, Copy, Debug)]
pub struct BucketParts<'a> {
    /// Codes `[all ranks, cols, rows / 16]`, 16 bits each.
    pub codes: &'a [u8],
    /// Mean magnitudes `[all ranks, cols]` in f16.
    pub means: &'a [u8],
    /// Inputs and weights `[4096, 2]` in f32.
    pub probes: &'a [u8],
    /// The power of two in f32.
    pub unit: &'a [u8],
}

impl Buckets {
    /// The number of rows: outputs of the product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns: inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes of the codes of a matrix, of which some ranks are kept. `None` if its rows are no
    /// whole buckets, or there are not as many ranks.
    pub fn bytes_of((rows, cols): (usize, usize), ranks: usize) -> Option<usize> {
        let has_ranks = (1..=BUCKET).contains(&ranks);
        if rows == 0 || cols == 0 || !has_ranks || !rows.is_multiple_of(BUCKET) {
            return None;
        }
        let outputs = rows.checked_next_multiple_of(BUCKET_OUTPUTS)?;
        (outputs / BUCKET).checked_mul(cols)?.checked_mul(2 * ranks)
    }

    fn zeroed((rows, cols): (usize, usize), ranks: usize) -> Option<Self> {
        let codes = MmapMut::map_anon(Self::bytes_of((rows, cols), ranks)?).ok()?;
        // fewer misses of address translation; without them it is as correct
        #[cfg(target_os = "linux")]
        let _ = codes.advise(memmap2::Advice::HugePage);
        let (means, probes) = (vec![0.0; cols * BUCKET], Vec::with_capacity(PROBES));
        Some(Self { rows, cols, ranks, codes, means, probes, unit: 1.0 })
    }

    /// Sorts a matrix whose rows lie one after the other, and keeps its first ranks. `None` if the
    /// type is not [sorted](pelton_quant::can_sort), the rows are no whole buckets, the bytes have
    /// another shape, or the system refuses the memory.
    pub fn new(
        dtype: DType,
        (rows, cols): (usize, usize),
        from: &[u8],
        ranks: usize,
        pool: &Pool,
    ) -> Option<Self> {
        let source = BucketSource::new(dtype, (rows, cols), from)?;
        let mut all = Self::zeroed((rows, cols), ranks)?;
        let greatest = Mutex::new(0.0_f32);
        pool.run(|worker| {
            let own = source.greatest(worker.split(rows, 1));
            let mut greatest = greatest.lock().unwrap_or_else(PoisonError::into_inner);
            *greatest = greatest.max(own);
        });
        let greatest = greatest.into_inner().unwrap_or_else(PoisonError::into_inner);
        let exponent = bucket_exponent(greatest);
        let scale = 2.0_f32.powi(exponent);
        all.unit = 2.0_f32.powi(-exponent);
        all.probes.extend(source.probes(scale));
        let codes: &mut [u16] = bytemuck::cast_slice_mut(&mut all.codes);
        let (codes, means) = (SharedMut::new(codes), SharedMut::new(&mut all.means));
        let words = rows / BUCKET;
        pool.run(|worker| {
            let mut packed = vec![0; words * BUCKET];
            for unit in worker.split(cols.div_ceil(INPUTS), 1) {
                let inputs = unit * INPUTS..cols.min((unit + 1) * INPUTS);
                let columns = source.columns(inputs.clone(), scale);
                for (i, input) in inputs.enumerate() {
                    let column = &columns[i * rows..][..rows];
                    let first = input * BUCKET;
                    // SAFETY: one thread writes the means and the codes of an input; so below.
                    let means = unsafe { means.slice_mut(first..first + ranks) };
                    let of_means = pack_buckets(column, &mut packed);
                    for (to, mean) in means.iter_mut().zip(of_means) {
                        *to = mean.to_f32();
                    }
                    for (tile, lanes) in (0..words).step_by(LANES).enumerate() {
                        let place = (tile * cols + input) * ranks * LANES;
                        // SAFETY: as above, the place is of this input alone.
                        let to = unsafe { codes.slice_mut(place..place + ranks * LANES) };
                        let count = LANES.min(words - lanes);
                        for (rank, to) in to.chunks_exact_mut(LANES).enumerate() {
                            let from = &packed[rank * words + lanes..][..count];
                            to[..count].copy_from_slice(from);
                        }
                    }
                }
            }
        });
        Some(all)
    }

    /// Copies the first ranks of the parts of a file, and reads no others.
    ///
    /// # Errors
    /// The fault of the parts: their sizes, or values that no sorted matrix has.
    pub fn from_parts(
        (rows, cols): (usize, usize),
        parts: &BucketParts<'_>,
        ranks: usize,
        pool: &Pool,
    ) -> Result<Self, String> {
        let BucketParts { codes, means, probes, unit } = *parts;
        let words = rows / BUCKET;
        let of_rank = Self::bytes_of((rows, cols), ranks).and_then(|_| words.checked_mul(2 * cols));
        let all = of_rank.and_then(|bytes| bytes.checked_mul(BUCKET));
        let means_bytes = cols.checked_mul(2 * BUCKET);
        let sizes = [all, means_bytes, Some(8 * PROBES), Some(4)];
        let found = [codes, means, probes, unit].map(|part| Some(part.len()));
        if sizes != found {
            return Err("has parts of another shape".to_owned());
        }
        let mut all = Self::zeroed((rows, cols), ranks).ok_or("needs more memory than there is")?;
        let float = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        all.unit = float(unit);
        if !all.unit.is_normal() || all.unit.to_bits() & 0x807f_ffff != 0 {
            return Err(format!("has the unit {}, expected a power of two", all.unit));
        }
        for pair in probes.chunks_exact(8) {
            let (input, weight) = (float(pair), float(&pair[4..]));
            if !(input >= 0.0 && input < cols as f32 && input.fract() == 0.0 && weight.is_finite())
            {
                return Err(format!("has a probe of input {input}, expected one below {cols}"));
            }
            all.probes.push((input as u32, weight));
        }
        for (at, mean) in means.chunks_exact(2).enumerate().take(ranks * cols) {
            let (rank, input) = (at / cols, at % cols);
            let mean = f16::from_le_bytes([mean[0], mean[1]]).to_f32();
            let place = input * BUCKET + rank;
            let before = if rank == 0 { f32::MAX } else { all.means[place - 1] };
            if !(mean >= 0.0 && mean <= before) {
                return Err(format!(
                    "has the mean {mean} of rank {rank}, expected at most {before}"
                ));
            }
            all.means[place] = mean;
        }
        let to: &mut [u16] = bytemuck::cast_slice_mut(&mut all.codes);
        let to = SharedMut::new(to);
        let wrong = Mutex::new(None);
        pool.run(|worker| {
            for input in worker.split(cols, 1) {
                for (tile, lanes) in (0..words).step_by(LANES).enumerate() {
                    let place = (tile * cols + input) * ranks * LANES;
                    // SAFETY: one thread writes the codes of an input.
                    let to = unsafe { to.slice_mut(place..place + ranks * LANES) };
                    let count = LANES.min(words - lanes);
                    let mut seen = [0_u16; LANES];
                    for (rank, to) in to.chunks_exact_mut(LANES).enumerate() {
                        let from = &codes[2 * ((rank * cols + input) * words + lanes)..];
                        for ((to, from), seen) in
                            to[..count].iter_mut().zip(from.chunks_exact(2)).zip(&mut seen)
                        {
                            *to = u16::from_le_bytes([from[0], from[1]]);
                            *seen |= 1 << bucket_position(*to);
                        }
                    }
                    if seen[..count].iter().any(|seen| seen.count_ones() as usize != ranks) {
                        *wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(input);
                    }
                }
            }
        });
        match wrong.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(input) => Err(format!("has a position twice in a bucket of input {input}")),
            None => Ok(all),
        }
    }
}
