//! Noise that is a function of seed, index and token: no state, so any part of it can be made
//! anywhere, on a device too.

use std::hash::{BuildHasher, RandomState};

use crate::fixed::{FRACTION, double_log2};

/// Tokens whose random words are made together.
pub(crate) const TOGETHER: usize = 64;
/// Tokens that share a call of the generator.
const SHARED: usize = 4;

/// The draws for the tokens of one index of a sequence.
pub(crate) struct Noise {
    seed: [u32; 2],
    index: [u32; 2],
    /// The last call of the generator and its words.
    known: Option<(u32, [u32; SHARED])>,
}

impl Noise {
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        let halves = |n: u64| [n as u32, (n >> 32) as u32];
        Self { seed: halves(seed), index: halves(index), known: None }
    }

    /// A draw for one token: `-log2(-log2(u))` in units of 2⁻²⁵, which is Gumbel's distribution in
    /// units of ln 2, but for a constant summand that no choice depends on. `None` only if it is
    /// below `needed`, where that is known without the logarithms.
    pub(crate) fn gumbel_from(&mut self, needed: i32, token: u32) -> Option<i32> {
        let u = uniform(self.word(token));
        // -log2(u) ≥ (1 - u) / ln 2 > 1 - u, and that is at least half of the power of two above it
        let most = (1 + u.leading_ones() as i32) << FRACTION;
        (most >= needed).then(|| double_log2(u))
    }

    fn word(&mut self, token: u32) -> u32 {
        let (call, at) = (token / SHARED as u32, token as usize % SHARED);
        match self.known {
            Some((known, words)) if known == call => words[at],
            _ => {
                let words = self.calls::<1>(call).map(|[word]| word);
                self.known = Some((call, words));
                words[at]
            }
        }
    }

    /// The random words of [`TOGETHER`] tokens in a row, `first` and those behind it.
    pub(crate) fn words(&self, first: u32) -> [u32; TOGETHER] {
        let calls = self.calls::<{ TOGETHER / SHARED }>(first / SHARED as u32);
        let mut words = [0; TOGETHER];
        for (i, four) in words.as_chunks_mut::<SHARED>().0.iter_mut().enumerate() {
            *four = [calls[0][i], calls[1][i], calls[2][i], calls[3][i]];
        }
        words
    }

    /// The words of `N` calls of the generator, `first` and those behind it.
    fn calls<const N: usize>(&self, first: u32) -> [[u32; N]; SHARED] {
        let mut counters = [[0; N], [self.index[0]; N], [self.index[1]; N], [0; N]];
        for (counter, call) in counters[0].iter_mut().zip(first..) {
            *counter = call;
        }
        philox(counters, self.seed)
    }
}

/// The middle of one of 2³¹ steps of (0, 1), in units of 2⁻³²: neither 0 nor 1.
pub(crate) const fn uniform(word: u32) -> u32 {
    word | 1
}

/// Philox4x32-10: four random words for each of `N` counters under a key (Salmon et al., "Parallel
/// random numbers: as easy as 1, 2, 3", 2011).
fn philox<const N: usize>(counters: [[u32; N]; 4], mut key: [u32; 2]) -> [[u32; N]; 4] {
    let [mut a, mut b, mut c, mut d] = counters;
    for _ in 0..10 {
        // one counter beside the other, so that they fill vectors
        for i in 0..N {
            let first = u64::from(a[i]) * 0xD251_1F53;
            let second = u64::from(c[i]) * 0xCD9E_8D57;
            (a[i], b[i]) = ((second >> 32) as u32 ^ b[i] ^ key[0], second as u32);
            (c[i], d[i]) = ((first >> 32) as u32 ^ d[i] ^ key[1], first as u32);
        }
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    [a, b, c, d]
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
        Noise::new(seed, index).gumbel_from(i32::MIN, token).unwrap()
    }

    /// The known answers that the authors ship with Random123 (`kat_vectors`, philox4x32 10).
    #[test]
    fn philox_known_answers() {
        let one = |counter: [u32; 4], key| philox(counter.map(|word| [word]), key).map(|[w]| w);
        assert_eq!(one([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            one([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            one([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn words_are_the_same_alone_and_together() {
        let mut noise = Noise::new(3, 1 << 33);
        let together = noise.words(128);
        let alone = std::array::from_fn(|i| noise.word(128 + i as u32));
        assert_eq!(together, alone);
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
                match Noise::new(5, 6).gumbel_from(needed, token) {
                    Some(same) => assert_eq!(same, noise),
                    None => assert!(noise < needed),
                }
            }
        }
    }
}
