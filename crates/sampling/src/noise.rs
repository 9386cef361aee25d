//! Noise that is a function of seed, index and token: no state, so any part of it can be made
//! anywhere, on a device too.

use std::hash::{BuildHasher, RandomState};

use crate::fixed::{FRACTION, double_log2};

/// A draw for one token at one index of a sequence: `-log2(-log2(u))` in units of 2⁻²⁵, which is
/// Gumbel's distribution in units of ln 2, but for a constant summand that no choice depends on.
/// `None` only if it is below `needed`, where that is known without the logarithms.
pub(crate) fn gumbel_from(needed: i32, seed: u64, index: u64, token: u32) -> Option<i32> {
    let counter = [token, index as u32, (index >> 32) as u32, 0];
    // the middle of one of 2³¹ steps of (0, 1): neither 0 nor 1
    let u = philox(counter, [seed as u32, (seed >> 32) as u32])[0] | 1;
    // -log2(u) ≥ (1 - u) / ln 2 > 1 - u, and that is at least half of the power of two above it
    let most = (1 + u.leading_ones() as i32) << FRACTION;
    (most >= needed).then(|| double_log2(u))
}

/// Philox4x32-10: four random words for a counter under a key (Salmon et al., "Parallel random
/// numbers: as easy as 1, 2, 3", 2011).
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let halves = |a: u32, b: u32| {
        let product = u64::from(a) * u64::from(b);
        ((product >> 32) as u32, product as u32)
    };
    for _ in 0..10 {
        let (high0, low0) = halves(0xD251_1F53, counter[0]);
        let (high1, low1) = halves(0xCD9E_8D57, counter[2]);
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// A seed that differs from call to call.
pub(crate) fn random_seed() -> u64 {
    // 32 bits are enough to tell runs apart, and short enough to type again
    RandomState::new().hash_one(()) & 0xFFFF_FFFF
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gumbel(seed: u64, index: u64, token: u32) -> i32 {
        gumbel_from(i32::MIN, seed, index, token).unwrap()
    }

    /// The known answers that the authors ship with Random123 (`kat_vectors`, philox4x32 10).
    #[test]
    fn philox_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    /// Mean and variance of Gumbel's distribution are Euler's constant and π²/6.
    #[test]
    fn gumbel_moments() {
        let n = 200_000;
        let natural = |draw: i32| {
            let base2 = f64::from(draw) / f64::from(1 << FRACTION);
            std::f64::consts::LN_2 * base2 - std::f64::consts::LN_2.ln()
        };
        let draws: Vec<f64> = (0..n).map(|i| natural(gumbel(1, 2, i))).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!((mean - 0.577_215_7).abs() < 0.01, "{mean}");
        assert!((variance - std::f64::consts::PI.powi(2) / 6.0).abs() < 0.02, "{variance}");
        // the share of draws below x is e^(-e^-x), within four standard deviations
        for x in [-1.5, -1.0, 0.0, 0.5, 1.0, 2.0, 4.0, 6.0] {
            let share = (-f64::exp(-x)).exp();
            let below = draws.iter().filter(|&&draw| draw < x).count() as f64 / f64::from(n);
            let deviation = (share * (1.0 - share) / f64::from(n)).sqrt();
            assert!((below - share).abs() < 4.0 * deviation, "{x}: {below} for {share}");
        }
    }

    #[test]
    fn bounds() {
        // their difference is below Rule::FAR
        assert!(double_log2(u32::MAX) < 32 << FRACTION);
        assert!(double_log2(1) > -6 << FRACTION);
    }

    #[test]
    fn only_small_noise_is_left_out() {
        for token in 0..20_000 {
            let noise = gumbel(5, 6, token);
            for octaves in -6..33 {
                let needed = octaves << FRACTION;
                match gumbel_from(needed, 5, 6, token) {
                    Some(same) => assert_eq!(same, noise),
                    None => assert!(noise < needed),
                }
            }
        }
    }
}
