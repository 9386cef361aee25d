//! `pelton effort pack`: a file of weights that are sorted within buckets.

use std::{fs, path::PathBuf};

use anyhow::Result;
use pelton::BucketFile;

use crate::{
    effort::Format,
    model,
    output::{self, Hint},
    progress::Progress,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model file or directory whose matrices are F16, BF16 or F32, for --format q8 also Q8_0
    model: String,
    /// The file to be written, for --effort E,mode=bucket,buckets=FILE
    output: PathBuf,
    /// The codes of the sorted weights
    #[arg(long, value_enum, default_value = "f16")]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let checkpoint = model::open(&args.model)?;
    let bar = Progress::new("sorting {bar:32} {bytes} of {total_bytes}, {eta} left", 0);
    let show = &mut |done, all| bar.counter().set(done, all);
    BucketFile::write(&args.output, &checkpoint, args.format.into(), show).map_err(|error| {
        let error = anyhow::Error::from(error).context(args.model.clone());
        match args.format {
            Format::F16 => {
                let hint = "--format q8 sorts weights in Q8_0 too".to_owned();
                Hint { error, hint }.into()
            }
            Format::Q8 => error,
        }
    })?;
    drop(bar);
    let bytes = fs::metadata(&args.output)?.len();
    println!("{} in {}", output::bytes(bytes), args.output.display());
    Ok(())
}
