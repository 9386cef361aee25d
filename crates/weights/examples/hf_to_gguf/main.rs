//! Converts a Hugging Face directory to GGUF, with the same result as llama.cpp's converter.
//!
//! ```text
//! cargo run --release -p pelton-weights --example hf_to_gguf -- HF_DIR OUT.gguf [--type F16] [--pre NAME]
//! ```
//!
//! The directory is what [`pelton_weights::Checkpoint::open`] takes. `--pre` replaces the name of
//! the pre-tokenizer that follows from `tokenizer.json`.

mod convert;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use pelton_quant::DType;

use convert::{Options, convert};

const USAGE: &str = "usage: hf_to_gguf HF_DIR OUT.gguf [--type F32|F16|BF16|Q8_0] [--pre NAME]";

/// Supported element types of matrices.
const WRITTEN: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::Q8_0];

fn main() -> Result<()> {
    let mut paths = Vec::new();
    let mut options = Options { dtype: DType::F16, pre: None };
    let mut args = std::env::args_os().skip(1);
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--type") => {
                let name = args.next().context(USAGE)?;
                options.dtype = name
                    .to_str()
                    .and_then(DType::from_name)
                    .filter(|dtype| WRITTEN.contains(dtype))
                    .with_context(|| format!("cannot write {}; {USAGE}", name.display()))?;
            }
            Some("--pre") => {
                let name = args.next().context(USAGE)?;
                options.pre = Some(name.into_string().ok().context(USAGE)?);
            }
            Some(flag) if flag.starts_with("--") => bail!("unknown flag {flag}; {USAGE}"),
            _ => paths.push(PathBuf::from(arg)),
        }
    }
    let [directory, output] = paths.as_slice() else { bail!(USAGE) };
    convert(directory, output, &options)
        .with_context(|| format!("cannot convert {}", directory.display()))
}
