//! The arguments of `pelton plan`.

use pelton::KvMemory;

use crate::model::LoadArgs;

/// The most streams that are considered.
pub(super) const STREAMS_MAX: usize = 4096;

#[derive(clap::Args)]
#[command(
    after_help = "The rates of a device are those of `pelton inspect --placement`. They are measured once and kept: \
                  those of a CPU by passes over a model of each format, which is loaded for them. For a device that \
                  is elsewhere, --read and --multiply state them: nothing is loaded then. docs/scale.md has the \
                  formulas."
)]
pub(crate) struct Args {
    /// A model: a file, a directory, a name such as qwen3:0.6b, or built-in
    pub(super) model: String,
    /// Streams that are answered at the same time
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=STREAMS_MAX as i64))]
    pub(super) streams: u32,
    /// Tokens of a stream before the one that is generated; by default half of the context
    #[arg(long, value_name = "N")]
    pub(super) depth: Option<usize>,
    /// Tokens of a prompt whose time is shown
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(super) prompt: usize,
    /// The time between two tokens that streams may take
    #[arg(long, value_name = "MS", default_value_t = 25.0)]
    pub(super) target_tbt: f64,
    /// The memory that streams may take, with a suffix K, M or G; by default that of the device
    #[arg(long, value_name = "SIZE")]
    pub(super) memory: Option<KvMemory>,
    /// Measure the rates of the device again, by which the speed is predicted. They are
    /// measured once and kept
    #[arg(long, conflicts_with = "read")]
    pub(super) measure: bool,
    /// State how fast the device reads memory
    #[arg(long, value_name = "GB/S", requires = "multiply")]
    pub(super) read: Option<f64>,
    /// State how many operations the device does, two for each product
    #[arg(long, value_name = "GOP/S", requires = "read")]
    pub(super) multiply: Option<f64>,
    /// State the time that each step takes at least
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0.0, requires = "read")]
    pub(super) step: f64,
    /// Write one JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) load: LoadArgs,
}
