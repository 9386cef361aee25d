//! The effort of a load and of requests.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use pelton_graph::EffortMode;
#[cfg(feature = "unstable")]
use pelton_graph::EffortTable;
use pelton_quant::BucketFormat;

/// The part of a model that is multiplied for a token. Less is faster and less exact.
///
/// ```
/// use pelton::EffortLevel;
///
/// assert_eq!(EffortLevel::from(0.7), EffortLevel::Inputs(0.7));
/// assert_eq!("energy=0.99".parse(), Ok(EffortLevel::Energy(0.99)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum EffortLevel {
    /// This fraction of the inputs of each matrix, those of the greatest influence. It is above 0 and
    /// at most 1, which is the whole model.
    Inputs(f64),
    /// The fewest inputs whose squared scores make up this share of the sum of all, above 0 and at most
    /// 1. How many those are differs by token and by matrix.
    Energy(f64),
}

impl EffortLevel {
    /// The whole model.
    pub const FULL: Self = Self::Inputs(1.0);

    /// Whether nothing of the model is left out.
    pub fn is_full(self) -> bool {
        let (Self::Inputs(amount) | Self::Energy(amount)) = self;
        amount >= 1.0
    }
}

impl FromStr for EffortLevel {
    type Err = String;

    /// Parses `0.7`, or `energy=0.99`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (number, energy) = match text.strip_prefix("energy=") {
            Some(share) => (share, true),
            None => (text, false),
        };
        match number.parse::<f64>() {
            Ok(1.0) => Ok(Self::FULL),
            Ok(share) if energy && share > 0.0 && share < 1.0 => Ok(Self::Energy(share)),
            Ok(fraction) if !energy && fraction > 0.0 && fraction < 1.0 => {
                Ok(Self::Inputs(fraction))
            }
            _ => Err(format!(
                "'{text}' is no effort, expected a number above 0 and at most 1, or energy= and such a \
                 number"
            )),
        }
    }
}

/// `0.7`, or `energy=0.99`.
impl fmt::Display for EffortLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inputs(fraction) => fraction.fmt(f),
            Self::Energy(share) => write!(f, "energy={share}"),
        }
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
        Self::Inputs(fraction)
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
    /// In [`EffortMode::Bucket`]: the codes of the sorted weights; `None` for those of
    /// [`buckets`](Self::buckets), or f16 without a file.
    pub bucket_format: Option<BucketFormat>,
    /// In [`EffortMode::Bucket`]: the ranks of each bucket that are kept, 1 to 16, of
    /// [`BucketFormat::Q8`] 1 to 8; `None` for all. Fewer deny every token the whole model.
    pub ranks: Option<usize>,
    /// In [`EffortMode::Bucket`]: a file of the model that `pelton effort pack` wrote. Without it, and on
    /// a GPU always, weights are sorted at load.
    pub buckets: Option<PathBuf>,
    /// The fractions of the kinds of matrices.
    pub tables: EffortTables,
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

    /// Sets the codes of sorted weights.
    pub fn bucket_format(mut self, format: BucketFormat) -> Self {
        self.bucket_format = Some(format);
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

    /// Sets the fractions of the kinds of matrices.
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

/// The fractions of inputs that kinds of matrices and layers have at an effort. Their mean, weighted by
/// bytes, is the effort.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum EffortTables {
    /// The same for all.
    #[default]
    Uniform,
    /// Those of the model's file in this folder, if `pelton effort calibrate` wrote one there.
    Folder(PathBuf),
    /// Those of a file that `pelton effort calibrate` wrote.
    File(PathBuf),
    /// A table in memory. Its mean fractions can be any. It needs the feature `unstable`.
    #[cfg(feature = "unstable")]
    Table(Arc<EffortTable>),
}
