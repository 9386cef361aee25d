//! `pelton effort`: what the effort dial needs to know of a model.

mod calibrate;
mod pack;

use anyhow::Result;
use clap::Subcommand;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure on a text the thresholds of a model's matrices and how much of each kind it needs at an effort,
    /// and save both for all later loads with --effort
    Calibrate(Box<calibrate::Args>),
    /// Sort the weights of a model in F16, BF16 or F32 within buckets, for the mode bucket of --effort
    Pack(pack::Args),
}

pub(crate) fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Calibrate(args) => calibrate::run(*args),
        Command::Pack(args) => pack::run(&args),
    }
}
