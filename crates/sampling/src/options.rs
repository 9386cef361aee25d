//! Sampling options as users give them.

use crate::{PENALTY_WINDOW_MAX, noise::random_seed, order::SamplerKind};

/// The greatest absolute value of a presence or frequency penalty.
const PENALTY_MAX: f32 = 100.0;
/// The range of repetition penalties.
const REPETITION: std::ops::RangeInclusive<f32> = 0.01..=100.0;
/// Strings that break repetitions, at most.
const BREAKERS_MAX: usize = 64;
/// Bytes of a string that breaks repetitions, at most.
const BREAKER_BYTES_MAX: usize = 40;

/// Options of sampling. Each field has a builder method of the same name.
///
/// The samplers run in the [`order`](Self::order); a sampler that it does not name is off.
/// Mirostat replaces all of them but the temperature; adaptive-p is always last. Penalties, top-k,
/// top-p, min-p and temperature in their usual order run where the logits are, on a GPU too; all
/// others, and all other orders, run on the host ([`runs_on_host`](Self::runs_on_host)): then each
/// token waits for the logits of the one before.
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
    /// Standard deviations of the logits below the greatest one that are kept; 0 or less keeps all
    /// (Tang et al., arXiv 2411.07641).
    pub top_n_sigma: f32,
    /// Probability that the kept tokens of typical information must exceed together, in 0 to 1; 1
    /// keeps all (Meister et al., arXiv 2202.00666).
    pub typical_p: f32,
    /// Probability of removing all tokens above the threshold of XTC but the least likely of them, in
    /// 0 to 1; 0 for never.
    pub xtc_probability: f32,
    /// Least probability of a token that XTC removes, in 0 to 1; above 0.5 it removes none.
    pub xtc_threshold: f32,
    /// Half of the range of the temperature, which then depends on the entropy; 0 for none.
    pub dynatemp_range: f32,
    /// Exponent of the entropy, relative to its maximum, in the dynamic temperature.
    pub dynatemp_exponent: f32,
    /// Penalty (DRY) of a token that would continue an earlier occurrence of the newest
    /// [`dry_allowed_length`](Self::dry_allowed_length) tokens, from 0; 0 for none.
    pub dry_multiplier: f32,
    /// Growth of the DRY penalty with each further repeated token; below 1 for no penalty.
    pub dry_base: f32,
    /// Length of the shortest repetition that DRY penalizes.
    pub dry_allowed_length: usize,
    /// Number of newest tokens that DRY searches, prompt included; 0 for no penalty.
    pub dry_window: usize,
    /// Strings that no repetition of DRY crosses: at most 64, of 1 to 40 bytes each.
    pub dry_breakers: Vec<String>,
    /// Version of Mirostat (Basu et al., arXiv 2007.14966): 1 or 2; 0 for none.
    pub mirostat: u8,
    /// Surprise that Mirostat aims at, in bits, from 0.
    pub mirostat_tau: f32,
    /// Learning rate of Mirostat, from 0.
    pub mirostat_eta: f32,
    /// Probability near which adaptive-p draws, up to 1; below 0 for none.
    pub adaptive_target: f32,
    /// Decay of the average of adaptive-p, in 0 to 0.99.
    pub adaptive_decay: f32,
    /// Tokens that typical-p, top-p, min-p and XTC keep at least.
    pub min_keep: usize,
    /// The samplers in their order, each at most once; those that are left out are off.
    pub order: Vec<SamplerKind>,
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
            top_n_sigma: 0.0,
            typical_p: 1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_window: 64,
            dry_breakers: ["\n", ":", "\"", "*"].map(str::to_owned).to_vec(),
            mirostat: 0,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
            adaptive_target: -1.0,
            adaptive_decay: 0.9,
            min_keep: 0,
            order: SamplerKind::ORDER.to_vec(),
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
    top_n_sigma: f32,
    typical_p: f32,
    xtc_probability: f32,
    xtc_threshold: f32,
    dynatemp_range: f32,
    dynatemp_exponent: f32,
    dry_multiplier: f32,
    dry_base: f32,
    dry_allowed_length: usize,
    dry_window: usize,
    dry_breakers: Vec<String>,
    mirostat: u8,
    mirostat_tau: f32,
    mirostat_eta: f32,
    adaptive_target: f32,
    adaptive_decay: f32,
    min_keep: usize,
    order: Vec<SamplerKind>,
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
        for (name, value) in [
            ("temperature", self.temperature),
            ("dynatemp_range", self.dynatemp_range),
            ("dry_multiplier", self.dry_multiplier),
            ("dry_base", self.dry_base),
            ("mirostat_tau", self.mirostat_tau),
            ("mirostat_eta", self.mirostat_eta),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return fail(name, &value, "a finite number from 0");
            }
        }
        for (name, value) in
            [("top_n_sigma", self.top_n_sigma), ("dynatemp_exponent", self.dynatemp_exponent)]
        {
            if !value.is_finite() {
                return fail(name, &value, "a finite number");
            }
        }
        for (name, value) in [
            ("top_p", self.top_p),
            ("min_p", self.min_p),
            ("typical_p", self.typical_p),
            ("xtc_probability", self.xtc_probability),
            ("xtc_threshold", self.xtc_threshold),
        ] {
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
        if self.mirostat > 2 {
            return fail("mirostat", &self.mirostat, "0, 1 or 2");
        }
        if !(self.adaptive_target <= 1.0 && self.adaptive_target.is_finite()) {
            return fail("adaptive_target", &self.adaptive_target, "a finite number up to 1");
        }
        if !(0.0..=0.99).contains(&self.adaptive_decay) {
            return fail("adaptive_decay", &self.adaptive_decay, "0 to 0.99");
        }
        if self.dry_breakers.len() > BREAKERS_MAX {
            let found = self.dry_breakers.len();
            return Err(format!(
                "dry_breakers has {found} strings, expected at most {BREAKERS_MAX}"
            ));
        }
        let bytes = self.dry_breakers.iter().map(String::len);
        if let Some(found) = bytes.into_iter().find(|len| !(1..=BREAKER_BYTES_MAX).contains(len)) {
            return Err(format!(
                "a string of dry_breakers has {found} bytes, expected 1 to {BREAKER_BYTES_MAX}"
            ));
        }
        for (at, kind) in self.order.iter().enumerate() {
            if self.order[..at].contains(kind) {
                return Err(format!("the order of samplers names {kind} twice, expected it once"));
            }
        }
        Ok(())
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
            ("typical_p", good().typical_p(1.5)),
            ("xtc_threshold", good().xtc_threshold(-0.5)),
            ("dynatemp_range", good().dynatemp_range(f32::NAN)),
            ("dry_base", good().dry_base(-1.0)),
            ("mirostat", good().mirostat(3)),
            ("mirostat_eta", good().mirostat_eta(f32::INFINITY)),
            ("adaptive_target", good().adaptive_target(1.5)),
            ("adaptive_decay", good().adaptive_decay(1.0)),
        ];
        for (name, sampling) in bad {
            let sentence = sampling.check().unwrap_err();
            assert!(sentence.starts_with(&format!("{name} is ")), "{sentence}");
        }
        let breakers = good().dry_breakers(vec![String::new()]).check().unwrap_err();
        assert_eq!(breakers, "a string of dry_breakers has 0 bytes, expected 1 to 40");
        let twice = good().order(vec![SamplerKind::TopK; 2]).check().unwrap_err();
        assert_eq!(twice, "the order of samplers names top_k twice, expected it once");
        let ends = good()
            .presence_penalty(-100.0)
            .frequency_penalty(100.0)
            .penalty_window(4096)
            .repetition_penalty(0.01);
        assert_eq!(ends.check(), Ok(()));
    }

    #[test]
    fn a_seed_is_kept() {
        assert_eq!(Sampling::default().seed(5).seed_or_random(), 5);
    }
}
