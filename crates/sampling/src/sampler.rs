//! Sampling on the CPU: the specification of every backend's draws.

use crate::{
    Draw, LOG_PROBS_MAX, LogProbs, LogSum, Sampled, adjust::Adjusted, candidates::Candidates,
    full_vocab, greatest::greatest,
};

/// Scratch memory of draws. It keeps no state between them: a result depends on the arguments
/// alone.
///
/// ```
/// use pelton_sampling::{Draw, Sampler};
///
/// let sampled = Sampler::new().sample(&[0.5, 2.0, 1.0], 3, &Draw::GREEDY, &[]);
/// assert_eq!(sampled.token, Some(1));
/// ```
#[derive(Debug, Default)]
pub struct Sampler {
    adjusted: Adjusted,
    candidates: Candidates,
}

impl Sampler {
    /// Empty scratch memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Draws one token from the logits `[vocab]` of one row. Only tokens of ids below `tokens` are
    /// drawn; log-probabilities are relative to all of `logits`. `history` is the sequence so far,
    /// oldest token first; penalties look at the end of it.
    pub fn sample(
        &mut self,
        logits: &[f32],
        tokens: usize,
        draw: &Draw<'_>,
        history: &[u32],
    ) -> Sampled {
        let drawable = &logits[..tokens.min(logits.len())];
        let token = choose(&mut self.candidates, self.adjusted.of(drawable, draw, history), draw);
        let log_probs = match (token, draw.log_probs) {
            (Some(token), Some(top)) => Some(self.log_probs(logits, tokens, token, top)),
            _ => None,
        };
        Sampled { token, log_probs }
    }

    /// The log-probabilities of a drawn token and of the `top` likeliest tokens under raw logits
    /// `[vocab]`. Only tokens of ids below `tokens` are among the likeliest.
    pub fn log_probs(&mut self, logits: &[f32], tokens: usize, drawn: u32, top: u8) -> LogProbs {
        let log_sum = LogSum::of(logits);
        let of = |logit| log_sum.log_prob(logit);
        let top = usize::from(top).min(LOG_PROBS_MAX);
        let drawable = &logits[..tokens.min(logits.len())];
        self.candidates.fill(drawable, top, f32::NEG_INFINITY);
        let top = self.candidates.sorted().iter().map(|c| (c.id, of(c.logit))).collect();
        let drawn = logits.get(drawn as usize).copied().unwrap_or(f32::NAN);
        LogProbs { drawn: of(drawn), top }
    }
}

/// Draws from adjusted logits; `None` if every one is NaN.
fn choose(candidates: &mut Candidates, logits: &[f32], draw: &Draw<'_>) -> Option<u32> {
    let likeliest = greatest(logits)?;
    let Some(params) = &draw.params else { return Some(likeliest) };
    let most = logits[likeliest as usize];
    let floor = params.floor(most);
    if params.top_k == u32::MAX && params.top_p == u32::MAX {
        return full_vocab::draw(logits, most, floor, params.scale, draw.seed, draw.index);
    }
    candidates.fill(logits, params.top_k as usize, floor);
    candidates.top_p(params.top_p);
    candidates.within(params.reach);
    candidates.draw(params.scale, draw.seed, draw.index)
}
