//! Penalties on repetition within a window, which OpenAI's code does not have.

/// Limits of repetition in the text of a window. Timestamps and other special tokens do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repetition {
    /// Divisor of positive logits, and factor of others, of the text's tokens (Keskar et al., arXiv
    /// 1909.05858). 1 changes nothing; greater values make repetition rarer.
    pub penalty: f32,
    /// No sequence of this many tokens occurs twice; 0 allows all.
    pub no_repeat_ngram: usize,
}

impl Repetition {
    /// No limits.
    pub const NONE: Self = Self { penalty: 1.0, no_repeat_ngram: 0 };
}

/// Applies the limits to the logits `[vocab]` after `sampled`. Texts have ids below `eot`.
pub fn penalize(repetition: &Repetition, eot: u32, sampled: &[u32], logits: &mut [f32]) {
    if *repetition == Repetition::NONE {
        return;
    }
    let text: Vec<u32> = sampled.iter().copied().filter(|&token| token < eot).collect();
    if repetition.penalty != 1.0 {
        let mut seen = text.clone();
        seen.sort_unstable();
        seen.dedup();
        for token in seen {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = match *logit > 0.0 {
                    true => *logit / repetition.penalty,
                    false => *logit * repetition.penalty,
                };
            }
        }
    }
    if let (Some(before), true) =
        (repetition.no_repeat_ngram.checked_sub(1), repetition.no_repeat_ngram <= text.len())
    {
        let newest = &text[text.len() - before..];
        for window in text.windows(before + 1).filter(|window| window.starts_with(newest)) {
            if let Some(logit) = logits.get_mut(window[before] as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of CTRL's formula, and the third token of the trigram 1 2 3 that began
    /// again.
    #[test]
    fn repetition() {
        let mut logits = [4.0, -4.0, 4.0, 4.0, 4.0, 4.0];
        let rules = Repetition { penalty: 2.0, no_repeat_ngram: 0 };
        penalize(&rules, 4, &[0, 5, 1, 0], &mut logits);
        assert_eq!(logits, [2.0, -8.0, 4.0, 4.0, 4.0, 4.0]);

        let mut logits = [0.0; 6];
        let rules = Repetition { penalty: 1.0, no_repeat_ngram: 3 };
        penalize(&rules, 4, &[1, 2, 5, 3, 1, 2], &mut logits);
        assert_eq!(logits.map(|logit| logit == 0.0), [true, true, true, false, true, true]);
    }
}
