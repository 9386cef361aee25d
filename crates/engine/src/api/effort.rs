//! The effort of a load and of requests.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use pelton_graph::EffortMode;
#[cfg(feature = "unstable")]
use pelton_graph::EffortTable;

/// The fraction of the inputs of each matrix that is multiplied for a token, above 0 and at most 1, which is the
/// whole model: those of the greatest influence. Less is faster and less exact. It is a mean over many tokens.
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

/// The options of a model that is loaded for requests of any effort. The weights that effort applies to
/// are then kept in another order than the file's.
///
/// ```
/// use pelton::{EffortMode, EffortOptions, LoadOptions};
///
/// let effort = EffortOptions::new(0.5).mode(EffortMode::Nested);
/// let options = LoadOptions::default().effort(effort);
/// // with the defaults
/// let options = options.effort(0.7);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EffortOptions {
    /// The effort of requests that do not [say](crate::GenerateOptions::effort).
    pub level: EffortLevel,
    /// The parts that tokens of an effort below 1 leave out, and so the order in which weights are
    /// kept.
    pub mode: EffortMode,
    /// In [`EffortMode::Bucket`]: the ranks of each bucket that are kept, 1 to 16; `None` for all. Fewer deny every token the whole model.
    pub ranks: Option<usize>,
    /// In [`EffortMode::Bucket`]: a file of the model that `pelton effort pack` wrote. Without it, and on
    /// a GPU always, weights are sorted at load.
    pub buckets: Option<PathBuf>,
    /// The calibration of the model.
    pub tables: EffortTables,
    /// Whether requests run at their efforts also where the load finds that the whole model is faster. Only loads on
    /// GPUs find out.
    pub always: bool,
}

impl EffortOptions {
    /// Options with an effort for requests that do not say, and the defaults.
    pub fn new(level: impl Into<EffortLevel>) -> Self {
        Self { level: level.into(), ..Self::default() }
    }

    /// Sets what tokens of an effort below 1 leave out.
    pub fn mode(mut self, mode: EffortMode) -> Self {
        self.mode = mode;
        self
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

/// The calibration of a model: the thresholds of live inputs for each matrix, and the fractions of inputs that kinds
/// of matrices and layers have at an effort. The mean of fractions, weighted by bytes, is the effort.
///
/// A load without a calibration measures the thresholds on a text of its own, on the CPU, and has the same fraction
/// for all matrices. [`EffortMode::Bucket`] has no thresholds.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum EffortTables {
    /// Measured by each load.
    #[default]
    Uniform,
    /// The model's file in this folder: that of `pelton effort calibrate`, or of an earlier load. Without one the load
    /// measures thresholds and writes it.
    Folder(PathBuf),
    /// A file of one of both.
    File(PathBuf),
    /// The calibration of the built-in model, which is part of the library. It needs no file and no measurement.
    BuiltIn,
    /// A table in memory. Its mean fractions can be any. It needs the feature `unstable`.
    #[cfg(feature = "unstable")]
    Table(Arc<EffortTable>),
}
