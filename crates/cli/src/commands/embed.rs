//! `pelton embed`: the embeddings of texts.

use std::{
    io::{BufWriter, Write},
    ops::ControlFlow,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use pelton::{EmbedOptions, Embedding, LoadOptions, Model, Prompt};
use serde_json::json;

use super::{
    joined, lines_or_stdin, note_unread_pipe, stdin_has_text, stdin_lines::StdinLines, text_of,
};
use crate::{
    interrupt::{EXIT_CODE, Flag, Interrupt},
    load_flags::EmbeddingFlags,
    loader::Loader,
    model::LoadArgs,
    new_file::NewFile,
    npy,
    output::{self, Hint},
    progress::Progress,
};

/// The log lines: warnings of a load.
pub(crate) const LOG: &str = "pelton=warn";

/// The most lines of standard input that are embedded together.
const TOGETHER: usize = 256;
const NO_LINE: &str = "standard input has no line, expected a text a line";

#[derive(clap::Args)]
#[command(
    after_help = "A TEXT of -, or no text at all, stands for the lines of standard input. Without \
                  --json and -o every\ntext is one line of numbers; with --pooling none every token \
                  is. Lines of standard input alone are\nanswered as they come. A text that is longer \
                  than the context is an error."
)]
pub(crate) struct Args {
    /// A model: a file, a directory, or a name such as OWNER/NAME
    model: String,
    /// The texts; - or nothing for the lines of standard input
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// A text, or several with the separator between them; it may begin with -
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Vec<String>,
    /// Read texts with the separator between them from a file
    #[arg(short, long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// The separator of --prompt and --file; by default a line break
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    separator: Option<String>,
    #[command(flatten)]
    pooling: EmbeddingFlags,
    /// Keep the first N values of each embedding, for models that were trained for it
    #[arg(long, value_name = "N")]
    dimensions: Option<usize>,
    /// Do not divide each embedding by its norm
    #[arg(long)]
    no_normalize: bool,
    /// Write one JSON object with the embeddings, their numbers of tokens and the time after the
    /// load
    #[arg(long)]
    json: bool,
    /// A file for the embeddings: float32 [texts, dimensions]
    #[arg(short, long, value_name = "FILE.npy", conflicts_with = "json")]
    output: Option<PathBuf>,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let mut options = EmbedOptions::default().normalize(!args.no_normalize);
    options.dimensions = args.dimensions;
    let more = separated(&args)?;
    if args.texts.is_empty() && more.is_empty() {
        stdin_has_text()?;
        args.texts.push("-".to_owned());
    } else if !args.texts.iter().any(|text| text == "-") {
        note_unread_pipe();
    }
    if args.texts == ["-"] && more.is_empty() && args.output.is_none() && !args.json {
        let interrupt = Interrupt::install();
        return each_line(&load(&args)?, &options, &interrupt.flag());
    }
    let texts = lines_or_stdin(&args.texts)?.into_iter().chain(more);
    let texts: Vec<Prompt> = texts.map(Prompt::from).collect();
    ensure!(!texts.is_empty(), NO_LINE);
    let interrupt = Interrupt::install();
    let model = load(&args)?;
    // opened first: hours of work are not lost to a misspelt path
    let file = match &args.output {
        Some(path) => Some(NewFile::create(path, true)?),
        None => None,
    };

    let stop = interrupt.flag();
    let begun = Instant::now();
    let bar =
        Progress::new("embedding {bar:32} {pos} of {len} texts, {eta} left", texts.len() as u64);
    let mut all: Vec<Option<Embedding>> = texts.iter().map(|_| None).collect();
    model
        .embed_each(&texts, &options, |i, embedding| {
            all[i] = Some(embedding);
            bar.counter().add(1);
            if stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .map_err(hint)?;
    let time = begun.elapsed();
    drop(bar);
    let embeddings: Vec<Embedding> = all.into_iter().flatten().collect();
    if embeddings.len() < texts.len() {
        return Ok(ExitCode::from(EXIT_CODE));
    }
    match (file, &args.output) {
        (Some(mut file), Some(path)) => {
            let vectors = embeddings.iter().map(|embedding| embedding.vectors().len()).sum();
            let dimensions = embeddings.first().map_or(0, |embedding| embedding.dimensions);
            let values: Vec<f32> = embeddings.iter().flat_map(|e| &e.values).copied().collect();
            npy::write(BufWriter::new(&mut file), vectors, dimensions, &values)
                .with_context(|| unwritable(path))?;
            file.finish()?;
        }
        _ if args.json => writeln!(output::stdout(), "{}", to_json(&embeddings, time))?,
        _ => {
            let mut out = BufWriter::new(output::stdout());
            for vector in embeddings.iter().flat_map(Embedding::vectors) {
                writeln!(out, "{}", joined(vector))?;
            }
            out.flush()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The texts of `--prompt` and `--file`.
fn separated(args: &Args) -> Result<Vec<String>> {
    let separator = args.separator.as_deref().filter(|text| !text.is_empty()).unwrap_or("\n");
    let mut all: Vec<String> = Vec::new();
    for text in &args.prompt {
        all.extend(text.split(separator).map(str::to_owned));
    }
    for path in &args.file {
        all.extend(text_of(path)?.split(separator).map(str::to_owned));
    }
    Ok(all)
}

fn load(args: &Args) -> Result<Model> {
    let options = args.pooling.apply(LoadOptions::default())?;
    Loader::new(&args.load).load(&args.model, options)
}

/// Writes the embedding of each line of standard input when the line has come, so that another
/// program can wait for it. Lines that have come meanwhile are embedded together.
fn each_line(model: &Model, options: &EmbedOptions, stop: &Flag) -> Result<ExitCode> {
    let lines = StdinLines::of_stdin(stop.clone());
    let mut out = output::stdout();
    let mut any = false;
    while let Some(first) = lines.next(true)? {
        any = true;
        let mut texts = vec![Prompt::from(first)];
        while texts.len() < TOGETHER
            && let Some(line) = lines.next(false)?
        {
            texts.push(Prompt::from(line));
        }
        let mut found: Vec<Option<Embedding>> = texts.iter().map(|_| None).collect();
        let keep = |i: usize, embedding| {
            found[i] = Some(embedding);
            if stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        model.embed_each(&texts, options, keep).map_err(hint)?;
        for vector in found.iter().map_while(Option::as_ref).flat_map(Embedding::vectors) {
            writeln!(out, "{}", joined(vector))?;
        }
        out.flush()?;
    }
    ensure!(any || stop.is_set(), NO_LINE);
    Ok(match stop.is_set() {
        true => ExitCode::from(EXIT_CODE),
        false => ExitCode::SUCCESS,
    })
}

/// An error of an embedding, with the next step.
fn hint(error: pelton::Error) -> Hint {
    let hint = match error {
        pelton::Error::Output { .. } => {
            "a language model embeds a text by its last token with --pooling last"
        }
        pelton::Error::TextTooLong { .. } => "texts count from 0",
        _ => "`pelton embed --help` describes the options",
    };
    Hint { error: error.into(), hint: hint.to_owned() }
}

fn unwritable(path: &std::path::Path) -> String {
    format!("{} could not be written", path.display())
}

fn to_json(embeddings: &[Embedding], time: Duration) -> serde_json::Value {
    let one = |(index, embedding): (usize, &Embedding)| {
        let mut vectors = embedding.vectors();
        let values = match vectors.len() {
            1 => json!(vectors.next()),
            _ => json!(vectors.collect::<Vec<_>>()),
        };
        json!({"index": index, "tokens": embedding.tokens, "embedding": values})
    };
    json!({
        "dimensions": embeddings.first().map(|embedding| embedding.dimensions),
        "tokens": embeddings.iter().map(|embedding| embedding.tokens).sum::<usize>(),
        "seconds": time.as_secs_f64(),
        "data": embeddings.iter().enumerate().map(one).collect::<Vec<_>>(),
    })
}
