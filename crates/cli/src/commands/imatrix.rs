//! `pelton imatrix`: the importance of the columns of a model's matrices on a text,
//! for `pelton quantize`.

use std::{
    io::{BufWriter, Write},
    num::NonZeroUsize,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Result, bail};
use pelton::{
    Engine, KvType, LoadOptions, Model,
    cpu::{Cpu, MatrixInput},
    graph::OutputKind,
    weights::ImportanceSums,
};
use serde_json::json;

use crate::{
    commands::perplexity::{begin, text_tokens, tokens_of},
    hints, hub,
    interrupt::{self, Interrupt},
    model,
    new_file::NewFile,
    output::{self, note},
    progress::Progress,
    scores::{CONTEXT, check_context, score::score, scored, statistics::Summary, windows},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model: a file, a directory, a name such as qwen3:0.6b, or built-in
    model: String,
    /// A file of text in UTF-8, of the kind that the model will read; 100 windows of it and more
    #[arg(required_unless_present = "prompt")]
    text: Option<PathBuf>,
    /// The text itself, in place of a file; it may begin with -
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "text")]
    prompt: Option<String>,
    /// The file to write, for `pelton quantize --imatrix` and llama-quantize
    #[arg(short, long, value_name = "FILE.gguf")]
    output: PathBuf,
    /// Set the tokens of a window
    #[arg(short, long, value_name = "N", default_value_t = CONTEXT)]
    context: usize,
    /// Read the first windows only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// Replace a file that exists
    #[arg(long)]
    force: bool,
    /// Use N threads; by default one for each physical core. Importance is computed on the CPU
    #[arg(short, long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Write a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let context = args.context;
    check_context(context)?;
    let stop = Interrupt::install().flag();
    // an output that exists is refused before the work, not after it
    let mut file = NewFile::create(&args.output, args.force)?;
    let sums = Arc::new(Mutex::new(ImportanceSums::default()));
    let model = load(&args, Arc::clone(&sums))?;
    if model.plan().output != OutputKind::Logits {
        bail!("{} computes no logits, expected a model that generates text", args.model);
    }
    let begin = begin(&model)?;
    let text = args.prompt.as_deref().unwrap_or_default();
    let mut tokens = match &args.text {
        Some(path) => text_tokens(&model, &args.model, path, begin)?,
        None => tokens_of(&model, &args.model, text, begin)?,
    };
    let windows = windows(tokens.len(), context, args.windows)?;

    let mut session = model.into_session()?;
    let bar = Progress::new("{bar:32} window {pos} of {len}, {eta} left", windows as u64);
    let mut scores = Vec::new();
    for window in tokens.chunks_exact_mut(context).take(windows) {
        window[0] = begin.unwrap_or(window[0]);
        let rows = scored(context);
        let (mut row, mut found) = (0, Vec::with_capacity(rows.len()));
        session.truncate(0);
        session.run_all(window, |logits| {
            if rows.contains(&row) {
                found.push(score(logits, window[row + 1], None));
            }
            row += 1;
        })?;
        let found: Option<Vec<_>> = found.into_iter().collect();
        let Some(found) = found else {
            bail!("logits that are no numbers, expected finite ones of every scored token");
        };
        scores.extend(found);
        bar.counter().add(1);
        if stop.is_set() {
            return Ok(ExitCode::from(interrupt::EXIT_CODE));
        }
    }
    drop(bar);
    let sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
    let text = args.text.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let out = BufWriter::new(file.writer(stop));
    drop(sums.write(out, &text, windows as u32, context as u32)?);
    let bytes = file.bytes();
    file.finish()?;
    say(&args, &sums, windows, bytes, &Summary::of(&scores))?;
    Ok(ExitCode::SUCCESS)
}

/// The model on the CPU, which adds the inputs of the layers' matrices to `sums`. The output layer
/// has none, as llama.cpp leaves it out.
fn load(args: &Args, sums: Arc<Mutex<ImportanceSums>>) -> Result<Model> {
    let observe = move |input: MatrixInput<'_>| {
        // all parts of a fused matrix have the same input
        if input.layer.is_some() && input.weight.first() == 0 {
            let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
            let MatrixInput { weight, matrix, layer: _, values } = input;
            sums.add(&weight.name, weight.count(), matrix, values);
        }
    };
    let threads = args.threads.map_or_else(pelton::default_threads, NonZeroUsize::get);
    let engine = Engine::with_backend(Cpu::new(threads).observing(observe));
    let name = hub::local(&args.model, pelton::Device::Cpu)?;
    let bar = Progress::new("loading {bar:32} {bytes} of {total_bytes}, {eta} left", 0);
    let counter = bar.counter().clone();
    let options = LoadOptions::default()
        .context(args.context)
        .kv(KvType::F32)
        .progress(move |progress| counter.set(progress.done, progress.total));
    engine.load(model::source(&name), &options).map_err(|error| hints::of_load(error, &name))
}

/// The perplexity, by which a reader sees that the model reads the text well, and the
/// contents of the file.
fn say(
    args: &Args,
    sums: &ImportanceSums,
    windows: usize,
    bytes: u64,
    summary: &Summary,
) -> Result<()> {
    let mut out = output::stdout();
    if args.json {
        let mut object = summary.to_json();
        object["model"] = json!(args.model);
        object["context"] = json!(args.context);
        object["windows"] = json!(windows);
        object["tensors"] = json!(sums.len());
        object["unused_matrices"] = json!(sums.unused());
        writeln!(out, "{object}")?;
        return Ok(());
    }
    write!(out, "{}", summary.to_text())?;
    note!(
        "{}: {}, the importance of {} tensors from {} tokens",
        args.output.display(),
        output::bytes(bytes),
        sums.len(),
        windows * args.context
    );
    if sums.unused() > 0 {
        note!(
            "{} experts were chosen by no token, so that they are quantized without importance; a longer text helps",
            sums.unused()
        );
    }
    Ok(())
}
