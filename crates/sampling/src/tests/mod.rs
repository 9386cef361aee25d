//! Tests against oracles in f64 and against the vectors of llama.cpp.

mod adjust;
mod draws;
mod log_probs;
mod vectors;

use crate::{Draw, Sampler, Sampling};

/// A linear congruential generator (Knuth's MMIX), independent of the crate's noise.
struct Random(u64);

impl Random {
    /// Uniform in 0 to `n - 1`.
    fn below(&mut self, n: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }

    /// Uniform in 0 to 1.
    fn uniform(&mut self) -> f64 {
        f64::from(self.below(1 << 24)) / f64::from(1 << 24)
    }

    /// `n` logits, uniform over `range`.
    fn logits(&mut self, n: usize, range: f64) -> Vec<f32> {
        (0..n).map(|_| ((self.uniform() - 0.5) * range) as f32).collect()
    }
}

/// Options without filters.
fn unfiltered() -> Sampling {
    Sampling::default().top_k(0).top_p(1.0).min_p(0.0)
}

fn draw(sampling: &Sampling, index: u64) -> Draw<'static> {
    Draw {
        params: sampling.params(),
        penalties: sampling.penalties(),
        seed: sampling.seed_or_random(),
        index,
        ..Draw::GREEDY
    }
}

/// The token drawn from a whole vocabulary.
fn token(logits: &[f32], draw: &Draw<'_>, history: &[u32]) -> Option<u32> {
    Sampler::new().sample(logits, logits.len(), draw, history).token
}
