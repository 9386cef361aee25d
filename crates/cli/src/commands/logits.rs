//! `pelton logits`: a model's logits, for comparison with other implementations.

use std::{io::BufWriter, path::PathBuf};

use anyhow::{Context, Result, bail};
use pelton::{LoadOptions, graph::OutputKind};

use crate::{loader::Loader, model::LoadArgs, new_file::NewFile, npy};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model: a file, a directory, a name such as qwen3:0.6b, or built-in
    model: String,
    /// The tokens, separated by commas
    #[arg(long, value_name = "ID,ID,…", value_delimiter = ',', required = true)]
    ids: Vec<u32>,
    /// The file for the logits: float32 [tokens, vocabulary]
    #[arg(short, long, value_name = "FILE.npy")]
    output: PathBuf,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let options = LoadOptions::default().context(args.ids.len());
    let model = Loader::new(&args.load).load(&args.model, options)?;
    if model.plan().output != OutputKind::Logits {
        bail!("{} computes no logits, expected a model that generates text", args.model);
    }
    let (rows, vocab) = (args.ids.len(), model.plan().vocab);
    let ids = args.ids;
    let path = args.output;
    let named = format!("{} could not be written", path.display());
    let mut file = NewFile::create(&path, true)?;
    let mut session = args.load.session(model)?;
    let mut logits = Vec::new();
    session.run_all(&ids, |row| logits.extend_from_slice(row))?;
    npy::write(BufWriter::new(&mut file), rows, vocab, &logits).context(named)?;
    file.finish()
}
