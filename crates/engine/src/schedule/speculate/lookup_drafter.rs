//! The drafts of one sequence from the text so far and from a predicted text, without a model.

use super::{
    acceptance::{Rate, Rates},
    choose::DRAFT_MAX,
    lookup::{Lookup, Match},
};
use crate::api::Speculation;

/// The length of a match that the beginning of a predicted text counts as.
const BEGINNING: usize = 8;

/// Drafted tokens with the chances that they are accepted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Proposal {
    /// The next tokens.
    pub(crate) tokens: Vec<u32>,
    /// The chances that the first, the first two and so on are all accepted.
    pub(crate) chances: Vec<f64>,
}

impl Proposal {
    /// The expected number of accepted tokens.
    pub(crate) fn expected(&self) -> f64 {
        self.chances.iter().sum()
    }
}

/// A text that is expected, and the position in it that the sequence has reached.
#[derive(Debug)]
struct Prediction {
    tokens: Vec<u32>,
    lookup: Lookup,
    next: Option<Match>,
}

impl Prediction {
    fn new(tokens: Vec<u32>) -> Self {
        let lookup = Lookup::new(&tokens);
        Self { tokens, lookup, next: Some(Match { at: 0, length: BEGINNING }) }
    }

    /// Advances past the newest token of the sequence.
    fn advance(&mut self, sequence: &[u32]) {
        let reached = self.next.filter(|next| self.tokens.get(next.at) == sequence.last());
        self.next = match reached {
            Some(Match { at, length }) => Some(Match { at: at + 1, length: length + 1 }),
            None => self.lookup.find(&self.tokens, sequence),
        };
    }
}

/// Drafts the next tokens of one sequence.
///
/// Every new token of the sequence is compared with the one that each source would have drafted, so
/// the rates of acceptance are known without passes that verify anything.
#[derive(Debug)]
pub(crate) struct LookupDrafter {
    speculation: Speculation,
    lookup: Lookup,
    /// Tokens of the sequence that are known to the sources.
    known: usize,
    next: Option<Match>,
    prediction: Option<Prediction>,
    text_rates: Rates,
    prediction_rates: Rates,
    /// The rate of a draft model's tokens.
    model_rate: Rate,
}

impl LookupDrafter {
    /// For a sequence that begins with `prompt`; the text after it is expected to be like
    /// `prediction`, if that is not empty.
    pub(crate) fn new(speculation: Speculation, prompt: &[u32], prediction: Vec<u32>) -> Self {
        Self {
            speculation,
            lookup: Lookup::new(prompt),
            known: prompt.len(),
            next: None,
            prediction: (!prediction.is_empty()).then(|| Prediction::new(prediction)),
            text_rates: Rates::default(),
            prediction_rates: Rates::default(),
            model_rate: Rate::of_models(),
        }
    }

    /// Whether all drafts are verified, whatever their chances.
    pub(crate) fn is_always(&self) -> bool {
        self.speculation == Speculation::Always
    }

    /// Takes note of a pass with drafted tokens, as in [`Rate::observe`].
    pub(crate) fn observe_drafts(&mut self, by_model: bool, drafted: usize, accepted: usize) {
        self.model_rate.observe(by_model, drafted, accepted);
    }

    /// Takes note of the tokens of the sequence that are new.
    pub(crate) fn observe(&mut self, tokens: &[u32]) {
        while let Some(&token) = tokens.get(self.known) {
            if let Some(next) = self.next {
                self.text_rates.add(next.length, tokens[next.at] == token);
            }
            self.lookup.insert(tokens, self.known);
            self.known += 1;
            let sequence = &tokens[..self.known];
            self.next = self.lookup.find(sequence, sequence);
            if let Some(prediction) = &mut self.prediction {
                if let Some((next, &drafted)) =
                    prediction.next.and_then(|next| Some((next, prediction.tokens.get(next.at)?)))
                {
                    self.prediction_rates.add(next.length, drafted == token);
                }
                prediction.advance(sequence);
            }
        }
    }

    /// The next tokens, at most `most`, from the source that is expected to have more accepted.
    pub(crate) fn propose(&self, tokens: &[u32], most: usize) -> Proposal {
        let most = most.min(DRAFT_MAX);
        let predicted = self.prediction.as_ref().and_then(|prediction| {
            let Match { at, length } = prediction.next?;
            let tokens: Vec<u32> =
                prediction.tokens.get(at..)?.iter().copied().take(most).collect();
            let chances = self.prediction_rates.chances(length, tokens.len());
            Some(Proposal { tokens, chances })
        });
        let repeated = self.next.map(|Match { at, length }| {
            // the copy of a text that repeats itself goes on with its own beginning
            let period = tokens.len() - at;
            let tokens = (0..most).map(|i| tokens[at + i % period]).collect();
            Proposal { tokens, chances: self.text_rates.chances(length, most) }
        });
        match (predicted, repeated) {
            (Some(a), Some(b)) if b.expected() > a.expected() => b,
            (Some(one), _) | (None, Some(one)) => one,
            (None, None) => Proposal::default(),
        }
    }

    /// The chances of a draft model's next tokens, whose rate in other texts was `others`.
    pub(crate) fn model_chances(&self, count: usize, others: f64) -> Vec<f64> {
        let rate = self.model_rate.after(others);
        (1..=count as i32).map(|n| rate.powi(n)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(prompt: &[u32], prediction: &[u32], output: &[u32]) -> (LookupDrafter, Vec<u32>) {
        let mut drafter = LookupDrafter::new(Speculation::Auto, prompt, prediction.to_vec());
        let tokens = [prompt, output].concat();
        drafter.observe(&tokens);
        (drafter, tokens)
    }

    #[test]
    fn tokens_after_an_earlier_occurrence() {
        let (drafter, tokens) = fed(&[1, 2, 3, 4, 5], &[], &[9, 2, 3]);
        assert_eq!(drafter.propose(&tokens, 4).tokens, [4, 5, 9, 2]);
        let (drafter, tokens) = fed(&[1, 2, 3, 4, 5], &[], &[9, 8]);
        assert_eq!(drafter.propose(&tokens, 4), Proposal::default());
    }

    #[test]
    fn a_text_that_repeats_itself() {
        let (drafter, tokens) = fed(&[7], &[], &[1, 2, 3, 1, 2, 3, 1, 2]);
        assert_eq!(drafter.propose(&tokens, 7).tokens, [3, 1, 2, 3, 1, 2, 3]);
    }

    #[test]
    fn a_prediction_is_followed_and_found_again() {
        let prediction = [10, 11, 12, 13, 14, 15, 16, 17];
        let (drafter, tokens) = fed(&[1], &prediction, &[]);
        assert_eq!(drafter.propose(&tokens, 3).tokens, [10, 11, 12]);
        let (drafter, tokens) = fed(&[1], &prediction, &[10, 11]);
        assert_eq!(drafter.propose(&tokens, 3).tokens, [12, 13, 14]);
        // another token in place of 12, and a token that was left out
        let (drafter, tokens) = fed(&[1], &prediction, &[10, 11, 99]);
        assert_eq!(drafter.propose(&tokens, 3), Proposal::default());
        let (drafter, tokens) = fed(&[1], &prediction, &[10, 11, 99, 14, 15]);
        assert_eq!(drafter.propose(&tokens, 3).tokens, [16, 17]);
        let (drafter, tokens) = fed(&[1], &prediction, &[10, 11, 99, 14, 15, 16, 17]);
        assert_eq!(drafter.propose(&tokens, 3), Proposal::default());
    }

    #[test]
    fn rates_are_learned_without_verification() {
        let copy: Vec<u32> = (100..400).collect();
        let (drafter, tokens) = fed(&[1], &copy, &copy[..150]);
        assert!(drafter.propose(&tokens, 8).expected() > 7.0);
        // a text that has nothing to do with it, but for pairs of tokens
        let pairs: Vec<u32> = (100..250).flat_map(|i| [i, i + 1, 7]).collect();
        let (drafter, tokens) = fed(&[1], &copy, &[&pairs[..], &[300, 301]].concat());
        assert!(drafter.propose(&tokens, 8).expected() < 0.2);
    }

    #[test]
    fn a_models_rate_is_tried_again() {
        let (mut drafter, _) = fed(&[1], &[], &[]);
        assert!((drafter.model_chances(2, 0.7)[1] - 0.49).abs() < 1e-9);
        // a new text begins with the rate of others
        assert!(drafter.model_chances(1, 0.1)[0] < 0.11);
        (0..50).for_each(|_| drafter.model_rate.observe_model(4, 0));
        assert!(drafter.model_chances(1, 0.7)[0] < 0.2);
        (0..5000).for_each(|_| drafter.model_rate.observe_no_model());
        assert!(drafter.model_chances(1, 0.7)[0] > 0.6);
    }
}
