//! The draw among a whole vocabulary.
//!
//! Where neither top-k nor top-p leaves tokens out there may be hundreds of thousands, and the best
//! so far beats nearly all of them by a bound of their noise. That bound is a few operations on
//! floats for many tokens at a time; what it lets through is then computed as elsewhere.

use crate::{
    candidates::distance,
    fixed::{FRACTION, Scale, double_log2},
    noise::{Noise, TOGETHER, uniform},
    rule::Rule,
};

/// In octaves, beyond all that the bound's floats are rounded by.
const MARGIN: f32 = 1e-3;

/// Draws among the logits that are at least `floor`, in proportion to 2 to the power of their
/// distance from the greatest, negated.
pub(crate) fn draw(
    logits: &[f32],
    greatest: f32,
    floor: f32,
    scale: Scale,
    seed: u64,
    index: u64,
) -> Option<u32> {
    let noise = Noise::new(seed, index);
    // octaves for each unit of a logit
    let steepness = scale.value() / (1 << FRACTION) as f32;
    let mut best: Option<(i32, u32)> = None;
    for (first, chunk) in (0..).step_by(TOGETHER).zip(logits.chunks(TOGETHER)) {
        // most often none is, with min-p
        if !chunk.iter().fold(false, |any, &logit| any | (logit >= floor)) {
            continue;
        }
        let words = noise.words(first);
        let needed = best
            .map_or(f32::NEG_INFINITY, |(most, _)| most as f32 / (1 << FRACTION) as f32 - MARGIN);
        let mut beaten = [true; TOGETHER];
        for ((beaten, &logit), &word) in beaten.iter_mut().zip(chunk).zip(&words) {
            let away = (greatest - logit) * steepness;
            // what is not comparable is not beaten
            *beaten = needed + away > most_octaves(word);
        }
        if beaten == [true; TOGETHER] {
            continue;
        }
        let all = (first..).zip(chunk).zip(words);
        for (((id, &logit), word), _) in all.zip(beaten).filter(|(_, beaten)| !beaten) {
            if logit >= floor {
                let away = distance(greatest, logit, scale).min(Rule::FAR) as i32;
                let value = double_log2(uniform(word)) - away;
                if best.is_none_or(|(most, _)| value > most) {
                    best = Some((value, id));
                }
            }
        }
    }
    best.map(|(_, id)| id)
}

/// A whole number of octaves that the noise of a random word is not above: with `u` in 0 to 1,
/// `-log2(-log2(u)) < -log2(1 - u)`.
#[inline]
fn most_octaves(word: u32) -> f32 {
    // 24 digits of 1 - u, which are a float without rounding; its exponent is their logarithm
    let digits = (!word >> 8) as i32 as f32;
    (127 + 24 - (digits.to_bits() >> 23) as i32) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_noise_is_above_its_bound() {
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
