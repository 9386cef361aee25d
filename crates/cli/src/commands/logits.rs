//! `pelton logits`: a model's logits, for comparison with other implementations.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::PathBuf,
};

use anyhow::{Context, Result};
use pelton::LoadOptions;

use crate::model::{self, LoadArgs};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A .gguf file, or built-in
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
    let model = model::load(&args.model, &args.load, options)?;
    let (rows, vocab) = (args.ids.len(), model.plan().vocab);
    let ids = args.ids;
    let path = args.output;
    let named = format!("{} could not be written", path.display());
    let file = File::create(&path).context(named.clone())?;
    let logits = model.session(rows, move |session| {
        let mut logits = Vec::new();
        session.run_all(&ids, |row| logits.extend_from_slice(row))?;
        Ok(logits)
    })?;
    write_npy(BufWriter::new(file), rows, vocab, &logits).context(named)
}

/// Version 1.0 of numpy's format: a magic number, the length of a header, the header (a Python
/// literal, padded so that the data begins at a multiple of 64), the data
/// (numpy/lib/format.py).
fn write_npy(mut to: impl Write, rows: usize, columns: usize, data: &[f32]) -> Result<()> {
    let literal =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let before = 10;
    let header_len = (before + literal.len() + 1).next_multiple_of(64) - before;
    to.write_all(b"\x93NUMPY\x01\x00")?;
    to.write_all(&u16::try_from(header_len)?.to_le_bytes())?;
    writeln!(to, "{literal:<width$}", width = header_len - 1)?;
    for value in data {
        to.write_all(&value.to_le_bytes())?;
    }
    to.flush()?;
    Ok(())
}
