//! `pelton effort pack`: a file of weights that are sorted within buckets.

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;
use pelton::BucketFile;

use crate::{model, output, progress::Progress};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sort the weights of a model in F16, BF16 or F32 within buckets, for --effort on a CPU
    Pack(Pack),
}

#[derive(clap::Args)]
struct Pack {
    /// A model (a file, a directory or a name) whose matrices are F16, BF16 or F32
    model: String,
    /// The file to be written, for --effort E,buckets=FILE
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let Command::Pack(args) = &args.command;
    let checkpoint = model::open(&args.model)?;
    let bar = Progress::new("sorting {bar:32} {bytes} of {total_bytes}, {eta} left", 0);
    let show = &mut |done, all| bar.counter().set(done, all);
    BucketFile::write(&args.output, &checkpoint, show).context(args.model.clone())?;
    drop(bar);
    let bytes = fs::metadata(&args.output)?.len();
    writeln!(output::stdout(), "{} in {}", output::bytes(bytes), args.output.display())?;
    Ok(())
}
