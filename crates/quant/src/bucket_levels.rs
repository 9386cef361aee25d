//! Weights sorted within buckets of 8 outputs, a byte each.
//!
//! As in the form of f16 a prefix of the ranks of an input has its greatest weights. A rank has
//! weights of nearly one size, so that few bits tell one from the other. The range of the
//! magnitudes of one rank of one input is cut into 16 equal intervals. A code has the sign (bit 7),
//! the interval (bits 6 to 3) and the position in the bucket (bits 2 to 0). It stands for the
//! middle of its interval. Codes that stand for the lower end, as those of
//! [Effort](https://github.com/kolinko/effort) do, make all weights smaller. Ranges over all inputs
//! are too wide for inputs of small weights.

use half::f16;

use crate::buckets::{LEVEL_BUCKET, sort_buckets};

/// Intervals of the magnitudes of a rank.
pub const LEVELS: usize = 16;

/// The ranks of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelRanks {
    /// The mean magnitude of each.
    pub means: [f16; LEVEL_BUCKET],
    /// The middle of the lowest interval of each.
    pub bases: [f16; LEVEL_BUCKET],
    /// The width of an interval of each.
    pub steps: [f16; LEVEL_BUCKET],
}

/// Packs the weights of one input `[outputs]`, times a power of two, to words `[8, outputs / 16]` with the
/// codes of two buckets each, that of the even one in the lower byte.
///
/// Equal magnitudes have ranks in the order of their positions.
///
/// # Panics
/// If the outputs are no multiple of 16, or twice as many as words.
pub fn pack_levels(weights: &[f32], words: &mut [u16]) -> LevelRanks {
    assert!(weights.len().is_multiple_of(2 * LEVEL_BUCKET), "whole words");
    assert!(words.len() * 2 == weights.len(), "a code for each weight");
    let buckets = weights.len() / LEVEL_BUCKET;
    let mut ranges = [[f32::INFINITY, f32::NEG_INFINITY]; LEVEL_BUCKET];
    let means = sort_buckets(weights, |rank, _, weight: f32, _| {
        let [low, high] = &mut ranges[rank];
        (*low, *high) = (low.min(weight.abs()), high.max(weight.abs()));
    });
    let steps = ranges.map(|[low, high]| f16::from_f32((high - low).max(0.0) / LEVELS as f32));
    let bases = std::array::from_fn(|rank| {
        let [low, high] = ranges[rank];
        f16::from_f32(if low <= high { low + (high - low) / (2 * LEVELS) as f32 } else { 0.0 })
    });
    words.fill(0);
    sort_buckets::<LEVEL_BUCKET>(weights, |rank, bucket, weight, position| {
        let (base, step) = (bases[rank].to_f32(), steps[rank].to_f32());
        let level = if step > 0.0 { ((weight.abs() - base) / step).round() } else { 0.0 };
        // the cast saturates, and a NaN is 0
        let level = (level as u8).min(LEVELS as u8 - 1);
        let code = u8::from(weight.is_sign_negative()) << 7 | level << 3 | position;
        words[(rank * buckets + bucket) / 2] |= u16::from(code) << (8 * (bucket % 2));
    });
    LevelRanks { means, bases, steps }
}

/// The value of a code of a rank with this base and step, times the power of two.
pub fn level_value(code: u8, base: f16, step: f16) -> f32 {
    let magnitude = base.to_f32() + step.to_f32() * f32::from(code >> 3 & (LEVELS as u8 - 1));
    if code >> 7 == 0 { magnitude } else { -magnitude }
}

/// The position of a code in its bucket.
pub const fn level_position(code: u8) -> usize {
    code as usize % LEVEL_BUCKET
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket_exponent;

    fn normals(seed: u32, count: usize) -> Vec<f64> {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 24) - 0.5
        };
        (0..count).map(|_| next() + next() + next() + next()).collect()
    }

    /// All codes of some weights: rank, output, value; with what is checked of every input.
    fn decoded(weights: &[f32]) -> Vec<(usize, usize, f64)> {
        let mut words = vec![0xffff; weights.len() / 2];
        let LevelRanks { means, bases, steps } = pack_levels(weights, &mut words);
        assert!(means.is_sorted_by(|a, b| a >= b), "{means:?}");
        let buckets = weights.len() / LEVEL_BUCKET;
        let mut all = Vec::new();
        for bucket in 0..buckets {
            let mut positions = Vec::new();
            for rank in 0..LEVEL_BUCKET {
                let word = words[(rank * buckets + bucket) / 2];
                let code = word.to_le_bytes()[bucket % 2];
                let output = bucket * LEVEL_BUCKET + level_position(code);
                let value = f64::from(level_value(code, bases[rank], steps[rank]));
                // at most half an interval away, but for the rounding of base and step
                let far = (value - f64::from(weights[output])).abs();
                let most = 0.5 * steps[rank].to_f64() + 2e-3 * value.abs() + 1e-6;
                assert!(far <= most, "{value} for {}, step {}", weights[output], steps[rank]);
                positions.push(output);
                all.push((rank, output, value));
            }
            assert!(positions.is_sorted_by(|&a, &b| weights[a].abs() >= weights[b].abs()));
            positions.sort_unstable();
            assert!(positions.into_iter().eq(bucket * 8..bucket * 8 + 8));
        }
        for (rank, mean) in means.iter().enumerate() {
            let of = all.iter().filter(|(of, ..)| *of == rank);
            let sum: f64 = of.map(|(_, output, _)| f64::from(weights[*output].abs())).sum();
            let exact = sum / buckets as f64;
            assert!((mean.to_f64() - exact).abs() <= exact * 1e-3, "{rank}");
        }
        all
    }

    /// The relative error energy of the original's codes was 6e-3, and its mean error not zero.
    /// Repaired it is to be at most 1.5e-3, for inputs of any size in one matrix.
    #[test]
    fn codes_have_the_error_of_their_bits_and_no_bias() {
        for (seed, scale) in [(1, 1.0), (2, 3e-5), (3, 1e-30), (4, 6e4)] {
            let exact = normals(seed, 4096);
            let weights: Vec<f32> = exact.iter().map(|w| (w * scale) as f32).collect();
            let greatest = weights.iter().fold(0.0_f32, |max, w| max.max(w.abs()));
            let unit = 2.0_f32.powi(bucket_exponent(greatest));
            // an input of small weights next to one of large ones, too
            for part in [1.0, 0.01] {
                let scaled: Vec<f32> = weights.iter().map(|w| w * unit * part).collect();
                let (mut error, mut energy, mut shift, mut sum) = (0.0, 0.0, 0.0, 0.0);
                for (_, output, value) in decoded(&scaled) {
                    let exact = f64::from(scaled[output]);
                    error += (value - exact).powi(2);
                    energy += exact * exact;
                    shift += value.abs() - exact.abs();
                    sum += exact.abs();
                }
                assert!(error < 1.5e-3 * energy, "{} of {scale}", error / energy);
                assert!(shift.abs() < 5e-3 * sum, "{} of {scale}", shift / sum);
            }
        }
    }

    #[test]
    fn weights_of_one_size_are_exact() {
        for value in [0.0, 1.0, -2.5] {
            for (_, _, found) in decoded(&[value; 48]) {
                assert_eq!(found, f64::from(value));
            }
        }
        // one bucket with outputs of every sign and a zero
        let few: Vec<f32> =
            (0..16).map(|i| (i as f32 - 7.0) * if i % 3 == 0 { -1.0 } else { 1.0 }).collect();
        decoded(&few);
    }
}
