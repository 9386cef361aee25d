//! Flags of `pelton bench`.

use anyhow::{Result, bail};
use clap::ValueEnum;
use pelton::EffortLevel;

use super::picture_size::Size;
use crate::{constrain::ConstraintArgs, model::LoadArgs, speculate::SpeculateArgs};

#[derive(clap::Args)]
#[command(after_help = "\
Without --streams the tests are those of llama-bench: ppN runs N random tokens as one prompt, and \
tgN decodes N tokens greedily.\n\
With --streams S,… each test submits S requests at once, with random prompts of -p tokens, and \
decodes -n tokens of each greedily. Prefill speed counts the prompt tokens until the last stream \
has its first token; decode speed counts the tokens that come while all streams decode: after the \
last first token, until the first stream ends. Tokens that a backend samples in one submission arrive together, so the median \
time between tokens can be near 0.\n\
With --speculation each test generates -n tokens of one request at temperature 1, in turn without and \
with speculation: copy gives the request the text as its prediction, random does not.\n\
With a constraint each test generates -n tokens of one request at temperature 1, free and constrained \
in turn; forced tokens have no alternative and need no draw.\n\
With --picture-sizes each test is a prompt of one picture of random pixels. The times are those of its \
preparation (resizing and patches), of the tower, of the prompt's passes, and until the first token.")]
pub(crate) struct Args {
    /// A model: a file, a directory, a name such as qwen3:0.6b, or built-in
    pub(super) model: String,
    /// Prompt lengths, separated by commas; 0 for none [default: 512, 128 with
    /// --streams, 64 with --speculation or a constraint]
    #[arg(short, long, value_name = "N", value_delimiter = ',')]
    pub(super) prompt: Option<Vec<usize>>,
    /// Numbers of tokens to generate, separated by commas; 0 for none [default: 128, or 64 with
    /// --streams]
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',')]
    pub(super) tokens: Option<Vec<usize>>,
    /// Positions that are filled before each test
    #[arg(short, long, value_name = "N", default_value_t = 0, conflicts_with = "streams")]
    pub(super) depth: usize,
    /// Numbers of requests that run at once, separated by commas: each is a test
    #[arg(long, value_name = "S", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(super) streams: Option<Vec<u16>>,
    /// Tokens of a prefix that the prompts of all streams have in common
    #[arg(long, value_name = "N", requires = "streams", default_value_t = 0)]
    pub(super) shared_prefix: usize,
    /// Measure speculation: decoding with it next to decoding without it
    #[arg(long, conflicts_with_all = ["streams", "depth"])]
    pub(super) speculation: bool,
    /// Decode at each of these efforts, separated by commas, in turn: each run has all of them.
    /// They stand in place of the level of the load, whose keys hold
    #[arg(long, value_name = "E", value_delimiter = ',', 
          conflicts_with_all = ["streams", "speculation"])]
    pub(super) efforts: Option<Vec<EffortLevel>>,
    /// Measure the time to the first token of a prompt that is one picture of each of these sizes,
    /// such as 896x896,1920x1080
    #[arg(long, value_name = "SIZE", value_delimiter = ',',
          conflicts_with_all = ["streams", "speculation", "depth"])]
    pub(super) picture_sizes: Option<Vec<Size>>,
    /// Measured runs of each test, after warm-up runs of half a second
    #[arg(short, long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) repetitions: u32,
    /// Format of the results
    #[arg(short, long, value_enum, default_value = "md")]
    pub(super) output: Format,
    #[command(flatten)]
    pub(super) constraint: ConstraintArgs,
    #[command(flatten)]
    pub(super) speculate: SpeculateArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Format {
    /// A table
    Md,
    /// An array of objects, with every run's figure or its range
    Json,
    /// Comma-separated values
    Csv,
}

/// The single length of an option, with a default.
pub(super) fn one_length(option: &str, lengths: Option<&[usize]>, default: usize) -> Result<usize> {
    match lengths {
        None => Ok(default),
        Some(&[length]) => Ok(length),
        Some(lengths) => {
            bail!(
                "{option} has {} values, expected one with --streams, --speculation or a constraint",
                lengths.len()
            )
        }
    }
}
