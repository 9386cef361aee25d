//! Constrained decoding next to free decoding.

use std::{io::Write, time::Instant};

use anyhow::{Result, bail};
use pelton::{GenerateOptions, LoadOptions, Model, Sampling};
use serde_json::{Value, json};

use super::{
    args::{Args, Format, one_length},
    spread::Spread,
    subject::{CSV_HEAD, Subject},
    tokens::RandomTokens,
};
use crate::{commands::positions, output, progress::Progress};

/// One generated text.
struct Text {
    tokens: usize,
    /// Tokens without an alternative.
    forced: usize,
    /// Tokens a second after the first that follows the prompt's passes.
    speed: f64,
}

/// The measured pairs of texts.
struct Outcome {
    /// Tokens a second.
    free: Spread,
    constrained: Spread,
    /// The speed of each constrained text relative to the free one next to it.
    ratio: Spread,
    /// Tokens of all constrained texts.
    tokens: usize,
    forced: usize,
    /// Tokens a second of each pair, free and constrained.
    runs: Vec<[f64; 2]>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    if args.speculation || args.streams.is_some() || args.depth > 0 {
        bail!("found a constraint with --speculation, --streams or --depth, expected one of them");
    }
    let prompt = one_length("-p", args.prompt.as_deref(), 64)?;
    let tokens = one_length("-n", args.tokens.as_deref(), 128)?;
    if prompt == 0 || tokens < 3 {
        bail!("-p is {prompt} and -n {tokens}, expected at least 1 and 3 with a constraint");
    }
    let context = positions(("-p", prompt), ("-n", tokens))?;
    let (subject, model) = Subject::load(args, LoadOptions::default().context(context))?;
    let repetitions = u64::from(args.repetitions);
    let bar = Progress::new("measuring {bar:32} {pos} of {len} runs, {eta} left", 2 * repetitions);
    let mut runs = Vec::new();
    let (mut all, mut forced) = (0, 0);
    // the first pair warms up
    for seed in 0..=repetitions {
        let prompt = RandomTokens::new(seed + 1, model.plan().vocab).take(prompt);
        let sampling =
            Sampling::default().temperature(1.0).top_k(0).top_p(1.0).min_p(0.0).seed(seed + 1);
        let free = GenerateOptions::default().max_tokens(tokens);
        let free = free.sampling(sampling).ignore_eos(true);
        let constrained = args.constraint.apply(free.clone())?;
        // a machine that becomes slower or faster does so for both
        let (free, constrained) = match seed % 2 {
            0 => {
                let constrained = generate(&model, &prompt, constrained)?;
                (generate(&model, &prompt, free)?, constrained)
            }
            _ => {
                let free = generate(&model, &prompt, free)?;
                (free, generate(&model, &prompt, constrained)?)
            }
        };
        if seed > 0 {
            runs.push([free.speed, constrained.speed]);
            all += constrained.tokens;
            forced += constrained.forced;
            bar.counter().add(2);
        }
    }
    drop(bar);
    let outcome = Outcome {
        free: Spread::of(runs.iter().map(|[free, _]| *free)),
        constrained: Spread::of(runs.iter().map(|[_, constrained]| *constrained)),
        ratio: Spread::of(runs.iter().map(|[free, constrained]| constrained / free)),
        tokens: all,
        forced,
        runs,
    };
    print(args.output, &subject, &outcome)
}

/// Generates a text and measures its speed.
fn generate(model: &Model, prompt: &[u32], options: GenerateOptions) -> Result<Text> {
    let mut stream = model.generate(prompt, options)?;
    let mut begun = None;
    let mut after = 0;
    let mut last = Instant::now();
    while let Some(token) = stream.next() {
        token?;
        last = Instant::now();
        if begun.is_some() {
            after += 1;
        } else if !stream.stats().prefill.is_zero() {
            // forced tokens at the beginning of a text come before the prompt has run
            begun = Some(last);
        }
    }
    let stats = stream.stats();
    let seconds = begun.map_or(0.0, |begun| (last - begun).as_secs_f64());
    if after < 2 || seconds <= 0.0 {
        let tokens = stats.generated_tokens;
        bail!("a text ended after {tokens} tokens, expected a constraint that allows longer ones");
    }
    let speed = f64::from(after) / seconds;
    Ok(Text { tokens: stats.generated_tokens, forced: stats.forced_tokens, speed })
}

fn print(format: Format, subject: &Subject, outcome: &Outcome) -> Result<()> {
    let Outcome { free, constrained, ratio, tokens, forced, runs } = outcome;
    let mut out = output::stdout();
    match format {
        Format::Md => {
            writeln!(
                out,
                "| model | backend | threads | free tokens/s | constrained tokens/s \
                 | ratio (range) | forced of all tokens |"
            )?;
            writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: | ---: |")?;
            writeln!(
                out,
                "| {} | {} | {} | {:.2} | {:.2} | {:.3} ({:.3} to {:.3}) | {forced} of {tokens} |",
                subject.name,
                subject.backend,
                subject.threads,
                free.median,
                constrained.median,
                ratio.median,
                ratio.min,
                ratio.max,
            )?;
        }
        Format::Json => {
            let mut row = subject.to_json();
            row["free_tokens_per_second"] = free.to_json();
            row["constrained_tokens_per_second"] = constrained.to_json();
            row["ratio"] = ratio.to_json();
            row["tokens"] = (*tokens).into();
            row["forced"] = (*forced).into();
            row["runs"] = json!(runs);
            writeln!(out, "{:#}", Value::Array(vec![row]))?;
        }
        Format::Csv => {
            writeln!(
                out,
                "{CSV_HEAD},free_tokens_per_second,constrained_tokens_per_second,ratio,tokens,forced"
            )?;
            let (free, constrained, ratio) = (free.median, constrained.median, ratio.median);
            let subject = subject.to_csv();
            writeln!(out, "{subject},{free:.4},{constrained:.4},{ratio:.4},{tokens},{forced}")?;
        }
    }
    Ok(())
}
