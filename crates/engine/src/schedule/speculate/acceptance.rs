//! Rates of acceptance, as moving averages.

/// The weight of what is known with each new observation.
const DECAY: f64 = 0.95;
/// The weight of the prior, in observations.
const PRIOR: f64 = 4.0;
/// Prior rates of drafts from a match of 0 to 1, 2 to 3, 4 to 7 tokens and so on.
const BY_LENGTH: [f64; 6] = [0.1, 0.25, 0.5, 0.7, 0.85, 0.93];

/// The prior rate of a draft model's tokens.
const MODEL_RATE: f64 = 0.7;
/// The part of the observations of a draft model's rate that is left after a pass without it.
const MODEL_FADE: f64 = 0.998;

/// The rate at which drafted tokens are accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    prior: f64,
    hits: f64,
    tries: f64,
}

impl Rate {
    pub(super) fn new(prior: f64) -> Self {
        Self { prior, hits: 0.0, tries: 0.0 }
    }

    pub(super) fn add(&mut self, hit: bool) {
        self.hits = self.hits * DECAY + f64::from(u8::from(hit));
        self.tries = self.tries * DECAY + 1.0;
    }

    /// The rate of a draft model, before anything is observed.
    pub(crate) fn of_models() -> Self {
        Self::new(MODEL_RATE)
    }

    /// Takes note of a pass with drafted tokens, of which `accepted` were accepted. `by_model` says
    /// whether a draft model drafted them.
    pub(crate) fn observe(&mut self, by_model: bool, drafted: usize, accepted: usize) {
        match by_model {
            true => self.observe_model(drafted, accepted),
            false => self.observe_no_model(),
        }
    }

    /// Takes note of a draft model's tokens, of which the first `accepted` were accepted.
    pub(super) fn observe_model(&mut self, drafted: usize, accepted: usize) {
        (0..drafted.min(accepted + 1)).for_each(|i| self.add(i < accepted));
    }

    /// Takes note of a pass without a draft model's tokens: after many the rate is the prior again.
    pub(super) fn observe_no_model(&mut self) {
        self.hits *= MODEL_FADE;
        self.tries *= MODEL_FADE;
    }

    pub(crate) fn get(&self) -> f64 {
        self.after(self.prior)
    }

    /// The rate with another prior.
    pub(super) fn after(&self, prior: f64) -> f64 {
        (self.hits + PRIOR * prior) / (self.tries + PRIOR)
    }
}

/// Rates of acceptance by the length of the match that a drafted token continues.
#[derive(Clone, Debug)]
pub(super) struct Rates([Rate; BY_LENGTH.len()]);

impl Default for Rates {
    fn default() -> Self {
        Self(BY_LENGTH.map(Rate::new))
    }
}

fn class(length: usize) -> usize {
    (length.max(1).ilog2() as usize).min(BY_LENGTH.len() - 1)
}

impl Rates {
    pub(super) fn add(&mut self, length: usize, hit: bool) {
        self.0[class(length)].add(hit);
    }

    /// The chances `[count]` that as many tokens after a match of this length are accepted.
    pub(super) fn chances(&self, length: usize, count: usize) -> Vec<f64> {
        let each = (0..count).map(|i| self.0[class(length + i)].get());
        each.scan(1.0, |chance, rate| {
            *chance *= rate;
            Some(*chance)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_approach_what_is_observed() {
        let mut rates = Rates::default();
        let before = rates.chances(8, 3);
        assert!((before[1] - 0.49).abs() < 1e-9, "{before:?}");
        for i in 0..200 {
            rates.add(9, i % 10 > 0);
        }
        // the mean of 20 observations or so, and the prior
        assert!((rates.chances(15, 1)[0] - 0.87).abs() < 0.05);
        assert_eq!(rates.chances(16, 1), [0.85]);
        let mut rate = Rate::of_models();
        (0..100).for_each(|_| rate.observe_model(1, 0));
        assert!(rate.get() < 0.13);
        assert!(rate.after(0.0) < 0.01);
        (0..2000).for_each(|_| rate.observe_no_model());
        assert!(rate.get() > 0.6);
    }
}
