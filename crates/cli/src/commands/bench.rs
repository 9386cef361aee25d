//! `pelton bench`: prefill and decode speed.
//!
//! The tests are those of llama-bench: `ppN` runs N random tokens as one prompt, `tgN` runs N
//! tokens one after the other, both from an empty cache or, as `… @ dN`, after N tokens that are
//! not timed. Neither encodes text. On the processor `tgN` does not sample; a device that chooses
//! tokens by itself runs those that it finds likeliest, as it does for text.

use std::{
    io::{Write, stdout},
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::ValueEnum;
use pelton::LoadOptions;
use serde_json::json;

use crate::{
    model::{self, LoadArgs},
    output,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A .gguf file, or built-in
    model: String,
    /// Lengths of prompts to run, separated by commas; 0 for none
    #[arg(short, long, value_name = "N", value_delimiter = ',', default_value = "512")]
    prompt: Vec<usize>,
    /// Numbers of tokens to make, separated by commas; 0 for none
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',', default_value = "128")]
    tokens: Vec<usize>,
    /// Positions that are filled before each test
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    depth: usize,
    /// Times that each test is run, after half a second (and one run) that does not count
    #[arg(short, long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: u32,
    /// What to write
    #[arg(short, long, value_enum, default_value = "md")]
    output: Format,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// A table
    Md,
    /// An array of objects, with every run's figure
    Json,
    /// Comma-separated values
    Csv,
}

/// Runs that do not count last at least this long.
const WARM_UP: Duration = Duration::from_millis(500);

/// One test and the tokens a second of each run.
struct Outcome {
    test: String,
    speeds: Vec<f64>,
}

impl Outcome {
    fn mean(&self) -> f64 {
        self.speeds.iter().sum::<f64>() / self.speeds.len() as f64
    }

    /// The sample standard deviation; 0 for a single run.
    fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.speeds.iter().map(|s| (s - mean).powi(2)).sum();
        (squares / (self.speeds.len() - 1).max(1) as f64).sqrt()
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    let lengths: Vec<_> = args
        .prompt
        .iter()
        .map(|&n| (format!("pp{n}"), n, true))
        .chain(args.tokens.iter().map(|&n| (format!("tg{n}"), n, false)))
        .filter(|&(_, n, _)| n > 0)
        .collect();
    let longest = lengths.iter().map(|&(_, n, _)| n).max().unwrap_or(1);
    let depth = args.depth;
    let options = LoadOptions { context: Some(depth + longest), ..LoadOptions::default() };
    let engine = model::engine(&args.load)?;
    let backend = engine.backend().to_owned();
    let model = model::load_on(&engine, &args.model, &args.load, options)?;
    let vocab = model.plan().vocab as u64;

    let mut outcomes = Vec::new();
    for (test, n, at_once) in lengths {
        let tokens = random_tokens(n, vocab);
        let test = if depth > 0 { format!("{test} @ d{depth}") } else { test };
        let mut speeds = Vec::new();
        // a device that has idled takes a while to reach its speed
        let begun = Instant::now();
        let mut warm = false;
        while speeds.len() < args.repetitions as usize {
            let counts = warm && begun.elapsed() > WARM_UP;
            warm = true;
            let tokens = tokens.clone();
            let before = random_tokens(depth, vocab);
            let seconds = model.session(depth + n, move |session| {
                if depth > 0 {
                    session.run(&before)?;
                }
                let begun = Instant::now();
                match at_once {
                    true => session.run(&tokens).map(drop)?,
                    false if session.decodes() => session.decode(tokens[0], n).map(drop)?,
                    false => {
                        for token in tokens.chunks(1) {
                            session.run(token)?;
                        }
                    }
                }
                Ok(begun.elapsed().as_secs_f64())
            })?;
            if counts {
                speeds.push(n as f64 / seconds);
            }
        }
        outcomes.push(Outcome { test, speeds });
    }

    let parameters: u64 =
        model.checkpoint().tensors().map(|t| t.row_len() as u64 * t.rows() as u64).sum();
    let size = model.checkpoint().file_bytes();
    let threads = args.load.threads.map_or_else(pelton::default_threads, usize::from);
    let name = model_name(&model);
    let mut out = stdout().lock();
    match args.output {
        Format::Md => {
            writeln!(out, "| model | size | parameters | backend | threads | test | tokens/s |")?;
            writeln!(out, "| --- | ---: | ---: | --- | ---: | ---: | ---: |")?;
            for o in &outcomes {
                writeln!(
                    out,
                    "| {name} | {} | {} | {backend} | {threads} | {} | {:.2} ± {:.2} |",
                    output::bytes(size),
                    output::count(parameters),
                    o.test,
                    o.mean(),
                    o.deviation(),
                )?;
            }
        }
        Format::Json => {
            let rows: Vec<_> = outcomes
                .iter()
                .map(|o| {
                    json!({
                        "model": name, "bytes": size, "parameters": parameters, "backend": backend,
                        "threads": threads, "test": o.test, "tokens_per_second": o.mean(),
                        "deviation": o.deviation(), "runs": o.speeds,
                    })
                })
                .collect();
            writeln!(out, "{:#}", serde_json::Value::from(rows))?;
        }
        Format::Csv => {
            writeln!(
                out,
                "model,bytes,parameters,backend,threads,test,tokens_per_second,deviation"
            )?;
            for o in &outcomes {
                let (mean, deviation) = (o.mean(), o.deviation());
                let name = name.replace('"', "\"\"");
                writeln!(
                    out,
                    "\"{name}\",{size},{parameters},{backend},{threads},{},{mean:.4},{deviation:.4}",
                    o.test
                )?;
            }
        }
    }
    Ok(())
}

/// What the file calls its model, or else the file's name.
fn model_name(model: &pelton::Model) -> String {
    let checkpoint = model.checkpoint();
    match checkpoint.metadata().opt_string("general.name") {
        Ok(Some(name)) => name.escape_debug().to_string(),
        _ => checkpoint.name().to_owned(),
    }
}

/// The same tokens in every run: the constants are those of Knuth's MMIX generator.
fn random_tokens(n: usize, vocab: u64) -> Vec<u32> {
    let mut state = 1u64;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % vocab) as u32
        })
        .collect()
}
