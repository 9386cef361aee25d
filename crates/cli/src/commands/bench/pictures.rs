//! Prompts with a picture: the time until the first token, and its parts.

use std::{io::Write, sync::Arc, time::Instant};

use anyhow::{Result, bail};
use pelton::{GenerateOptions, LoadOptions, Model, Picture, Prompt, chat::Segment};
use serde_json::{Value, json};

use super::{
    args::{Args, Format},
    picture_size::Size,
    single::WARM_UP,
    spread::Spread,
    subject::{CSV_HEAD, Subject},
    tokens::RandomTokens,
};
use crate::{output, progress::Progress};

/// Positions of a sequence, or those of the model if it has fewer. Pictures have fewer embeddings
/// by default.
const CONTEXT: usize = 8192;

/// The milliseconds of one run.
struct Run {
    /// Until the request is submitted: the picture is resized and becomes patches.
    prepared: f64,
    /// The passes of the tower, and what is between them.
    tower: f64,
    /// The passes over the prompt.
    prompt: f64,
    /// From the picture's pixels to the first token.
    first: f64,
}

/// The runs of one size.
struct Outcome {
    test: String,
    tokens: usize,
    runs: Vec<Run>,
}

/// A column: its name, and the milliseconds of a run.
type Column = (&'static str, fn(&Run) -> f64);

const COLUMNS: [Column; 4] = [
    ("prepared", |run| run.prepared),
    ("tower", |run| run.tower),
    ("prompt", |run| run.prompt),
    ("first_token", |run| run.first),
];

impl Outcome {
    fn spread(&self, of: fn(&Run) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(of))
    }
}

pub(super) fn run(args: &Args, sizes: &[Size]) -> Result<()> {
    if args.prompt.is_some() || args.tokens.is_some() || args.efforts.is_some() {
        bail!("found -p, -n or --efforts with --picture-sizes, expected sizes of pictures alone");
    }
    let (subject, model) =
        Subject::load(args, LoadOptions::default().context(CONTEXT).fit_context())?;
    let repetitions = args.repetitions as usize;
    let runs = (sizes.len() * repetitions) as u64;
    let bar = Progress::new("measuring {bar:32} {pos} of {len} runs, {eta} left", runs);
    let mut outcomes = Vec::new();
    // no picture comes twice, since the embeddings of the newest are kept
    let mut seed = 0;
    for size in sizes {
        let begun = Instant::now();
        let (mut tokens, mut all) = (0, Vec::with_capacity(repetitions));
        while begun.elapsed() < WARM_UP {
            seed += 1;
            tokens = measure(&model, *size, seed)?.0;
        }
        for _ in 0..repetitions {
            seed += 1;
            all.push(measure(&model, *size, seed)?.1);
            bar.counter().add(1);
        }
        outcomes.push(Outcome {
            test: format!("{}x{}", size.width, size.height),
            tokens,
            runs: all,
        });
    }
    drop(bar);
    print(args.output, &subject, &outcomes)
}

/// The tokens of a prompt that is one picture, and its times.
fn measure(model: &Model, size: Size, seed: u64) -> Result<(usize, Run)> {
    let values = 3 * size.width as usize * size.height as usize;
    let rgb = RandomTokens::new(seed, 256).take(values).into_iter().map(|value| value as u8);
    let Some(picture) = Picture::new(size.width, size.height, rgb.collect()) else {
        bail!("a picture of {size:?} has {values} values");
    };
    let placeholder = Segment { text: String::new(), control_tokens: true, image: Some(0) };
    let prompt =
        Prompt::Segments { segments: vec![placeholder], images: vec![Arc::new(picture).into()] };
    let options = GenerateOptions::default().max_tokens(1).ignore_eos(true);
    let begun = Instant::now();
    let mut stream = model.generate(prompt, options)?;
    let prepared = begun.elapsed().as_secs_f64();
    for token in &mut stream {
        token?;
    }
    let first = begun.elapsed().as_secs_f64();
    let stats = stream.stats();
    let run = Run {
        prepared: 1e3 * prepared,
        tower: 1e3 * stats.pictures.as_secs_f64(),
        prompt: 1e3 * stats.prefill.as_secs_f64(),
        first: 1e3 * first,
    };
    Ok((stats.prompt_tokens, run))
}

fn print(format: Format, subject: &Subject, outcomes: &[Outcome]) -> Result<()> {
    let mut out = output::stdout();
    match format {
        Format::Md => {
            writeln!(
                out,
                "| model | backend | threads | picture | tokens | prepared, ms | tower, ms \
                 | prompt, ms | first token, ms |"
            )?;
            writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
            for outcome in outcomes {
                write!(
                    out,
                    "| {} | {} | {} | {} | {} |",
                    subject.name, subject.backend, subject.threads, outcome.test, outcome.tokens
                )?;
                for (_, of) in COLUMNS {
                    write!(out, " {:.1} |", outcome.spread(of).median)?;
                }
                writeln!(out)?;
            }
        }
        Format::Json => {
            let rows = outcomes.iter().map(|outcome| {
                let mut row = subject.to_json();
                row["picture"] = outcome.test.clone().into();
                row["tokens"] = outcome.tokens.into();
                for (name, of) in COLUMNS {
                    row[format!("{name}_ms")] = outcome.spread(of).to_json();
                }
                let values = |run: &Run| COLUMNS.map(|(_, of)| of(run));
                row["runs"] = json!(outcome.runs.iter().map(values).collect::<Vec<_>>());
                row
            });
            writeln!(out, "{:#}", Value::Array(rows.collect()))?;
        }
        Format::Csv => {
            let names = COLUMNS.map(|(name, _)| format!("{name}_ms")).join(",");
            writeln!(out, "{CSV_HEAD},picture,tokens,{names}")?;
            for outcome in outcomes {
                write!(out, "{},{},{}", subject.to_csv(), outcome.test, outcome.tokens)?;
                for (_, of) in COLUMNS {
                    write!(out, ",{:.4}", outcome.spread(of).median)?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}
