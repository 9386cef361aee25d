//! Decoding with speculation next to decoding without it, on the easiest text and on the hardest.

use std::io::Write;

use anyhow::{Result, bail};
use pelton::{GenerateOptions, LoadOptions, Model, Sampling, Speculation, SpeculationStats};
use serde_json::{Value, json};

use super::{
    args::{Args, Format},
    spread::Spread,
    subject::{CSV_HEAD, Subject},
    tokens::RandomTokens,
};
use crate::{commands::positions, output, progress::Progress};

/// A text to be generated.
#[derive(Clone, Copy)]
enum Task {
    /// Random tokens that the request predicts, as those of a file of which little is changed.
    Copy,
    /// Random tokens that nothing predicts.
    Random,
    /// Random tokens that a draft model or the head of the model's file drafts.
    Draft,
}

impl Task {
    /// The tasks of a measurement: with a draft model its own.
    fn all(args: &Args) -> &'static [Self] {
        if args.speculate.has_draft() { &[Self::Draft] } else { &[Self::Copy, Self::Random] }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Random => "random",
            Self::Draft => "draft",
        }
    }
}

/// The measured runs of one task.
struct Outcome {
    task: Task,
    /// Tokens a second.
    plain: Spread,
    speculative: Spread,
    /// The speed of each speculative run relative to the plain one next to it.
    ratio: Spread,
    /// Tokens a second of each pair, plain and speculative.
    runs: Vec<[f64; 2]>,
    stats: Drafts,
}

/// Drafted tokens of all measured runs.
#[derive(Default)]
struct Drafts {
    drafted: u64,
    accepted: u64,
}

/// The prompt and the options of a run: tokens drawn at temperature 1, which a model with random
/// weights, or after a random prompt, draws from nearly its whole vocabulary.
fn request(args: &Args, seed: u64, vocab: usize) -> Result<(Vec<u32>, GenerateOptions)> {
    let prompt = super::args::one_length("-p", args.prompt.as_deref(), 64)?;
    let tokens = super::args::one_length("-n", args.tokens.as_deref(), 128)?;
    if prompt == 0 || tokens < 2 {
        bail!("-p is {prompt} and -n {tokens}, expected at least 1 and 2 with --speculation");
    }
    let prompt = RandomTokens::new(seed, vocab).take(prompt);
    let sampling = Sampling::default().temperature(1.0).top_k(0).top_p(1.0).min_p(0.0).seed(seed);
    let options = GenerateOptions::default().max_tokens(tokens).sampling(sampling);
    Ok((prompt, options.ignore_eos(true)))
}

pub(super) fn run(args: &Args) -> Result<()> {
    let prompt = super::args::one_length("-p", args.prompt.as_deref(), 64)?;
    let tokens = super::args::one_length("-n", args.tokens.as_deref(), 128)?;
    let context = positions(("-p", prompt), ("-n", tokens))?;
    let (subject, model) = Subject::load(args, LoadOptions::default().context(context))?;
    let repetitions = u64::from(args.repetitions);
    let runs = 2 * Task::all(args).len() as u64 * repetitions;
    let bar = Progress::new("measuring {bar:32} {pos} of {len} runs, {eta} left", runs);
    let mut outcomes = Vec::new();
    for &task in Task::all(args) {
        let (mut plain, mut speculative, mut stats) = (vec![], vec![], Drafts::default());
        // the first run warms up: it measures the times that later ones decide by
        for seed in 0..=repetitions {
            let (prompt, drafted) = request(args, seed + 1, model.plan().vocab)?;
            let plainly = drafted.clone().speculation(Speculation::Off);
            // in turn the one or the other comes first, as a machine becomes slower or faster; a
            // copy needs its text before
            let (text, speed, same, faster, drafts) = match task {
                Task::Random | Task::Draft if seed % 2 == 0 => {
                    let (same, faster, drafts) = generate(&model, &prompt, drafted)?;
                    let (text, speed, _) = generate(&model, &prompt, plainly)?;
                    (text, speed, same, faster, drafts)
                }
                _ => {
                    let (text, speed, _) = generate(&model, &prompt, plainly)?;
                    let drafted = match task {
                        Task::Copy => drafted.prediction(text.clone()),
                        Task::Random | Task::Draft => drafted,
                    };
                    let (same, faster, drafts) = generate(&model, &prompt, drafted)?;
                    (text, speed, same, faster, drafts)
                }
            };
            if same != text {
                bail!("the texts with and without speculation differ");
            }
            if seed > 0 {
                plain.push(speed);
                speculative.push(faster);
                stats.drafted += drafts.drafted;
                stats.accepted += drafts.accepted;
                bar.counter().add(2);
            }
        }
        let runs: Vec<[f64; 2]> = plain.iter().zip(&speculative).map(|(&a, &b)| [a, b]).collect();
        outcomes.push(Outcome {
            task,
            ratio: Spread::of(runs.iter().map(|[plain, speculative]| speculative / plain)),
            runs,
            plain: Spread::of(plain),
            speculative: Spread::of(speculative),
            stats,
        });
    }
    drop(bar);
    print(args.output, &subject, &outcomes)
}

/// The tokens of a text, its tokens a second after the first, and its drafts.
fn generate(
    model: &Model,
    prompt: &[u32],
    options: GenerateOptions,
) -> Result<(Vec<u32>, f64, SpeculationStats)> {
    let mut stream = model.generate(prompt, options)?;
    let mut tokens = Vec::new();
    for token in &mut stream {
        tokens.push(token?.id);
    }
    let stats = stream.stats();
    Ok((tokens, stats.decode_tokens_per_second().unwrap_or(0.0), stats.speculation))
}

fn print(format: Format, subject: &Subject, outcomes: &[Outcome]) -> Result<()> {
    let mut out = output::stdout();
    match format {
        Format::Md => {
            writeln!(
                out,
                "| model | backend | threads | task | plain tokens/s | speculative tokens/s \
                 | ratio (range) | accepted of drafted |"
            )?;
            writeln!(out, "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |")?;
            for Outcome { task, plain, speculative, ratio, stats, .. } in outcomes {
                writeln!(
                    out,
                    "| {} | {} | {} | {} | {:.2} | {:.2} | {:.2} ({:.2} to {:.2}) | {} of {} |",
                    subject.name,
                    subject.backend,
                    subject.threads,
                    task.name(),
                    plain.median,
                    speculative.median,
                    ratio.median,
                    ratio.min,
                    ratio.max,
                    stats.accepted,
                    stats.drafted,
                )?;
            }
        }
        Format::Json => {
            let rows =
                outcomes.iter().map(|Outcome { task, plain, speculative, ratio, runs, stats }| {
                    let mut row = subject.to_json();
                    row["task"] = task.name().into();
                    row["plain_tokens_per_second"] = plain.to_json();
                    row["speculative_tokens_per_second"] = speculative.to_json();
                    row["ratio"] = ratio.to_json();
                    row["runs"] = json!(runs);
                    row["drafts"] = json!({"drafted": stats.drafted, "accepted": stats.accepted});
                    row
                });
            writeln!(out, "{:#}", Value::Array(rows.collect()))?;
        }
        Format::Csv => {
            writeln!(
                out,
                "{CSV_HEAD},task,plain_tokens_per_second,speculative_tokens_per_second,ratio"
            )?;
            for Outcome { task, plain, speculative, ratio, .. } in outcomes {
                let (plain, fast, ratio) = (plain.median, speculative.median, ratio.median);
                let subject = subject.to_csv();
                writeln!(out, "{subject},{},{plain:.4},{fast:.4},{ratio:.4}", task.name())?;
            }
        }
    }
    Ok(())
}
