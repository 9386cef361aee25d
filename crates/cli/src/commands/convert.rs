//! `pelton convert`: a GGUF file of a directory, of a file of whisper.cpp, or of a LoRA adapter.

use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Result, bail};
use clap::ValueEnum;
use pelton::{
    Checkpoint,
    weights::{Conversion, DType, Lora},
};

use super::quantize::{WriteArgs, Written, tower_path, write};
use crate::{
    interrupt::{self, Interrupt},
    model,
    new_file::NewFile,
    output::note,
    tower,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A directory of Hugging Face: config.json, .safetensors files and the tokenizer's files; or a
    /// ggml file of whisper.cpp; or the directory of a LoRA adapter that PEFT saved, with --base
    #[arg(value_name = "DIR|FILE")]
    model: String,
    /// The GGUF file to write
    #[arg(value_name = "OUT.gguf", required_unless_present = "outfile")]
    output: Option<PathBuf>,
    /// The output, as llama.cpp's converters name it
    #[arg(long, value_name = "OUT.gguf", hide = true, conflicts_with = "output")]
    outfile: Option<PathBuf>,
    /// The type of matrices of floats; vectors, norms and routers are F32
    #[arg(
        long = "type",
        value_name = "TYPE",
        value_enum,
        ignore_case = true,
        default_value = "auto"
    )]
    to: Type,
    /// The model that a LoRA adapter is for: its directory, its GGUF file, or the name of either
    #[arg(long, value_name = "MODEL")]
    base: Option<String>,
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

impl Type {
    /// The type of matrices, if it is not their own.
    fn dtype(self) -> Option<DType> {
        match self {
            Self::Auto => None,
            Self::F16 => Some(DType::F16),
            Self::Bf16 => Some(DType::BF16),
            Self::F32 => Some(DType::F32),
            Self::Q8_0 => Some(DType::Q8_0),
        }
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let output = args.outfile.or(args.output).unwrap_or_default();
    let folder = Path::new(&args.model);
    if folder.join("adapter_config.json").is_file() && !folder.join("config.json").exists() {
        return adapter(folder, args.base.as_deref(), args.to, &output, args.write.force);
    }
    if args.base.is_some() {
        bail!("{} is no LoRA adapter of PEFT, expected --base with one only", args.model);
    }
    let checkpoint = model::open(&args.model)?;
    if !has_tokenizer(&checkpoint) && !tower::is_alone(&checkpoint) {
        note!(
            "warning: {} has no tokenizer.json, so the file has no tokenizer: it takes token ids, and no text",
            args.model
        );
    }
    let conversion = Conversion::convert(&checkpoint, args.to.dtype())?;
    let template = "converting {bar:32} {bytes} of {total_bytes}, {eta} left";
    let seeing = match args.write.tower_of(&checkpoint)? {
        Some(tower) => Some((tower, tower_path(&output)?)),
        None => None,
    };
    let mut files = vec![Written { conversion, path: output, model: &checkpoint }];
    if let Some((tower, path)) = &seeing {
        let conversion = Conversion::convert(tower, args.to.dtype())?;
        files.push(Written { conversion, path: path.clone(), model: tower });
    }
    write(template, files, &args.write)
}

fn has_tokenizer(checkpoint: &Checkpoint) -> bool {
    let model = checkpoint.metadata().string("tokenizer.ggml.model");
    model.is_ok_and(|model| model != "no_vocab")
}

/// Writes a LoRA adapter as a GGUF file.
fn adapter(
    folder: &Path,
    base: Option<&str>,
    to: Type,
    output: &Path,
    force: bool,
) -> Result<ExitCode> {
    let name = folder.display();
    let Some(base) = base else {
        bail!(
            "{name} is a LoRA adapter, expected --base MODEL with the model that it is for, which {name}/\
             adapter_config.json names"
        );
    };
    let dtype = match to {
        Type::Auto | Type::F32 => DType::F32,
        Type::F16 => DType::F16,
        Type::Bf16 => DType::BF16,
        Type::Q8_0 => bail!("{name} is a LoRA adapter, expected --type f32, f16 or bf16"),
    };
    let checkpoint = model::open(base)?;
    let lora = Lora::open(folder, &checkpoint)?;
    let stop = Interrupt::install().flag();
    let mut file = NewFile::create(output, force)?;
    let out = BufWriter::new(file.writer(stop.clone()));
    let written = lora
        .write_gguf(&checkpoint, dtype, out)
        .map_err(anyhow::Error::from)
        .and_then(|mut out| Ok(out.flush()?));
    match written {
        Err(_) if stop.is_set() => return Ok(ExitCode::from(interrupt::EXIT_CODE)),
        written => written?,
    }
    file.finish()?;
    note!("{}: {} matrices of {name}", output.display(), lora.matrices().len());
    Ok(ExitCode::SUCCESS)
}
