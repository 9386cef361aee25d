//! The conversion: reads a directory and writes a GGUF file.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pelton_quant::DType;
use pelton_weights::{Checkpoint, Conversion, Source};

/// Options of a conversion.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Element type of the matrices.
    pub(crate) dtype: DType,
    /// `tokenizer.ggml.pre`, in place of the name that follows from `tokenizer.json`.
    pub(crate) pre: Option<String>,
}

/// Converts the model in `directory` to the file `output`.
pub(crate) fn convert(directory: &Path, output: &Path, options: &Options) -> Result<()> {
    let model = Checkpoint::open(directory)?;
    ensure!(model.source() == Source::HuggingFace, "{} is a file", directory.display());
    let mut conversion = Conversion::convert(&model, Some(options.dtype))?;
    if let Some(pre) = &options.pre {
        conversion = conversion.key("tokenizer.ggml.pre", pre.as_str());
    }
    let file = File::create(output).with_context(|| output.display().to_string())?;
    conversion.write(BufWriter::new(file), |_, _| {})?;
    Ok(())
}
