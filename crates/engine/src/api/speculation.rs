//! Speculative decoding: its switch and its statistics.

use std::{fmt, str::FromStr, time::Duration};

/// Whether tokens are drafted, and verified several at a time in one decoding pass (speculative
/// decoding, arXiv 2211.17192). The text is the same with every setting.
///
/// ```
/// use pelton::Speculation;
///
/// assert_eq!("off".parse(), Ok(Speculation::Off));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Speculation {
    /// No token is drafted.
    Off,
    /// Tokens are drafted where measured times of passes and rates of acceptance predict a gain.
    #[default]
    Auto,
    /// As many tokens are drafted as there are, whatever the cost: for tests and measurements.
    Always,
}

impl FromStr for Speculation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            _ => Err("expected auto, off or always".to_owned()),
        }
    }
}

impl fmt::Display for Speculation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Always => "always",
        })
    }
}

/// Drafted tokens, and the times of the passes that verified them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpeculationStats {
    /// Tokens that were drafted and verified.
    pub drafted: u64,
    /// Drafted tokens that became part of the text.
    pub accepted: u64,
    /// Time of the passes with drafts, the draft model's included.
    pub time: Duration,
    /// Time that passes without drafts would have taken for the same tokens, by the measured
    /// time of such passes.
    pub plain_time: Duration,
}

impl SpeculationStats {
    /// The accepted fraction of the drafted tokens; `None` without any.
    pub fn acceptance(&self) -> Option<f64> {
        (self.drafted > 0).then(|| self.accepted as f64 / self.drafted as f64)
    }

    /// The speed of the passes with drafts relative to decoding without them; `None` where neither
    /// was measured.
    pub fn gain(&self) -> Option<f64> {
        let (plain, time) = (self.plain_time.as_secs_f64(), self.time.as_secs_f64());
        (plain > 0.0 && time > 0.0).then(|| plain / time)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.drafted += other.drafted;
        self.accepted += other.accepted;
        self.time += other.time;
        self.plain_time += other.plain_time;
    }
}
