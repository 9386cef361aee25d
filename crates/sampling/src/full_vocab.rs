//! The draw from a full vocabulary.
//!
//! Without top-k and top-p there may be hundreds of thousands of candidates. An upper bound of the
//! noise takes a few f32 vector operations. It shows that nearly all of them cannot exceed the
//! greatest value so far. The exact value is computed for the others only.

use crate::{
    distance::{any_reaches, distance},
    fixed_params::FixedParams,
    fixed_point::{FRACTION, Scale, double_log2},
    noise::{BLOCK, Noise, uniform},
};

/// Margin of the bound in octaves, above all its rounding errors.
const MARGIN: f32 = 1e-3;

/// Draws a token among those with logits of at least `floor`, with probability proportional to
/// `2^-distance`.
pub(crate) fn draw(
    logits: &[f32],
    greatest: f32,
    floor: f32,
    scale: Scale,
    seed: u64,
    index: u64,
) -> Option<u32> {
    let noise = Noise::new(seed, index);
    // octaves for each unit of logits
    let steepness = scale.value() / (1 << FRACTION) as f32;
    let mut best: Option<(i32, u32)> = None;
    for (first, chunk) in (0..).step_by(BLOCK).zip(logits.chunks(BLOCK)) {
        if !any_reaches(floor, chunk) {
            continue;
        }
        let words = noise.words(first);
        let needed = best
            .map_or(f32::NEG_INFINITY, |(most, _)| most as f32 / (1 << FRACTION) as f32 - MARGIN);
        let mut below = [true; BLOCK];
        for ((below, &logit), &word) in below.iter_mut().zip(chunk).zip(&words) {
            let octaves = (greatest - logit) * steepness;
            // false for NaN
            *below = needed + octaves > most_octaves(word);
        }
        if below == [true; BLOCK] {
            continue;
        }
        let all = (first..).zip(chunk).zip(words);
        for (((id, &logit), word), _) in all.zip(below).filter(|(_, below)| !below) {
            if logit >= floor {
                let distance = distance(greatest, logit, scale).min(FixedParams::FAR) as i32;
                let value = double_log2(uniform(word)) - distance;
                if best.is_none_or(|(most, _)| value > most) {
                    best = Some((value, id));
                }
            }
        }
    }
    best.map(|(_, id)| id)
}

/// Upper bound of the noise of a random word, a whole number of octaves: with `u` in 0 to 1,
/// `-log2(-log2(u)) < -log2(1 - u)`.
#[inline]
fn most_octaves(word: u32) -> f32 {
    // 24 digits of 1 - u are exact in an f32, and its exponent is the logarithm rounded down
    let digits = (!word >> 8) as i32 as f32;
    (127 + 24 - (digits.to_bits() >> 23) as i32) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with the greatest of the values of all tokens, over many draws of close values.
    #[test]
    fn the_bound_never_excludes_the_greatest_value() {
        let logits: Vec<f32> = (0..1000).map(|i| (i * 7919 % 1000) as f32 * 0.01).collect();
        let scale = FixedParams::new(1.3, 0, 1.0, 0.0).unwrap().scale;
        for index in 0..2000 {
            let mut noise = Noise::new(9, index);
            let value = |(id, &logit): (u32, &f32)| {
                let distance = distance(9.99, logit, scale).min(FixedParams::FAR) as i32;
                (noise.gumbel_from(i32::MIN, id).unwrap() - distance, std::cmp::Reverse(id))
            };
            let best = (0..).zip(&logits).map(value).max().map(|(_, id)| id.0);
            assert_eq!(draw(&logits, 9.99, f32::NEG_INFINITY, scale, 9, index), best);
        }
    }

    #[test]
    fn noise_is_at_most_its_bound() {
        for shift in 0..32 {
            for i in 0..2000u32 {
                let word = u32::MAX - (i.wrapping_mul(2_147_001) >> shift);
                for word in [word, !word] {
                    let octaves = double_log2(uniform(word)) as f32 / (1 << FRACTION) as f32;
                    assert!(octaves <= most_octaves(word), "{word}");
                }
            }
        }
    }
}
