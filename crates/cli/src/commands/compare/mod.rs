//! `pelton compare`: two models on one text: divergence, quality, speed and size.

mod plot;
mod speed;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Result, bail, ensure};
use pelton::{LoadOptions, Model, Session, graph::OutputKind};
use serde_json::{Value, json};

use self::speed::Speed;
use crate::{
    commands::perplexity::{begin, text_tokens},
    interrupt::{self, Interrupt},
    loader::Loader,
    model::LoadArgs,
    new_file::NewFile,
    output,
    progress::Progress,
    scores::{
        CONTEXT, check_context,
        score::{Score, score_pair},
        scored,
        statistics::{BaseSummary, Mean, Summary, divergences},
        windows,
    },
};

/// Rows whose logits of both models are in memory at a time.
const ROWS: usize = 64;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The model that is compared with, such as one of F16: a file, a directory or built-in
    a: String,
    /// The model that is judged, such as a quantized one, with the same vocabulary
    b: String,
    /// A file of text in UTF-8
    text: PathBuf,
    /// Write the distribution of the divergence to a picture
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Replace a picture that exists
    #[arg(long, requires = "plot")]
    force: bool,
    /// Score the first windows only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// Write a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let context = args.load.context().unwrap_or(CONTEXT);
    check_context(context)?;
    args.load.set_context(context);
    // a picture that exists is refused before the work, not after it
    let stop = Interrupt::install().flag();
    let picture = args.plot.as_deref().map(|path| NewFile::create(path, args.force)).transpose()?;
    let loader = Loader::new(&args.load);
    loader.engine()?;
    let load = |name: &String| -> Result<Model> {
        let model = loader.load(name, LoadOptions::default())?;
        match model.plan().output {
            OutputKind::Logits => Ok(model),
            _ => bail!("{name} computes no logits, expected a model that generates text"),
        }
    };
    let models = [load(&args.a)?, load(&args.b)?];
    let (tokens, begin) = tokens(&args, &models)?;
    let windows = windows(tokens.len(), context, args.windows)?;
    let bytes = models.each_ref().map(|model| model.summary().weight_bytes);

    let [a, b] = models;
    let mut sessions = [args.load.session(a)?, args.load.session(b)?];
    let bar = Progress::new("{bar:32} window {pos} of {len}, {eta} left", windows as u64);
    let mut scores = Vec::new();
    for window in tokens.chunks_exact(context).take(windows) {
        let mut window = window.to_vec();
        window[0] = begin.unwrap_or(window[0]);
        scores.extend(of_window(&mut sessions, &window)?);
        bar.counter().add(1);
        if stop.is_set() {
            return Ok(ExitCode::from(interrupt::EXIT_CODE));
        }
    }
    drop(bar);
    let speeds = speed::measure(&mut sessions, &tokens[..context])?;
    let summary = Summary::of(&scores);
    let Some(base) = &summary.base else { bail!("no token was scored") };
    if let Some(mut file) = picture {
        let title = format!("KL divergence of {} from {}", label(&args.b), label(&args.a));
        write!(file.writer(stop), "{}", plot::distribution(&title, &divergences(&scores), base))?;
        file.finish()?;
    }
    let table = Table { args: &args, windows, bytes, speeds, summary: &summary, base };
    let mut out = output::stdout();
    match args.json {
        true => writeln!(out, "{}", table.to_json())?,
        false => write!(out, "{}", table.to_text())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The tokens of the text, which both models have in common, and the token before every text.
fn tokens(args: &Args, models: &[Model; 2]) -> Result<(Vec<u32>, Option<u32>)> {
    let [a, b] = models.each_ref().map(|model| model.plan().vocab);
    let expected = "expected two models of one vocabulary";
    ensure!(a == b, "{} has a vocabulary of {a} and {} of {b}, {expected}", args.a, args.b);
    let begins = [begin(&models[0])?, begin(&models[1])?];
    let of = |i: usize, name: &str| text_tokens(&models[i], name, &args.text, begins[i]);
    let [of_a, of_b] = [of(0, &args.a)?, of(1, &args.b)?];
    let differs = of_a.iter().zip(&of_b).position(|(a, b)| a != b);
    if let Some(i) = differs.or((of_a.len() != of_b.len()).then_some(of_a.len().min(of_b.len()))) {
        bail!("token {i} of the text is another for {} than for {}, {expected}", args.b, args.a);
    }
    Ok((of_a, begins[0]))
}

/// The scores of the second half of a window.
fn of_window([a, b]: &mut [Session; 2], tokens: &[u32]) -> Result<Vec<Score>> {
    let rows = scored(tokens.len());
    for session in [&mut *a, &mut *b] {
        session.truncate(0);
        session.run(&tokens[..rows.start])?;
    }
    let mut scores = Vec::with_capacity(rows.len());
    for first in rows.clone().step_by(ROWS) {
        let end = (first + ROWS).min(rows.end);
        let mut of_a = Vec::new();
        a.run_all(&tokens[first..end], |logits| of_a.extend_from_slice(logits))?;
        let width = of_a.len() / (end - first);
        let mut row = first;
        b.run_all(&tokens[first..end], |logits| {
            let place = (row - first) * width;
            scores.push(score_pair(&of_a[place..place + width], logits, tokens[row + 1]));
            row += 1;
        })?;
    }
    let scores: Option<Vec<_>> = scores.into_iter().collect();
    scores.ok_or_else(|| {
        anyhow::anyhow!("logits that are no numbers, expected finite ones of every scored token")
    })
}

/// The last part of a path, by which a reader knows the model.
fn label(name: &str) -> String {
    let last = Path::new(name).file_name().map(|last| last.to_string_lossy().into_owned());
    last.unwrap_or_else(|| name.to_owned())
}

/// The results of a comparison.
struct Table<'a> {
    args: &'a Args,
    windows: usize,
    /// Bytes of the weights in memory.
    bytes: [u64; 2],
    speeds: [Speed; 2],
    summary: &'a Summary,
    /// The divergence of B from A.
    base: &'a BaseSummary,
}

impl Table<'_> {
    fn perplexities(&self) -> [Mean; 2] {
        [self.base.perplexity, self.summary.perplexity]
    }

    fn to_json(&self) -> Value {
        let model = |i: usize, name: &String| {
            json!({
                "model": name,
                "bytes": self.bytes[i],
                "perplexity": self.perplexities()[i].to_json(),
                "prompt_tokens_per_second": self.speeds[i].prompt,
                "decode_tokens_per_second": self.speeds[i].decode,
            })
        };
        let mut object = self.base.to_json();
        // it is that of A
        if let Some(object) = object.as_object_mut() {
            object.remove("perplexity");
        }
        object["a"] = model(0, &self.args.a);
        object["b"] = model(1, &self.args.b);
        object["context"] = json!(self.args.load.context());
        object["windows"] = json!(self.windows);
        object["scored_tokens"] = json!(self.summary.tokens);
        object
    }

    fn to_text(&self) -> String {
        let mut rows = vec![
            ["", "A", "B"].map(str::to_owned),
            ["model".to_owned(), label(&self.args.a), label(&self.args.b)],
        ];
        let mut row = |name: &str, [a, b]: [String; 2]| rows.push([name.to_owned(), a, b]);
        row("weights", self.bytes.map(output::bytes));
        row("perplexity", self.perplexities().map(|p| format!("{:.4} ± {:.4}", p.value, p.error)));
        let speeds = self.speeds;
        row("prompt tokens/s", speeds.map(|speed| format!("{:.1}", speed.prompt)));
        row("decode tokens/s", speeds.map(|speed| format!("{:.1}", speed.decode)));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let (first, second) = (width(0).unwrap_or_default(), width(1).unwrap_or_default());
        let mut text: String =
            rows.iter().map(|[name, a, b]| format!("{name:first$}  {a:second$}  {b}\n")).collect();
        text += &format!("\nB compared with A, {} tokens:\n", self.summary.tokens);
        text += &self.base.to_text();
        text
    }
}
