//! Sampling options as users give them.

use crate::{FixedParams, PENALTY_WINDOW_MAX, Penalties, noise::random_seed};

/// The greatest absolute value of a presence or frequency penalty.
const PENALTY_MAX: f32 = 100.0;
/// The range of repetition penalties.
const REPETITION: std::ops::RangeInclusive<f32> = 0.01..=100.0;

/// Options of sampling. Each field has a builder method of the same name.
///
/// ```
/// use pelton_sampling::Sampling;
///
/// let sampling = Sampling::default().temperature(0.3).seed(7);
/// assert!(sampling.check().is_ok());
/// assert!(sampling.top_p(1.5).check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// Divisor of the logits, from 0; 0 takes the likeliest token always.
    pub temperature: f32,
    /// Number of likeliest tokens to keep; 0 keeps all.
    pub top_k: usize,
    /// Probability that the kept likeliest tokens must reach together, in 0 to 1; 1 keeps all.
    pub top_p: f32,
    /// Least probability of a kept token relative to the likeliest token's, in 0 to 1; 0 keeps
    /// all.
    pub min_p: f32,
    /// Divisor of the positive logits of recent tokens, and factor of the negative ones, in 0.01
    /// to 100; 1 for none (Keskar et al., arXiv 1909.05858).
    pub repetition_penalty: f32,
    /// Amount subtracted from the logits of recent tokens once, in -100 to 100; 0 for none.
    pub presence_penalty: f32,
    /// Amount subtracted from the logits of recent tokens for each occurrence, in -100 to 100; 0
    /// for none.
    pub frequency_penalty: f32,
    /// Number of newest tokens that count as recent, prompt included, in 0 to
    /// [`PENALTY_WINDOW_MAX`]; 0 disables all three penalties.
    pub penalty_window: usize,
    /// Key of the noise: the same seed gives the same text. `None` takes a random one.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            penalty_window: 64,
            seed: None,
        }
    }
}

/// Builder methods: each returns the options with one field replaced.
macro_rules! builder {
    ($($name:ident: $type:ty),*) => {
        impl Sampling {$(
            #[doc = concat!("Sets [`", stringify!($name), "`](Self#structfield.", stringify!($name), ").")]
            #[must_use]
            pub fn $name(mut self, $name: $type) -> Self {
                self.$name = $name.into();
                self
            }
        )*}
    };
}

builder! {
    temperature: f32,
    top_k: usize,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    penalty_window: usize,
    seed: u64
}

impl Sampling {
    /// Options that take the likeliest token always.
    pub fn greedy() -> Self {
        Self::default().temperature(0.0)
    }

    /// Checks that every value is in its range.
    ///
    /// # Errors
    ///
    /// A sentence that names the first value out of its range, and the range.
    pub fn check(&self) -> Result<(), String> {
        let fail = |name: &str, value: &dyn std::fmt::Display, range: &str| {
            Err(format!("{name} is {value}, expected {range}"))
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return fail("temperature", &self.temperature, "a finite number from 0");
        }
        for (name, value) in [("top_p", self.top_p), ("min_p", self.min_p)] {
            if !(0.0..=1.0).contains(&value) {
                return fail(name, &value, "0 to 1");
            }
        }
        if !REPETITION.contains(&self.repetition_penalty) {
            return fail("repetition_penalty", &self.repetition_penalty, "0.01 to 100");
        }
        for (name, value) in [
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
        ] {
            if !(-PENALTY_MAX..=PENALTY_MAX).contains(&value) {
                return fail(name, &value, "-100 to 100");
            }
        }
        if self.penalty_window > PENALTY_WINDOW_MAX {
            return fail("penalty_window", &self.penalty_window, "0 to 4096");
        }
        Ok(())
    }

    /// Filters and temperature of a [`Draw`](crate::Draw); `None` where the likeliest token is
    /// taken always. The values are in their [ranges](Self::check).
    pub fn params(&self) -> Option<FixedParams> {
        FixedParams::new(self.temperature, self.top_k, self.top_p, self.min_p)
    }

    /// Penalties of a [`Draw`](crate::Draw); `None` where they change no logit.
    pub fn penalties(&self) -> Option<Penalties> {
        let penalties = Penalties {
            repetition: self.repetition_penalty,
            presence: self.presence_penalty,
            frequency: self.frequency_penalty,
            window: self.penalty_window.min(PENALTY_WINDOW_MAX) as u32,
        };
        (!penalties.are_neutral()).then_some(penalties)
    }

    /// The seed, or a random one where none is set.
    pub fn seed_or_random(&self) -> u64 {
        self.seed.unwrap_or_else(random_seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_by_name() {
        let good = Sampling::default;
        assert_eq!(good().check(), Ok(()));
        assert_eq!(Sampling::greedy().check(), Ok(()));
        let bad = [
            ("temperature", good().temperature(-1.0)),
            ("temperature", good().temperature(f32::INFINITY)),
            ("top_p", good().top_p(1.1)),
            ("top_p", good().top_p(f32::NAN)),
            ("min_p", good().min_p(-0.1)),
            ("repetition_penalty", good().repetition_penalty(0.0)),
            ("repetition_penalty", good().repetition_penalty(f32::NAN)),
            ("presence_penalty", good().presence_penalty(100.5)),
            ("frequency_penalty", good().frequency_penalty(f32::NEG_INFINITY)),
            ("penalty_window", good().penalty_window(4097)),
        ];
        for (name, sampling) in bad {
            let sentence = sampling.check().unwrap_err();
            assert!(sentence.starts_with(&format!("{name} is ")), "{sentence}");
        }
        let ends = good()
            .presence_penalty(-100.0)
            .frequency_penalty(100.0)
            .penalty_window(4096)
            .repetition_penalty(0.01);
        assert_eq!(ends.check(), Ok(()));
    }

    #[test]
    fn neutral_penalties_are_none() {
        let good = Sampling::default;
        assert_eq!(good().penalties(), None);
        assert_eq!(good().repetition_penalty(1.1).penalty_window(0).penalties(), None);
        let penalties = good().presence_penalty(0.5).penalties().unwrap();
        assert_eq!((penalties.presence, penalties.window), (0.5, 64));
        assert!(good().frequency_penalty(-0.5).penalties().is_some());
        assert_eq!(Sampling::greedy().params(), None);
        assert!(good().params().is_some());
        assert_eq!(good().seed(5).seed_or_random(), 5);
    }
}
