//! Gumbel noise as a function of seed, index and token. It has no state, so any element of it can
//! be computed anywhere, on a GPU too.

use std::hash::{BuildHasher, RandomState};

use crate::fixed_point::{FRACTION, double_log2};

/// Consecutive tokens whose random words are generated together.
pub(crate) const BLOCK: usize = 64;
/// Random words of one call of the generator, of as many consecutive tokens.
const WORDS: usize = 4;

/// The noise of all tokens at one index of a sequence.
pub(crate) struct Noise {
    seed: [u32; 2],
    index: [u32; 2],
    /// The last call of the generator and its words.
    last: Option<(u32, [u32; WORDS])>,
}

impl Noise {
    pub(crate) fn new(seed: u64, index: u64) -> Self {
        let halves = |n: u64| [n as u32, (n >> 32) as u32];
        Self { seed: halves(seed), index: halves(index), last: None }
    }

    /// The noise of one token: `-log2(-log2(u))` in units of 2⁻²⁵. This is a Gumbel variable
    /// divided by ln 2, plus a constant that no draw depends on. `None` only if it is below
    /// `needed` and a bound shows that without the logarithms.
    pub(crate) fn gumbel_from(&mut self, needed: i32, token: u32) -> Option<i32> {
        let u = uniform(self.word(token));
        // -log2(u) ≥ (1 - u) / ln 2 > 1 - u, which is at least half of the next power of two
        let most = (1 + u.leading_ones() as i32) << FRACTION;
        (most >= needed).then(|| double_log2(u))
    }

    /// A value in (0, 1) for a use other than the draw of a token.
    pub(crate) fn uniform_of(&self, use_index: usize) -> f64 {
        // the fourth counter is 0 in draws of tokens
        let counters = [[use_index as u32], [self.index[0]], [self.index[1]], [1]];
        let [[word], ..] = philox(counters, self.seed);
        f64::from(uniform(word)) / 4_294_967_296.0
    }

    fn word(&mut self, token: u32) -> u32 {
        let (call, at) = (token / WORDS as u32, token as usize % WORDS);
        match self.last {
            Some((last, words)) if last == call => words[at],
            _ => {
                let words = self.calls::<1>(call).map(|[word]| word);
                self.last = Some((call, words));
                words[at]
            }
        }
    }

    /// The random words of the [`BLOCK`] tokens from `first` on.
    pub(crate) fn words(&self, first: u32) -> [u32; BLOCK] {
        let calls = self.calls::<{ BLOCK / WORDS }>(first / WORDS as u32);
        let mut words = [0; BLOCK];
        for (i, four) in words.as_chunks_mut::<WORDS>().0.iter_mut().enumerate() {
            *four = [calls[0][i], calls[1][i], calls[2][i], calls[3][i]];
        }
        words
    }

    /// The words of the `N` calls of the generator from `first` on.
    fn calls<const N: usize>(&self, first: u32) -> [[u32; N]; WORDS] {
        let mut counters = [[0; N], [self.index[0]; N], [self.index[1]; N], [0; N]];
        for (counter, call) in counters[0].iter_mut().zip(first..) {
            *counter = call;
        }
        philox(counters, self.seed)
    }
}

/// A uniform value in units of 2⁻³²: the middle of one of 2³¹ intervals of (0, 1).
pub(crate) const fn uniform(word: u32) -> u32 {
    word | 1
}

/// Philox4x32-10: four random words for each of `N` counters under a key (Salmon et al., "Parallel
/// random numbers: as easy as 1, 2, 3", 2011).
fn philox<const N: usize>(counters: [[u32; N]; 4], mut key: [u32; 2]) -> [[u32; N]; 4] {
    let [mut a, mut b, mut c, mut d] = counters;
    for _ in 0..10 {
        // counters in adjacent lanes, so that the loop becomes vector instructions
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

/// A random seed.
pub(crate) fn random_seed() -> u64 {
    // 32 bits distinguish runs and are short enough to type
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
    fn words_are_the_same_singly_and_in_blocks() {
        let mut noise = Noise::new(3, 1 << 33);
        let block = noise.words(128);
        let single = std::array::from_fn(|i| noise.word(128 + i as u32));
        assert_eq!(block, single);
    }

    /// The mean and variance of the Gumbel distribution are Euler's constant and π²/6.
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
        // the distribution function is e^(-e^-x); within four standard deviations
        for x in [-1.5, -1.0, 0.0, 0.5, 1.0, 2.0, 4.0, 6.0] {
            let p = (-f64::exp(-x)).exp();
            let below = draws.iter().filter(|&&draw| draw < x).count() as f64 / f64::from(n);
            let deviation = (p * (1.0 - p) / f64::from(n)).sqrt();
            assert!((below - p).abs() < 4.0 * deviation, "{x}: {below} for {p}");
        }
    }

    #[test]
    fn bounds() {
        // the difference of the two bounds is below FixedParams::FAR
        assert!(double_log2(u32::MAX) < 32 << FRACTION);
        assert!(double_log2(1) > -6 << FRACTION);
    }

    #[test]
    fn only_noise_below_the_bound_is_skipped() {
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
