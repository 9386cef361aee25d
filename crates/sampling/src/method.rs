//! From options to a draw where the logits are, or to a chain on the host.

use crate::{
    FixedParams, PENALTY_WINDOW_MAX, Penalties, Sampling,
    chain::{Chain, Dry, Stage},
    order::SamplerKind,
};

/// The order of a [`Draw`](crate::Draw), which every backend computes.
const DRAW: [SamplerKind; 5] = [
    SamplerKind::Penalties,
    SamplerKind::TopK,
    SamplerKind::TopP,
    SamplerKind::MinP,
    SamplerKind::Temperature,
];

impl Sampling {
    /// Whether tokens are drawn on the host by a [chain](Self::chain), not where the logits are by
    /// [`params`](Self::params) and [`penalties`](Self::penalties).
    pub fn runs_on_host(&self) -> bool {
        let mut left = DRAW.iter();
        let in_order = self.active().all(|kind| left.any(|&other| other == kind));
        let keeps = self.min_keep > 1
            && (self.is_active(SamplerKind::TopP) || self.is_active(SamplerKind::MinP));
        let dynamic = self.dynatemp_range > 0.0 && self.is_active(SamplerKind::Temperature);
        !in_order || keeps || dynamic || self.mirostat > 0 || self.adaptive_target >= 0.0
    }

    /// Filters and temperature of a [`Draw`](crate::Draw); `None` where the likeliest token is
    /// taken always. The values are in their [ranges](Self::check).
    pub fn params(&self) -> Option<FixedParams> {
        let of = |kind, value, off| if self.order.contains(&kind) { value } else { off };
        let top_k = if self.order.contains(&SamplerKind::TopK) { self.top_k } else { 0 };
        FixedParams::new(
            of(SamplerKind::Temperature, self.temperature, 1.0),
            top_k,
            of(SamplerKind::TopP, self.top_p, 1.0),
            of(SamplerKind::MinP, self.min_p, 0.0),
        )
    }

    /// Penalties of a [`Draw`](crate::Draw); `None` where they change no logit.
    pub fn penalties(&self) -> Option<Penalties> {
        let penalties = Penalties {
            repetition: self.repetition_penalty,
            presence: self.presence_penalty,
            frequency: self.frequency_penalty,
            window: self.penalty_window.min(PENALTY_WINDOW_MAX) as u32,
        };
        let is_on = self.order.contains(&SamplerKind::Penalties) && !penalties.are_neutral();
        is_on.then_some(penalties)
    }

    /// The chain of a draw on the host. `breakers` are the sequences of tokens of
    /// [`dry_breakers`](Self::dry_breakers).
    ///
    /// # Errors
    ///
    /// As [`Chain::new`].
    pub fn chain(&self, breakers: Vec<Vec<u32>>) -> Result<Chain, String> {
        let (target, rate) = (f64::from(self.mirostat_tau), f64::from(self.mirostat_eta));
        let mut stages: Vec<Stage> = match self.mirostat {
            0 => self.active().filter_map(|kind| self.stage(kind, &breakers)).collect(),
            _ => self.stage(SamplerKind::Temperature, &[]).into_iter().collect(),
        };
        match self.mirostat {
            0 if self.adaptive_target >= 0.0 => stages.push(Stage::AdaptiveP {
                target: f64::from(self.adaptive_target),
                decay: f64::from(self.adaptive_decay).min(0.99),
            }),
            0 => {}
            1 => stages.push(Stage::Mirostat1 { target, rate }),
            _ => stages.push(Stage::Mirostat2 { target, rate }),
        }
        Chain::new(stages)
    }

    /// The samplers that can change a draw, in their order.
    fn active(&self) -> impl Iterator<Item = SamplerKind> {
        self.order.iter().copied().filter(|&kind| self.changes(kind))
    }

    fn is_active(&self, kind: SamplerKind) -> bool {
        self.order.contains(&kind) && self.changes(kind)
    }

    fn changes(&self, kind: SamplerKind) -> bool {
        match kind {
            SamplerKind::Penalties => self.penalties().is_some(),
            SamplerKind::Dry => {
                self.dry_multiplier > 0.0 && self.dry_base >= 1.0 && self.dry_window > 0
            }
            SamplerKind::TopNSigma => self.top_n_sigma > 0.0,
            SamplerKind::TopK => self.top_k > 0,
            SamplerKind::TypicalP => self.typical_p < 1.0,
            SamplerKind::TopP => self.top_p < 1.0,
            SamplerKind::MinP => self.min_p > 0.0,
            SamplerKind::Xtc => self.xtc_probability > 0.0 && self.xtc_threshold <= 0.5,
            SamplerKind::Temperature => self.temperature != 1.0 || self.dynatemp_range > 0.0,
        }
    }

    fn stage(&self, kind: SamplerKind, breakers: &[Vec<u32>]) -> Option<Stage> {
        let min_keep = self.min_keep;
        Some(match kind {
            SamplerKind::Penalties => Stage::Penalties(self.penalties()?),
            SamplerKind::Dry => Stage::Dry(Dry {
                multiplier: f64::from(self.dry_multiplier),
                base: f64::from(self.dry_base),
                allowed_len: self.dry_allowed_length,
                window: self.dry_window,
                breakers: breakers.to_vec(),
            }),
            SamplerKind::TopNSigma => Stage::TopNSigma(f64::from(self.top_n_sigma)),
            SamplerKind::TopK => Stage::TopK(self.top_k),
            SamplerKind::TypicalP => Stage::Typical { p: f64::from(self.typical_p), min_keep },
            SamplerKind::TopP => Stage::TopP { p: f64::from(self.top_p), min_keep },
            SamplerKind::MinP => Stage::MinP { p: f64::from(self.min_p), min_keep },
            SamplerKind::Xtc => Stage::Xtc {
                probability: f64::from(self.xtc_probability),
                threshold: f64::from(self.xtc_threshold),
                min_keep,
            },
            SamplerKind::Temperature => Stage::Temperature {
                value: f64::from(self.temperature),
                range: f64::from(self.dynatemp_range),
                exponent: f64::from(self.dynatemp_exponent),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_filters_run_where_the_logits_are() {
        use SamplerKind::{MinP, Penalties, Temperature, TopK, TopP};
        let good = Sampling::default;
        for device in [
            good(),
            Sampling::greedy(),
            good().frequency_penalty(1.0),
            good().order(vec![]),
            good().order(vec![Penalties, TopP, Temperature]),
            good().order(vec![Temperature, TopK]).temperature(1.0),
            good().min_keep(1),
            good().xtc_probability(0.5).xtc_threshold(0.6),
        ] {
            assert!(!device.runs_on_host(), "{device:?}");
        }
        for host in [
            good().order(vec![TopP, TopK, MinP, Temperature]),
            good().order(vec![Temperature, TopK]),
            good().min_keep(2),
            good().mirostat(1),
            good().adaptive_target(0.0),
            good().dry_multiplier(0.8),
            good().xtc_probability(0.5),
            good().typical_p(0.9),
            good().top_n_sigma(1.0),
            good().dynatemp_range(0.5),
        ] {
            assert!(host.runs_on_host(), "{host:?}");
            assert!(host.chain(vec![]).is_ok());
        }
        assert_eq!(good().order(vec![]).params(), FixedParams::new(1.0, 0, 1.0, 0.0));
    }

    #[test]
    fn chains_have_the_stages_of_the_options() {
        let names = |sampling: &Sampling| -> Vec<&str> {
            let chain = sampling.chain(vec![vec![1]]).unwrap();
            chain.stages().iter().map(Stage::name).collect()
        };
        let all = Sampling::default()
            .presence_penalty(1.0)
            .dry_multiplier(1.0)
            .top_n_sigma(1.0)
            .typical_p(0.9)
            .xtc_probability(0.5)
            .adaptive_target(0.5);
        let mut expected: Vec<&str> = SamplerKind::ORDER.map(SamplerKind::name).to_vec();
        expected.push("adaptive_p");
        assert_eq!(names(&all), expected);
        assert_eq!(names(&all.clone().mirostat(2)), ["temperature", "mirostat2"]);
        let reversed = all.order(SamplerKind::ORDER.into_iter().rev().collect());
        assert_eq!(names(&reversed)[..2], ["temperature", "xtc"]);
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
    }
}
