//! The stages of a chain as data, their ranges and their order.

use super::Dry;
use crate::Penalties;

/// One sampler of a [`Chain`]. Values outside a sampler's range switch it off where its
/// definition says so.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Stage {
    /// Repetition, frequency and presence penalties.
    Penalties(Penalties),
    /// DRY: a penalty for continuing a repetition.
    Dry(Dry),
    /// Keeps logits of at least `max − n·σ`, with the standard deviation `σ` of the finite logits;
    /// off for `n ≤ 0` (Tang et al., arXiv 2411.07641).
    TopNSigma(f64),
    /// Keeps the `k` likeliest; off for 0.
    TopK(usize),
    /// Keeps the tokens whose information is closest to the entropy until their probability
    /// exceeds `p`; off from 1 (Meister et al., arXiv 2202.00666).
    Typical {
        /// The probability.
        p: f64,
        /// Tokens that are kept at least.
        min_keep: usize,
    },
    /// Keeps the fewest likeliest tokens whose probability reaches `p`; off from 1 (Holtzman et
    /// al., arXiv 1904.09751).
    TopP {
        /// The probability.
        p: f64,
        /// Tokens that are kept at least.
        min_keep: usize,
    },
    /// Keeps tokens at least `p` times as likely as the likeliest; off for `p ≤ 0` (Nguyen et al.,
    /// arXiv 2407.01082).
    MinP {
        /// The ratio.
        p: f64,
        /// Tokens that are kept at least.
        min_keep: usize,
    },
    /// Exclude top choices: with a probability, removes all tokens that are at least `threshold`
    /// likely but the least likely of them. Off for a probability `≤ 0` or a threshold above 0.5.
    Xtc {
        /// The probability of the removal.
        probability: f64,
        /// The least probability of a top choice.
        threshold: f64,
        /// Tokens that are kept at least.
        min_keep: usize,
    },
    /// Divides the logits by a temperature; `≤ 0` keeps the likeliest token alone. A `range > 0`
    /// puts the temperature between `value − range` and `value + range`, by the entropy.
    Temperature {
        /// The temperature, or the middle of its range.
        value: f64,
        /// Half of the range.
        range: f64,
        /// The exponent of the entropy, relative to its maximum.
        exponent: f64,
    },
    /// Mirostat (Basu et al., arXiv 2007.14966): top-k with the `k` that gives a surprise, then the
    /// draw.
    Mirostat1 {
        /// The target surprise in bits.
        target: f64,
        /// The learning rate.
        rate: f64,
    },
    /// Mirostat 2.0: removes tokens whose surprise exceeds a bound, then draws.
    Mirostat2 {
        /// The target surprise in bits.
        target: f64,
        /// The learning rate.
        rate: f64,
    },
    /// Adaptive-p: draws near a target probability, which adapts to the probabilities of the
    /// tokens before; a plain draw for a negative target.
    AdaptiveP {
        /// The probability.
        target: f64,
        /// The decay of the average, in 0 to 0.99.
        decay: f64,
    },
}

impl Stage {
    /// Its name in messages and in lists of stages.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Penalties(_) => "penalties",
            Self::Dry(_) => "dry",
            Self::TopNSigma(_) => "top_n_sigma",
            Self::TopK(_) => "top_k",
            Self::Typical { .. } => "typical_p",
            Self::TopP { .. } => "top_p",
            Self::MinP { .. } => "min_p",
            Self::Xtc { .. } => "xtc",
            Self::Temperature { .. } => "temperature",
            Self::Mirostat1 { .. } => "mirostat",
            Self::Mirostat2 { .. } => "mirostat2",
            Self::AdaptiveP { .. } => "adaptive_p",
        }
    }

    /// Whether it draws the token itself.
    const fn draws(&self) -> bool {
        matches!(self, Self::Mirostat1 { .. } | Self::Mirostat2 { .. } | Self::AdaptiveP { .. })
    }

    fn check(&self) -> Result<(), String> {
        let finite = |name: &str, value: f64| match value.is_finite() {
            true => Ok(()),
            false => Err(format!("{name} is {value}, expected a finite number")),
        };
        let within =
            |name: &str, value: f64, least: f64, most: f64| match (least..=most).contains(&value) {
                true => Ok(()),
                false => Err(format!("{name} is {value}, expected {least} to {most}")),
            };
        match *self {
            Self::Penalties(_) | Self::TopK(_) => Ok(()),
            Self::Dry(ref dry) => dry.check(),
            Self::TopNSigma(n) => finite("top_n_sigma", n),
            Self::Typical { p, .. } => within("typical_p", p, 0.0, f64::MAX),
            Self::TopP { p, .. } => within("top_p", p, 0.0, f64::MAX),
            Self::MinP { p, .. } => within("min_p", p, 0.0, f64::MAX),
            Self::Xtc { probability, threshold, .. } => {
                within("xtc_probability", probability, 0.0, 1.0)?;
                within("xtc_threshold", threshold, 0.0, 1.0)
            }
            Self::Temperature { value, range, exponent } => {
                finite("temperature", value)?;
                within("dynatemp_range", range, 0.0, f64::MAX)?;
                finite("dynatemp_exponent", exponent)
            }
            Self::Mirostat1 { target, rate } | Self::Mirostat2 { target, rate } => {
                within("mirostat_tau", target, 0.0, f64::MAX)?;
                within("mirostat_eta", rate, 0.0, f64::MAX)
            }
            Self::AdaptiveP { target, decay } => {
                within("adaptive_target", target, f64::MIN, 1.0)?;
                within("adaptive_decay", decay, 0.0, 0.99)
            }
        }
    }
}

/// Stages in their order, all in range.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    stages: Vec<Stage>,
}

impl Chain {
    /// A chain of stages that run in this order.
    ///
    /// # Errors
    ///
    /// A sentence that names the value out of its range, a stage that occurs twice, or a stage
    /// after one that draws.
    pub fn new(mut stages: Vec<Stage>) -> Result<Self, String> {
        for (at, stage) in stages.iter().enumerate() {
            stage.check()?;
            if stages[..at].iter().any(|before| before.name() == stage.name()) {
                return Err(format!("{} occurs twice, expected it once", stage.name()));
            }
            if stage.draws() && at + 1 < stages.len() {
                let next = stages[at + 1].name();
                return Err(format!("{next} follows {}, which must be last", stage.name()));
            }
        }
        for stage in &mut stages {
            if let Stage::Dry(dry) = stage {
                dry.breakers.sort_unstable();
            }
        }
        Ok(Self { stages })
    }

    /// The stages in their order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Whether the last stage draws the token.
    pub(super) fn draws(&self) -> bool {
        self.stages.last().is_some_and(Stage::draws)
    }

    /// The state before the first token.
    pub fn start(&self) -> ChainState {
        let (surprise, sum, weight) = match self.stages.last() {
            Some(&(Stage::Mirostat1 { target, .. } | Stage::Mirostat2 { target, .. })) => {
                (2.0 * target, 0.0, 0.0)
            }
            Some(&Stage::AdaptiveP { target, decay }) => {
                (0.0, target / (1.0 - decay), 1.0 / (1.0 - decay))
            }
            _ => (0.0, 0.0, 0.0),
        };
        ChainState { surprise, sum, weight }
    }
}

/// The numbers that a chain carries from token to token. A copy of it is a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainState {
    /// Mirostat's bound of the surprise in bits.
    pub(super) surprise: f64,
    /// Adaptive-p's decayed sum of probabilities.
    pub(super) sum: f64,
    /// Adaptive-p's decayed number of tokens.
    pub(super) weight: f64,
}
