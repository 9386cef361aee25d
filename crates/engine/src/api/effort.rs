//! The effort of a load and of requests.

#[cfg(feature = "unstable")]
use std::sync::Arc;
use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

#[cfg(feature = "unstable")]
use pelton_graph::EffortTable;

/// The fraction of the inputs of each matrix that is multiplied for a token, above 0 and at most 1,
/// which is the whole model: those of the greatest influence. Less is faster and less exact. It is
/// a mean over many tokens.
///
/// ```
/// use pelton::EffortLevel;
///
/// assert_eq!("0.7".parse(), Ok(EffortLevel::from(0.7)));
/// assert!(EffortLevel::FULL.is_full());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffortLevel(f64);

impl EffortLevel {
    /// The whole model.
    pub const FULL: Self = Self(1.0);

    /// The fraction.
    pub const fn fraction(self) -> f64 {
        self.0
    }

    /// Whether nothing of the model is left out.
    pub fn is_full(self) -> bool {
        self.0 >= 1.0
    }
}

impl FromStr for EffortLevel {
    type Err = String;

    /// Parses a number above 0 and at most 1.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(fraction) if fraction > 0.0 && fraction <= 1.0 => Ok(Self(fraction)),
            _ => Err("expected a number above 0 and at most 1".to_owned()),
        }
    }
}

impl fmt::Display for EffortLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Default for EffortLevel {
    fn default() -> Self {
        Self::FULL
    }
}

impl From<f64> for EffortLevel {
    /// A fraction of the inputs.
    fn from(fraction: f64) -> Self {
        Self(fraction)
    }
}

/// The options of a model that is loaded for requests of any effort. The format of the weights and
/// the device decide what a token of an effort below 1 leaves out:
///
/// | weights | on a CPU | on a GPU |
/// |---|---|---|
/// | Q8_0 | inputs, or the lower halves of their codes | the same |
/// | F16, BF16, F32 | single weights, sorted in buckets of 16 outputs (bucketMul) | nothing |
/// | others | nothing | nothing |
///
/// Such weights are kept in a second order. [`Model::effort_use`](crate::Model::effort_use)
/// tells what a load found.
///
/// ```
/// use pelton::{EffortOptions, LoadOptions};
///
/// let options = LoadOptions::default().effort(EffortOptions::new(0.5).always(true));
/// // with the defaults
/// let options = options.effort(0.7);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EffortOptions {
    /// The effort of requests that do not [say](crate::GenerateOptions::effort).
    pub level: EffortLevel,
    /// The ranks of each bucket that are kept, 1 to 16; `None` for all. Fewer deny every token the
    /// whole model. For weights in F16, BF16 and F32 on a CPU.
    pub ranks: Option<usize>,
    /// A file of the model that `pelton effort pack` wrote. Without it weights are sorted at load.
    /// For weights in F16, BF16 and F32 on a CPU.
    pub buckets: Option<PathBuf>,
    /// The calibration of weights in Q8_0.
    pub tables: EffortTables,
    /// Whether requests run at their efforts also where the load finds that the whole model is
    /// faster. Only loads on GPUs find out.
    pub always: bool,
}

impl EffortOptions {
    /// Options with an effort for requests that do not say, and the defaults.
    pub fn new(level: impl Into<EffortLevel>) -> Self {
        Self { level: level.into(), ..Self::default() }
    }

    /// Sets the ranks of buckets that are kept.
    pub fn ranks(mut self, ranks: usize) -> Self {
        self.ranks = Some(ranks);
        self
    }

    /// Sets the file of sorted buckets.
    pub fn buckets(mut self, path: impl Into<PathBuf>) -> Self {
        self.buckets = Some(path.into());
        self
    }

    /// Sets whether requests run at their efforts where the whole model is faster.
    pub fn always(mut self, always: bool) -> Self {
        self.always = always;
        self
    }

    /// Sets the calibration of the model.
    pub fn tables(mut self, tables: EffortTables) -> Self {
        self.tables = tables;
        self
    }
}

impl From<EffortLevel> for EffortOptions {
    fn from(level: EffortLevel) -> Self {
        Self::new(level)
    }
}

impl From<f64> for EffortOptions {
    /// A fraction of the inputs for requests that do not say.
    fn from(fraction: f64) -> Self {
        Self::new(fraction)
    }
}

/// The calibration of a model with weights in Q8_0: the scores of each matrix's inputs on a text,
/// by which the thresholds of live ones are chosen.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum EffortTables {
    /// Measured by each load on a standard text, on the CPU.
    #[default]
    Measured,
    /// The model's file in this folder. Without one the load measures and writes it.
    Folder(PathBuf),
    /// The calibration of the built-in model, which is part of the library. It needs no
    /// file and no measurement.
    BuiltIn,
    /// A table in memory. It needs the feature `unstable`.
    #[cfg(feature = "unstable")]
    Table(Arc<EffortTable>),
}

/// How a loaded model runs requests of an effort below 1. As text it is a sentence for users.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EffortUse {
    /// At their efforts.
    Runs {
        /// The file of the thresholds, if there is one.
        thresholds: Option<PathBuf>,
        /// Whether the load has measured them.
        measured: bool,
    },
    /// Whole, as no matrix has weights in a format that its device can read in part.
    NoForm {
        /// The formats.
        formats: String,
    },
    /// Whole, as the second order of the weights does not fit in the memory of the GPU.
    TooLittleMemory,
    /// Whole, as that is as fast.
    Slower {
        /// The time of a token of the whole model.
        whole: Duration,
        /// The time of one at the effort of the load, or at 0.5 if that is 1.
        less: Duration,
    },
}

impl fmt::Display for EffortUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs { thresholds: Some(file), measured: true } => write!(
                f,
                "measured the thresholds of effort on a standard text, and saved them as {}",
                file.display()
            ),
            Self::Runs { .. } => f.write_str("the model runs at the effort of each request"),
            Self::NoForm { formats } => write!(
                f,
                "the whole model runs at any effort, as its weights in {formats} are whole on this device"
            ),
            Self::TooLittleMemory => f.write_str(
                "the whole model runs, as the weights for less effort do not fit in the memory of the GPU \
                 next to those of the file",
            ),
            Self::Slower { whole, less } => {
                let [whole, less] = [whole, less].map(|time| 1e3 * time.as_secs_f64());
                write!(
                    f,
                    "the whole model runs, as a token takes {whole:.2} ms and with less effort {less:.2}"
                )
            }
        }
    }
}
