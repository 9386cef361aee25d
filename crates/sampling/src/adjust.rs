//! Changes of logits before the filters: biases, penalties, mask.

use crate::{Draw, PENALTY_WINDOW_MAX, Penalties};

impl Penalties {
    /// Whether they leave every logit as it is.
    pub fn are_neutral(&self) -> bool {
        self.window == 0
            || (self.repetition == 1.0 && self.presence == 0.0 && self.frequency == 0.0)
    }

    /// The newest tokens of `history` that are penalized.
    fn recent<'a>(&self, history: &'a [u32]) -> &'a [u32] {
        let window = (self.window as usize).min(PENALTY_WINDOW_MAX);
        &history[history.len().saturating_sub(window)..]
    }
}

/// The tokens that penalties count.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// In ascending order.
    sorted: Vec<u32>,
}

impl Recent {
    /// Replaces them by those in the window of the penalties.
    pub(crate) fn fill(&mut self, penalties: &Penalties, history: &[u32]) {
        self.sorted.clear();
        self.sorted.extend_from_slice(penalties.recent(history));
        self.sorted.sort_unstable();
    }

    /// Occurrences of a token.
    pub(crate) fn count(&self, id: u32) -> usize {
        let first = self.sorted.partition_point(|&other| other < id);
        self.sorted[first..].iter().take_while(|&&other| other == id).count()
    }
}

/// Logits after the biases, penalties and mask of a draw.
#[derive(Debug, Default)]
pub(crate) struct Adjusted {
    logits: Vec<f32>,
    /// The penalized tokens in ascending order.
    recent: Vec<u32>,
}

impl Adjusted {
    /// The adjusted logits: `logits` itself where the draw changes none, else a copy.
    pub(crate) fn of<'a>(
        &'a mut self,
        logits: &'a [f32],
        draw: &Draw<'_>,
        history: &[u32],
    ) -> &'a [f32] {
        let penalties = draw.penalties.filter(|p| !p.are_neutral());
        if draw.bias.is_empty()
            && draw.mask.is_none()
            && (penalties.is_none() || history.is_empty())
        {
            return logits;
        }
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        for &(id, bias) in draw.bias {
            if let Some(logit) = self.logits.get_mut(id as usize) {
                *logit = flushed(flushed(*logit) + flushed(bias));
            }
        }
        if let Some(penalties) = penalties {
            self.recent.clear();
            self.recent.extend_from_slice(penalties.recent(history));
            penalize(&mut self.logits, &mut self.recent, &penalties);
        }
        if let Some(mask) = draw.mask {
            apply_mask(&mut self.logits, mask);
        }
        &self.logits
    }
}

/// The value, with 0 in place of a subnormal one: GPUs may flush those.
fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0.0 } else { value }
}

/// Penalizes each token of `recent`, which is sorted in place.
fn penalize(logits: &mut [f32], recent: &mut [u32], penalties: &Penalties) {
    let divide = flushed(1.0 / penalties.repetition);
    let multiply = flushed(penalties.repetition);
    let frequency = flushed(penalties.frequency);
    recent.sort_unstable();
    for occurrences in recent.chunk_by(|a, b| a == b) {
        let Some(logit) = logits.get_mut(occurrences[0] as usize) else { continue };
        let old = flushed(*logit);
        let repeated = flushed(old * if old > 0.0 { divide } else { multiply });
        // a sum instead of a product: a GPU could contract a multiplication and an addition
        let amount = occurrences
            .iter()
            .fold(flushed(penalties.presence), |amount, _| flushed(amount + frequency));
        *logit = flushed(repeated - amount);
    }
}

/// Replaces the logits of masked tokens by NaN, which is never drawn. Words that the mask lacks
/// allow no token.
fn apply_mask(logits: &mut [f32], mask: &[u32]) {
    let words = mask.iter().copied().chain(std::iter::repeat(0));
    for (logits, word) in logits.chunks_mut(u32::BITS as usize).zip(words) {
        if word == u32::MAX {
            continue;
        }
        for (bit, logit) in logits.iter_mut().enumerate() {
            *logit = if word >> bit & 1 == 1 { *logit } else { f32::NAN };
        }
    }
}
