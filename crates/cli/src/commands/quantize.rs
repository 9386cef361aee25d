//! `pelton quantize`: a GGUF file with smaller types.

use std::{
    collections::BTreeMap,
    io::BufWriter,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Result, bail};
use pelton::{
    Checkpoint,
    weights::{Conversion, DType, Importance, Quantize},
};

use crate::{
    interrupt::{self, Interrupt},
    model,
    new_file::NewFile,
    output::{self, note},
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
    /// q4_0, iq4_nl, iq4_xs, mxfp4_moe, q3_k_l, q3_k_m, q3_k_s, q2_k, q2_k_s, f16, bf16 or f32; or
    /// its number in llama.cpp
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
    write(
        "quantizing {bar:32} {bytes} of {total_bytes}, {eta} left",
        conversion,
        &output,
        &args.write,
        &checkpoint,
    )
}

/// Writes the file of a conversion, with a bar of the model's bytes, and says what it has. After
/// Ctrl-C there is no file.
pub(super) fn write(
    template: &'static str,
    mut conversion: Conversion<'_>,
    path: &Path,
    args: &WriteArgs,
    model: &Checkpoint,
) -> Result<ExitCode> {
    if let Some(threads) = args.threads {
        conversion = conversion.threads(threads.get());
    }
    let stop = Interrupt::install().flag();
    let begin = Instant::now();
    let mut file = NewFile::create(path, args.force)?;
    let bar = Progress::new(template, 0);
    let out = BufWriter::with_capacity(BUFFER, file.writer(stop.clone()));
    let written = conversion.write(out, |done, all| bar.counter().set(done, all));
    drop(bar);
    match written {
        Err(_) if stop.is_set() => return Ok(ExitCode::from(interrupt::EXIT_CODE)),
        written => drop(written?),
    }
    let bytes = file.bytes();
    file.finish()?;
    say(&conversion, path, bytes, model, begin);
    Ok(ExitCode::SUCCESS)
}

/// The sizes before and after, the bits of a weight, the time, and the tensors of each type.
fn say(conversion: &Conversion<'_>, path: &Path, bytes: u64, model: &Checkpoint, begin: Instant) {
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
        begin.elapsed().as_secs_f64(),
        types.join(", ")
    );
}
