//! Draws on the host, by a chain of samplers.

use pelton_sampling::{
    Draw, Sampled, Sampler,
    chain::{Chain, ChainSampler, ChainState},
};

/// A sequence's chain with its state.
pub(crate) struct HostDraw {
    chain: Chain,
    state: ChainState,
    /// The state before the last draw.
    before: ChainState,
    sampler: ChainSampler,
    /// The scratch memory of log-probabilities.
    log_probs: Sampler,
}

impl HostDraw {
    pub(crate) fn new(chain: Chain) -> Self {
        let state = chain.start();
        let sampler = ChainSampler::new();
        Self { chain, state, before: state, sampler, log_probs: Sampler::new() }
    }

    /// Draws from the logits `[vocab]` of one row, by a draw's seed, index, bias and mask.
    pub(super) fn draw(
        &mut self,
        logits: &[f32],
        tokens: usize,
        draw: &Draw<'_>,
        history: &[u32],
    ) -> Sampled {
        self.before = self.state;
        let state = &mut self.state;
        let mut sampled = self.sampler.sample(logits, tokens, draw, &self.chain, state, history);
        if let (Some(token), Some(top)) = (sampled.token, draw.log_probs) {
            sampled.log_probs = Some(self.log_probs.log_probs(logits, tokens, token, top));
        }
        sampled
    }

    /// Takes the last draw back: the token is drawn again.
    pub(super) fn undo(&mut self) {
        self.state = self.before;
    }
}
