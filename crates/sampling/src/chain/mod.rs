//! Chains of samplers on the host: every sampler of llama.cpp, in any order, in f64.
//!
//! A [`Draw`] covers the common samplers in their usual order, on every backend. A [`Chain`] covers
//! all others. Its stages reweigh or remove candidates one after the other. One of the remaining
//! candidates is then drawn with the noise of a `Draw`. The result is a function of logits,
//! history, seed, index and the chain's own [`ChainState`].

mod adaptive;
mod candidates;
mod dry;
mod mirostat;
mod stage;
mod temperature;
mod truncate;

pub use dry::{BREAKER_LEN_MAX, Dry};
pub use stage::{Chain, ChainState, Stage};

use crate::{Draw, Sampled, adjust, noise::Noise};
use candidates::Candidates;

/// Scratch memory of a chain's draws.
#[derive(Debug, Default)]
pub struct ChainSampler {
    candidates: Candidates,
    counts: adjust::Recent,
    dry: dry::Scratch,
}

impl ChainSampler {
    /// Empty scratch memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Draws one token from the logits `[vocab]` of one row and advances the state of the chain.
    ///
    /// `draw` gives seed, index, biases and mask; the chain's stages stand in place of its filters
    /// and penalties. Only tokens of ids below `tokens` are drawn. `history` is the sequence so
    /// far, oldest token first. [`Sampled::log_probs`] is `None`: see [`LogSum`](crate::LogSum).
    pub fn sample(
        &mut self,
        logits: &[f32],
        tokens: usize,
        draw: &Draw<'_>,
        chain: &Chain,
        state: &mut ChainState,
        history: &[u32],
    ) -> Sampled {
        let Self { candidates, counts, dry } = self;
        candidates.fill(&logits[..tokens.min(logits.len())], draw);
        let mut noise = Noise::new(draw.seed, draw.index);
        let mut chosen = None;
        for (at, stage) in chain.stages().iter().enumerate() {
            if candidates.is_empty() {
                break;
            }
            match *stage {
                Stage::Penalties(penalties) => candidates.penalize(counts, &penalties, history),
                Stage::Dry(ref dry_options) => dry.apply(dry_options, candidates, history),
                Stage::TopNSigma(n) => truncate::top_n_sigma(candidates, n),
                Stage::TopK(k) => truncate::top_k(candidates, k),
                Stage::Typical { p, min_keep } => truncate::typical(candidates, p, min_keep),
                Stage::TopP { p, min_keep } => truncate::top_p(candidates, p, min_keep),
                Stage::MinP { p, min_keep } => truncate::min_p(candidates, p, min_keep),
                Stage::Xtc { probability, threshold, min_keep } => {
                    let u = noise.uniform_of(at);
                    truncate::xtc(candidates, u, probability, threshold, min_keep);
                }
                Stage::Temperature { value, range, exponent } => {
                    temperature::apply(candidates, value, range, exponent);
                }
                Stage::Mirostat1 { target, rate } => {
                    chosen =
                        mirostat::first(candidates, logits.len(), target, rate, state, &mut noise);
                }
                Stage::Mirostat2 { target, rate } => {
                    chosen = mirostat::second(candidates, target, rate, state, &mut noise);
                }
                Stage::AdaptiveP { target, decay } => {
                    chosen = adaptive::draw(candidates, target, decay, state, &mut noise);
                }
            }
        }
        let token = match chain.draws() {
            true => chosen,
            false => candidates.draw(&mut noise),
        };
        Sampled { token, log_probs: None }
    }

    /// The candidates that the last draw chose from and their probabilities, the likeliest first.
    pub fn probabilities(&mut self) -> Vec<(u32, f64)> {
        self.candidates.softmax();
        self.candidates.sort().iter().map(|c| (c.id, c.p)).collect()
    }
}

#[cfg(test)]
mod tests;
