//! Flags of effort.

use std::path::PathBuf;

use clap::ValueEnum;
use etcetera::BaseStrategy;
use pelton::{
    BucketFormat, EffortTables, LoadOptions, Model,
    graph::{Dial, Effort, EffortMode},
};

use crate::output::note;

/// Flags of commands that load a model.
#[derive(clap::Args)]
pub(crate) struct EffortArgs {
    /// The fraction of the inputs of each matrix that is multiplied for a generated token, above 0
    /// and at most 1: less is faster and less exact (docs/effort.md)
    #[arg(long, value_name = "E", value_parser = fraction, group = "dial")]
    effort: Option<f64>,
    /// In place of --effort: multiply the fewest inputs whose squared scores make up this share of the
    /// sum of all, such as 0.99; how many those are differs by token and by matrix
    #[arg(long, value_name = "SHARE", value_parser = fraction, group = "dial")]
    effort_energy: Option<f64>,
    /// With an effort: the fractions of the kinds of matrices, from a file of `pelton effort
    /// calibrate`; auto is the one that it saved for the model, if it did, and uniform the same
    /// fraction for all
    #[arg(long, value_name = "FILE", default_value = "auto")]
    effort_table: String,
    /// With an effort: what is left out
    #[arg(long, value_enum, default_value = "channel")]
    effort_mode: Mode,
    /// With --effort-mode bucket: the codes of the sorted weights; without it those of --buckets, or f16
    #[arg(long, value_enum)]
    bucket_format: Option<Format>,
    /// With --effort-mode bucket: keep the greatest R of every 16 weights alone, 1 to 16, or with q8 of
    /// every 8, 1 to 8
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u8).range(1..=16))]
    ranks: Option<u8>,
    /// With --effort-mode bucket: a file of `pelton effort pack`, of which --ranks are read; without it
    /// weights are sorted at load
    #[arg(long, value_name = "FILE")]
    buckets: Option<PathBuf>,
}

/// [`EffortMode`], for the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Whole inputs
    Channel,
    /// Inputs, or the lower halves of their codes alone, of weights in Q8_0
    Nested,
    /// Single weights by their rank among 16 outputs (bucketMul), of weights in F16, BF16 and F32, with
    /// --bucket-format q8 in Q8_0 too
    Bucket,
}

/// [`BucketFormat`], for the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// 16 bits a weight, ranks among 16 outputs
    F16,
    /// 8 bits a weight, ranks among 8 outputs, of weights in Q8_0 too; on a CPU
    Q8,
}

impl From<Format> for BucketFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::F16 => Self::F16,
            Format::Q8 => Self::Q8,
        }
    }
}

impl Mode {
    /// The least recommended effort: below it the measured models answer otherwise (docs/effort.md).
    const fn knee(self) -> f64 {
        match self {
            Self::Channel => 0.7,
            Self::Nested => 0.5,
            Self::Bucket => 0.6,
        }
    }
}

impl EffortArgs {
    /// The effort, if one is given.
    pub(crate) fn dial(&self) -> Option<Effort> {
        let energy = || self.effort_energy.and_then(Effort::energy);
        self.effort.and_then(Effort::new).or_else(energy)
    }

    /// The options of a load with these flags.
    pub(crate) fn apply(&self, mut options: LoadOptions) -> LoadOptions {
        if self.dial().is_some() {
            (options.effort, options.effort_energy) = (self.effort, self.effort_energy);
        }
        if matches!(options.effort_tables, EffortTables::Uniform) {
            options.effort_tables = match self.effort_table.as_str() {
                "auto" => folder().map_or(EffortTables::Uniform, EffortTables::Folder),
                "uniform" => EffortTables::Uniform,
                file => EffortTables::File(file.into()),
            };
        }
        options.effort_bucket_format =
            self.bucket_format.map(Into::into).or(options.effort_bucket_format);
        if self.ranks.is_some() || self.buckets.is_some() {
            options.effort_ranks = self.ranks.map(usize::from);
            options.effort_buckets.clone_from(&self.buckets);
            if self.dial().is_none() && options.effort.is_none() {
                // fewer ranks are less of a model at any effort
                options.effort = Some(1.0);
            }
        }
        options.effort_mode(match self.effort_mode {
            Mode::Channel => EffortMode::Channel,
            Mode::Nested => EffortMode::Nested,
            Mode::Bucket => EffortMode::Bucket,
        })
    }

    /// Says on standard error where the fractions of a loaded model are from, or that they gain
    /// nothing or cost much.
    pub(crate) fn say(&self, model: &Model, is_gpu: bool) {
        let Some(dial) = self.dial().map(Effort::dial) else { return };
        if is_gpu {
            note!(
                "effort on a GPU is slower than no --effort wherever it was measured (docs/effort.md)"
            );
        }
        let Dial::Inputs(effort) = dial else { return };
        let knee = self.effort_mode.knee();
        if effort < knee {
            note!(
                "effort {effort} is below {knee}: the models that were measured answer otherwise there \
                 (docs/effort.md)"
            );
        }
        match model.effort_table() {
            None if effort >= 1.0 => {}
            Some(file) => note!("effort by the table {}", file.display()),
            None if matches!(self.effort_mode, Mode::Channel) && is_q8_0(model) => note!(
                "effort uniform for all matrices; of weights in Q8_0 --effort-mode nested diverges less \
                 (docs/effort.md)"
            ),
            None => {
                note!("effort uniform for all matrices; `pelton effort calibrate` makes a table")
            }
        }
    }
}

/// Whether all matrices that effort applies to have weights in Q8_0.
fn is_q8_0(model: &Model) -> bool {
    let mut marked = model.plan().weights.iter().filter(|weight| weight.effort);
    marked.all(|weight| weight.dtype.name() == "Q8_0")
}

/// The folder of tables that `pelton effort calibrate` saved.
pub(crate) fn folder() -> Option<PathBuf> {
    let directories = etcetera::choose_base_strategy().ok()?;
    Some(directories.cache_dir().join("pelton"))
}

/// Parses a fraction.
fn fraction(text: &str) -> Result<f64, String> {
    let expected = || "expected a number above 0 and at most 1".to_owned();
    let number: f64 = text.parse().map_err(|_| expected())?;
    Effort::new(number).map(|_| number).ok_or_else(expected)
}

/// Parses an effort of any dial: a fraction of inputs, or `energy:` and a share of squared scores.
pub(crate) fn dial(text: &str) -> Result<Effort, String> {
    let (number, energy) = match text.strip_prefix("energy:") {
        Some(share) => (share, true),
        None => (text, false),
    };
    let number = number.parse().unwrap_or(f64::NAN);
    let effort = if energy { Effort::energy(number) } else { Effort::new(number) };
    effort.ok_or_else(|| {
        "expected a number above 0 and at most 1, or energy: and such a number".to_owned()
    })
}
