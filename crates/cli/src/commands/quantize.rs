//! `pelton quantize`: a GGUF file with smaller types.

use std::{
    collections::BTreeMap,
    io::BufWriter,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use pelton::{
    Checkpoint,
    weights::{Conversion, DType, Importance, Quantize, Source},
};

use crate::{
    interrupt::{self, Interrupt},
    load_flags::Switch,
    model,
    new_file::NewFile,
    output::{self, Hint, note},
    progress::Progress,
};

/// Bytes that are collected for a write.
const BUFFER: usize = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A GGUF file (of several the first), a directory of Hugging Face or a ggml file
    /// of whisper.cpp, with matrices of F32, F16 or BF16; those that are quantized
    /// already keep their types
    model: String,
    /// The file to write; by default ggml-model-TYPE.gguf beside the model's file
    #[arg(value_name = "OUT.gguf")]
    output: PathBuf,
    /// The type of most matrices: q8_0, q6_k, q5_k_m, q5_k_s, q5_1, q5_0, q4_k_m, q4_k_s, q4_1,
    /// q4_0, iq4_nl, iq4_xs, mxfp4_moe, q3_k_l, q3_k_m, q3_k_s, q2_k, q2_k_s, q2_0, q1_0, f16, bf16
    /// or f32; or its number in llama.cpp
    #[arg(value_name = "TYPE", value_parser = mixture)]
    to: Option<Quantize>,
    /// The importance of columns, as llama-imatrix writes it (GGUF or .dat): errors weigh more
    /// where inputs are large
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// A type of its own, such as q8_0, for the matrices of this name, in which * stands for any
    /// characters; may be given several times
    #[arg(long = "override", value_name = "TENSOR=TYPE", value_parser = type_of_tensor)]
    overrides: Vec<(String, DType)>,
    #[command(flatten)]
    pub(super) write: WriteArgs,
}

/// The options of writing a file.
#[derive(clap::Args)]
pub(super) struct WriteArgs {
    /// Replace a file that exists
    #[arg(long)]
    pub(super) force: bool,
    /// Threads that encode; by default all cores
    #[arg(short = 't', long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Write the vision tower of a directory too, as mmproj-OUT.gguf next to OUT.gguf
    #[arg(long, value_name = "WHEN", value_enum, default_value = "on")]
    pictures: Switch,
}

impl WriteArgs {
    /// The vision tower of a directory; a GGUF file has it in a file of its own already.
    pub(super) fn tower_of(&self, model: &Checkpoint) -> Result<Option<Checkpoint>> {
        if self.pictures == Switch::Off || model.source() != Source::HuggingFace {
            return Ok(None);
        }
        Checkpoint::open_tower_file(model.name()).map_err(|error| {
            let hint = "`--pictures off` writes the text alone".to_owned();
            Hint { error: error.into(), hint }.into()
        })
    }
}

fn type_of_tensor(text: &str) -> Result<(String, DType), String> {
    let (name, dtype) = text.rsplit_once('=').ok_or("expected TENSOR=TYPE")?;
    match DType::from_name(&dtype.to_ascii_uppercase()) {
        Some(dtype) if dtype.has_encoder() && !name.is_empty() => Ok((name.to_owned(), dtype)),
        _ => {
            let names: Vec<_> =
                DType::ALL.into_iter().filter(|d| d.has_encoder()).map(DType::name).collect();
            Err(format!("expected TENSOR=TYPE with one of {}", names.join(", ")))
        }
    }
}

/// Parses the name of a mixture, or its number.
fn mixture(text: &str) -> Result<Quantize, String> {
    let of_number = text.parse().ok().and_then(Quantize::from_file_type);
    of_number.map_or_else(|| text.parse(), Ok)
}

/// The output and the type of a command line, which may leave the output out.
fn output_and_type(args: &Args) -> Result<(PathBuf, Quantize)> {
    if let Some(to) = args.to {
        return Ok((args.output.clone(), to));
    }
    let word = args.output.to_string_lossy();
    let Ok(to) = mixture(&word) else {
        bail!(
            "{word} is no type, expected OUT.gguf TYPE, or TYPE alone, which is one of {}",
            Quantize::names()
        );
    };
    let model = Path::new(&args.model);
    let folder =
        if model.is_dir() { Some(model) } else { model.parent().filter(|_| model.exists()) };
    let name = format!("ggml-model-{}.gguf", to.name());
    Ok((folder.unwrap_or(Path::new("")).join(name), to))
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let (output, to) = output_and_type(&args)?;
    let checkpoint = model::open(&args.model)?;
    let importance = args.imatrix.as_ref().map(Importance::open).transpose()?;
    let mut conversion = Conversion::quantize(&checkpoint, to, importance.as_ref())?;
    for (name, dtype) in &args.overrides {
        conversion.set_type(name, *dtype)?;
    }
    if conversion.tensors().all(|(tensor, dtype)| tensor.dtype == dtype) {
        let is_quantized = checkpoint.tensors().any(|tensor| !is_float(tensor.dtype));
        let found = match is_quantized {
            true => ": it is quantized already, and quantized matrices keep their types",
            false => "",
        };
        bail!(
            "{} has no matrix whose type would change{found}, expected a model with matrices of F32, F16 or BF16",
            args.model
        );
    }
    let tower = match args.write.tower_of(&checkpoint)? {
        Some(tower) => Some((tower, tower_path(&output)?)),
        None => None,
    };
    let mut files = vec![Written { conversion, path: output, model: &checkpoint }];
    if let Some((tower, path)) = &tower {
        // peers publish towers in these types alone
        let to = match to {
            Quantize::F32 | Quantize::BF16 | Quantize::Q8_0 => to,
            _ => Quantize::F16,
        };
        let conversion = Conversion::quantize(tower, to, None)?;
        files.push(Written { conversion, path: path.clone(), model: tower });
    }
    write("quantizing {bar:32} {bytes} of {total_bytes}, {eta} left", files, &args.write)
}

/// The name of the file of a tower, next to the file of the text.
///
/// # Errors
///
/// If the text goes to a device or a pipe.
pub(super) fn tower_path(text: &Path) -> Result<PathBuf> {
    let (Some(name), false) = (text.file_name(), text.exists() && !text.is_file()) else {
        bail!(
            "{} is no file, expected a name for the model and its vision tower, or --pictures off",
            text.display()
        );
    };
    Ok(text.with_file_name(format!("mmproj-{}", name.display())))
}

/// A file to write.
pub(super) struct Written<'a> {
    pub(super) conversion: Conversion<'a>,
    pub(super) path: PathBuf,
    /// The model of the conversion.
    pub(super) model: &'a Checkpoint,
}

/// Writes files, each with a bar of its model's bytes, and says what they have. After an error or
/// Ctrl-C there is none.
pub(super) fn write(
    template: &'static str,
    files: Vec<Written<'_>>,
    args: &WriteArgs,
) -> Result<ExitCode> {
    let stop = Interrupt::install().flag();
    let begun = files.iter().map(|written| NewFile::create(&written.path, args.force));
    let begun = begun.collect::<Result<Vec<_>>>()?;
    let mut done = Vec::new();
    for (written, mut file) in files.into_iter().zip(begun) {
        let Written { mut conversion, path, model } = written;
        if let Some(threads) = args.threads {
            conversion = conversion.threads(threads.get());
        }
        let begin = Instant::now();
        let bar = Progress::new(template, 0);
        let out = BufWriter::with_capacity(BUFFER, file.writer(stop.clone()));
        let written = conversion.write(out, |done, all| bar.counter().set(done, all));
        drop(bar);
        match written {
            Err(_) if stop.is_set() => return Ok(ExitCode::from(interrupt::EXIT_CODE)),
            written => drop(written?),
        }
        done.push((file, conversion, path, model, begin.elapsed()));
    }
    for (file, conversion, path, model, time) in done {
        let bytes = file.bytes();
        file.finish()?;
        say(&conversion, &path, bytes, model, time);
    }
    Ok(ExitCode::SUCCESS)
}

/// The sizes before and after, the bits of a weight, the time, and the tensors of each type.
fn say(conversion: &Conversion<'_>, path: &Path, bytes: u64, model: &Checkpoint, time: Duration) {
    let (mut values, mut types) = (0, BTreeMap::<DType, usize>::new());
    for (tensor, dtype) in conversion.tensors() {
        values += tensor.row_len() * tensor.rows();
        *types.entry(dtype).or_default() += 1;
    }
    let types: Vec<_> = types.iter().map(|(dtype, count)| format!("{count} {dtype}")).collect();
    note!(
        "{}: {} from {}, {:.2} bits a weight, in {:.1} s; tensors: {}",
        path.display(),
        output::bytes(bytes),
        output::bytes(model.file_bytes()),
        8.0 * bytes as f64 / values.max(1) as f64,
        time.as_secs_f64(),
        types.join(", ")
    );
}
