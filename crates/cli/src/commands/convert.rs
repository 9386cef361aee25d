//! `pelton convert`: a GGUF file of a directory, or of a file of whisper.cpp.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::ValueEnum;
use pelton::weights::{Conversion, DType};

use super::quantize::{WriteArgs, write};
use crate::model;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A directory of Hugging Face: config.json, .safetensors files and the tokenizer's files; or a ggml file of
    /// whisper.cpp
    #[arg(value_name = "DIR|FILE")]
    model: String,
    /// The GGUF file to write
    #[arg(value_name = "OUT.gguf")]
    output: PathBuf,
    /// The type of matrices of floats; vectors, norms and routers are F32
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value = "auto")]
    to: Type,
    #[command(flatten)]
    write: WriteArgs,
}

/// The types of matrices.
#[derive(Clone, Copy, ValueEnum)]
enum Type {
    /// The model's own types, so that no value changes
    Auto,
    /// 16 bits, with a smaller range than bf16
    F16,
    /// 16 bits, with fewer digits than f16
    Bf16,
    /// 32 bits
    F32,
    /// 8 bits, in blocks of 32
    #[value(name = "q8_0")]
    Q8_0,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let checkpoint = model::open(&args.model)?;
    let to = match args.to {
        Type::Auto => None,
        Type::F16 => Some(DType::F16),
        Type::Bf16 => Some(DType::BF16),
        Type::F32 => Some(DType::F32),
        Type::Q8_0 => Some(DType::Q8_0),
    };
    let conversion = Conversion::convert(&checkpoint, to)?;
    let template = "converting {bar:32} {bytes} of {total_bytes}, {eta} left";
    write(template, conversion, &args.output, &args.write, &checkpoint)
}
