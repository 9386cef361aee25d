//! Weights sorted within buckets of 16 outputs, after bucketMul of
//! [Effort](https://github.com/kolinko/effort).
//!
//! The weights of one input `[outputs]` are cut into buckets of 16 neighbouring outputs, and sorted
//! in each by magnitude: rank 0 is the greatest. A weight is an f16 whose four lowest bits are its
//! position in the bucket; products take the code as it is, position included. So a prefix of the
//! ranks of an input has its greatest weights. The mean magnitude of each rank says how far it is
//! worth going.

use std::ops::Range;

use half::f16;

use crate::{DType, decode};

/// Outputs of a bucket, and ranks of an input.
pub const BUCKET: usize = 16;
/// Products that the cutoff of a row is estimated from.
pub const PROBES: usize = 4096;

/// The bits of a code that are the position.
const POSITION: u16 = BUCKET as u16 - 1;

/// The exponent `e` for which weights of up to `greatest` times `2ᵉ` use the range of f16.
///
/// Subnormal f16, as small weights would be, have too few bits for a position.
pub fn bucket_exponent(greatest: f32) -> i32 {
    if !greatest.is_normal() {
        return 0;
    }
    // at most 2¹⁵, so that rounding up is finite
    let exponent = (greatest.to_bits() >> 23 & 0xff) as i32 - 127;
    (14 - exponent).clamp(-100, 100)
}

/// Packs the weights of one input `[outputs]`, times a power of two, to codes `[16, outputs / 16]`
/// and the mean magnitude of each rank.
///
/// Equal magnitudes have ranks in the order of their positions. A code is the nearest f16 that ends
/// in the position.
///
/// # Panics
/// If there are no whole buckets, or not as many codes as weights.
pub fn pack_buckets(weights: &[f32], codes: &mut [u16]) -> [f16; BUCKET] {
    let (buckets, rest) = weights.as_chunks::<BUCKET>();
    assert!(rest.is_empty() && codes.len() == weights.len(), "a code for each weight");
    let mut sums = [0.0_f64; BUCKET];
    for (bucket, weights) in buckets.iter().enumerate() {
        let mut order: [u8; BUCKET] = std::array::from_fn(|position| position as u8);
        let magnitude = |position: u8| weights[usize::from(position)].abs();
        order.sort_by(|&a, &b| magnitude(b).total_cmp(&magnitude(a)));
        for (rank, position) in order.into_iter().enumerate() {
            codes[rank * buckets.len() + bucket] = code(weights[usize::from(position)], position);
            sums[rank] += f64::from(magnitude(position));
        }
    }
    sums.map(|sum| f16::from_f64(sum / buckets.len().max(1) as f64))
}

/// Whether weights of a type are sorted. Larger codes than those of the file gain nothing.
pub const fn can_sort(dtype: DType) -> bool {
    dtype.block_len() == 1
}

/// The f16 nearest to a weight that ends in a position.
fn code(weight: f32, position: u8) -> u16 {
    let bits = f16::from_f32(weight).to_bits() & !POSITION | u16::from(position);
    let candidates = [bits, bits.wrapping_add(16), bits.wrapping_sub(16)];
    let distance = |&code: &u16| {
        let value = bucket_value(code);
        let same_sign = (code ^ bits) >> 15 == 0 && value.is_finite();
        if same_sign { (value - weight).abs() } else { f32::INFINITY }
    };
    candidates.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(bits)
}

/// The value of a code, times the power of two.
pub fn bucket_value(code: u16) -> f32 {
    f16::from_bits(code).to_f32()
}

/// The position of a code in its bucket.
pub const fn bucket_position(code: u16) -> usize {
    (code & POSITION) as usize
}

/// The input and the output of a probe of a matrix `[outputs, inputs]`: inputs evenly, and for each
/// an output that a hash chooses.
pub fn bucket_probe(probe: usize, outputs: usize, inputs: usize) -> (usize, usize) {
    // the mixing function of SplitMix64
    let mut hash = (probe as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (probe * inputs / PROBES, ((hash ^ hash >> 31) % outputs.max(1) as u64) as usize)
}

/// A matrix `[rows, cols]` of F32, F16 or BF16, row by row, whose weights are to be sorted.
#[derive(Clone, Copy, Debug)]
pub struct BucketSource<'a> {
    dtype: DType,
    rows: usize,
    cols: usize,
    bytes: &'a [u8],
}

impl<'a> BucketSource<'a> {
    /// `None` if the rows are no whole buckets, or the bytes are of another type or shape.
    pub fn new(dtype: DType, (rows, cols): (usize, usize), bytes: &'a [u8]) -> Option<Self> {
        let is_whole = can_sort(dtype) && rows > 0 && rows.is_multiple_of(BUCKET);
        let found = dtype.bytes_of(cols).and_then(|row| row.checked_mul(rows));
        (is_whole && cols > 0 && found == Some(bytes.len())).then_some(Self {
            dtype,
            rows,
            cols,
            bytes,
        })
    }

    /// Decodes elements of a row.
    fn decode(&self, row: usize, first: usize, to: &mut [f32]) {
        let size = self.dtype.block_bytes();
        let at = (row * self.cols + first) * size;
        // the shape has been checked
        let _ = decode(self.dtype, &self.bytes[at..at + to.len() * size], to);
    }

    /// The greatest magnitude in some rows.
    pub fn greatest(&self, rows: Range<usize>) -> f32 {
        let mut values = vec![0.0; self.cols];
        rows.fold(0.0, |max, row| {
            self.decode(row, 0, &mut values);
            values.iter().fold(max, |max, value| max.max(value.abs()))
        })
    }

    /// The input and the weight, times `scale`, of each probe.
    pub fn probes(&self, scale: f32) -> impl Iterator<Item = (u32, f32)> + use<'a> {
        let own = *self;
        (0..PROBES).map(move |probe| {
            let (input, output) = bucket_probe(probe, own.rows, own.cols);
            let mut value = [0.0];
            own.decode(output, input, &mut value);
            (input as u32, value[0] * scale)
        })
    }

    /// The weights `[inputs, rows]` of some inputs, times `scale`.
    pub fn columns(&self, inputs: Range<usize>, scale: f32) -> Vec<f32> {
        let mut columns = vec![0.0; inputs.len() * self.rows];
        let mut values = vec![0.0; inputs.len()];
        for row in 0..self.rows {
            self.decode(row, inputs.start, &mut values);
            for (i, value) in values.iter().enumerate() {
                columns[i * self.rows + row] = value * scale;
            }
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights of the sizes that Mistral-7B has, down to the subnormal ones of wq and wv.
    fn weights(seed: u32, scale: f32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..512).map(|_| scale * (next() + next() + next())).collect()
    }

    /// Parts of rows, compared with whole rows.
    #[test]
    fn sources_of_columns() {
        let values = weights(7, 1.0);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let source = BucketSource::new(DType::F32, (16, 32), &bytes);
        assert!(BucketSource::new(DType::F32, (8, 64), &bytes).is_none());
        assert!(BucketSource::new(DType::Q8_0, (16, 32), &bytes[..16 * 34]).is_none());
        let Some(source) = source else { panic!("16 x 32 weights in F32") };
        for inputs in [0..32, 3..4, 0..7, 30..32] {
            let found = source.columns(inputs.clone(), 2.0);
            for (i, input) in inputs.enumerate() {
                let column = (0..16).map(|row| 2.0 * values[32 * row + input]);
                assert!(found[16 * i..][..16].iter().copied().eq(column));
            }
        }
        for (probe, (input, weight)) in source.probes(1.0).enumerate() {
            let (of, output) = bucket_probe(probe, 16, 32);
            assert_eq!((input as usize, weight), (of, values[32 * output + of]));
        }
    }

    #[test]
    fn buckets_hold_each_position_once() {
        for (seed, scale) in [(1, 1.0), (2, 3e-5), (3, 1e-30), (4, 6e4), (5, 0.0)] {
            let weights = weights(seed, scale);
            let greatest = weights.iter().fold(0.0_f32, |max, w| max.max(w.abs()));
            let unit = 2.0_f32.powi(bucket_exponent(greatest));
            let scaled: Vec<f32> = weights.iter().map(|w| w * unit).collect();
            let mut codes = vec![0; 512];
            let means = pack_buckets(&scaled, &mut codes);
            assert!(means.is_sorted_by(|a, b| a >= b), "{means:?}");
            let (mut error, mut energy) = (0.0, 0.0);
            for bucket in 0..32 {
                let of: Vec<u16> = (0..16).map(|rank| codes[rank * 32 + bucket]).collect();
                let mut positions: Vec<usize> = of.iter().map(|&c| bucket_position(c)).collect();
                let exact: Vec<f64> = positions
                    .iter()
                    .map(|position| f64::from(scaled[16 * bucket + position]))
                    .collect();
                assert!(exact.is_sorted_by(|a, b| a.abs() >= b.abs()), "{exact:?}");
                positions.sort_unstable();
                assert!(positions.iter().copied().eq(0..16));
                for (code, exact) in of.iter().zip(exact) {
                    error += (f64::from(bucket_value(*code)) - exact).powi(2);
                    energy += exact * exact;
                }
            }
            // six bits of a fraction remain; a zero is the position times the least subnormal
            let of_zeros = 512.0 * (16.0 * f64::from(f16::from_bits(1).to_f32())).powi(2);
            assert!(error <= energy * 1e-4 + of_zeros, "{error} of {energy}");
            for (rank, mean) in means.iter().enumerate() {
                let mut sum = 0.0;
                for weights in scaled.chunks(16) {
                    let mut sorted: Vec<f64> = weights.iter().map(|w| f64::from(w.abs())).collect();
                    sorted.sort_by(|a, b| b.total_cmp(a));
                    sum += sorted[rank] / 32.0;
                }
                assert!((mean.to_f64() - sum).abs() <= sum * 1e-3, "{rank}");
            }
        }
    }

    /// The original probed the first 4096 inputs of a matrix alone.
    #[test]
    fn probes_cover_all_inputs() {
        for (outputs, inputs) in [(1024, 4096), (4096, 14336), (64, 100), (16, 1)] {
            let probes: Vec<_> = (0..PROBES).map(|i| bucket_probe(i, outputs, inputs)).collect();
            assert!(probes.iter().all(|&(i, n)| i < inputs && n < outputs));
            let count = |range: std::ops::Range<usize>| {
                probes.iter().filter(|(input, _)| range.contains(input)).count()
            };
            let half = count(0..inputs / 2).abs_diff(count(inputs / 2..inputs));
            assert!(inputs == 1 || half <= PROBES / 32, "{half}");
            let mut chosen: Vec<usize> = probes.iter().map(|(_, output)| *output).collect();
            chosen.sort_unstable();
            chosen.dedup();
            assert!(chosen.len() * 2 > outputs.min(PROBES), "{} of {outputs}", chosen.len());
        }
    }
}
