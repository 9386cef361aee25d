//! The tests of one sequence, as llama-bench defines them. `ppN` runs N random tokens as one
//! prompt, and `tgN` decodes N tokens greedily. Both begin with an empty cache or, as `… @ dN`,
//! after N tokens that are not measured. Neither encodes text.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use anyhow::Result;
use pelton::{EffortLevel, LoadOptions, Session};
use serde_json::Value;

use super::{
    args::{Args, Format},
    subject::{CSV_HEAD, Subject},
    tokens::RandomTokens,
};
use crate::{commands::positions, output, progress::Progress};

/// The least time of warm-up runs.
pub(super) const WARM_UP: Duration = Duration::from_millis(500);
/// The seed of all tokens.
const SEED: u64 = 1;

/// A test to be run.
#[derive(Clone, Copy)]
enum Test {
    Prompt(usize),
    /// Tokens, and the effort of each.
    Decode(usize, EffortLevel),
}

impl Test {
    fn length(self) -> usize {
        match self {
            Self::Prompt(n) | Self::Decode(n, _) => n,
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::Prompt(_) => "-p",
            Self::Decode(..) => "-n",
        }
    }

    /// Whether it differs from another in its effort alone.
    fn takes_turns_with(self, other: Self) -> bool {
        matches!((self, other), (Self::Decode(a, _), Self::Decode(b, _)) if a == b)
    }

    fn name(self, depth: usize) -> String {
        let name = match self {
            Self::Prompt(n) => format!("pp{n}"),
            Self::Decode(n, effort) if effort.is_full() => format!("tg{n}"),
            Self::Decode(n, effort) => format!("tg{n} e{effort}"),
        };
        if depth > 0 { format!("{name} @ d{depth}") } else { name }
    }
}

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

pub(super) fn run(args: &Args) -> Result<()> {
    let prompts = args.prompt.as_deref().unwrap_or(&[512]).iter().map(|&n| Test::Prompt(n));
    let efforts = match &args.efforts {
        Some(efforts) => efforts.clone(),
        None => vec![args.load.effort_level()],
    };
    let decodes = args.tokens.as_deref().unwrap_or(&[128]).iter();
    let decodes = decodes.flat_map(|&n| efforts.iter().map(move |&e| Test::Decode(n, e)));
    let tests: Vec<Test> = prompts.chain(decodes).filter(|test| test.length() > 0).collect();
    let depth = args.depth;
    let mut context = depth.max(1);
    for test in &tests {
        let length = (test.option(), test.length());
        context = context.max(positions(("--depth", depth), length)?);
    }
    let mut options = LoadOptions::default().context(context);
    options.effort = args.efforts.as_ref().map(|_| EffortLevel::FULL.into());
    let (subject, model) = Subject::load(args, options)?;
    let mut session = model.into_session()?;
    let repetitions = args.repetitions as usize;
    let runs = (tests.len() * repetitions) as u64;
    let bar = Progress::new("measuring {bar:32} {pos} of {len} runs, {eta} left", runs);
    let mut outcomes = Vec::new();
    // tests of different efforts take turns, so that what else the machine does is the same for all
    let of_one = |a: &Test, b: &Test| a.takes_turns_with(*b);
    for tests in tests.chunk_by(of_one) {
        let mut speeds = vec![Vec::with_capacity(repetitions); tests.len()];
        for test in tests {
            // a GPU that was idle takes a while to reach its clock rate
            let begun = Instant::now();
            measure(&mut session, *test, depth)?;
            while begun.elapsed() < WARM_UP {
                measure(&mut session, *test, depth)?;
            }
        }
        for _ in 0..repetitions {
            for (test, speeds) in tests.iter().zip(&mut speeds) {
                speeds.push(test.length() as f64 / measure(&mut session, *test, depth)?);
                bar.counter().add(1);
            }
        }
        for (test, speeds) in tests.iter().zip(speeds) {
            outcomes.push(Outcome { test: test.name(depth), speeds });
        }
    }
    drop(bar);
    print(args.output, &subject, &outcomes)
}

/// The seconds of one run.
fn measure(session: &mut Session, test: Test, depth: usize) -> Result<f64> {
    let vocab = session.plan().vocab;
    let random = |n| RandomTokens::new(SEED, vocab).take(n);
    let before = random(depth);
    let tokens = random(match test {
        Test::Prompt(n) => n,
        Test::Decode(..) => 1,
    });
    session.truncate(0);
    session.set_effort(EffortLevel::FULL)?;
    if !before.is_empty() {
        session.run(&before)?;
    }
    let begun = Instant::now();
    match test {
        Test::Prompt(_) => session.run(&tokens).map(drop)?,
        Test::Decode(n, effort) => {
            session.set_effort(effort)?;
            session.decode(tokens[0], n).map(drop)?;
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn print(format: Format, subject: &Subject, outcomes: &[Outcome]) -> Result<()> {
    let mut out = output::stdout();
    match format {
        Format::Md => {
            writeln!(out, "| model | size | parameters | backend | threads | test | tokens/s |")?;
            writeln!(out, "| --- | ---: | ---: | --- | ---: | ---: | ---: |")?;
            for outcome in outcomes {
                writeln!(
                    out,
                    "| {} | {} | {} | {} | {} | {} | {:.2} ± {:.2} |",
                    subject.name,
                    output::bytes(subject.bytes),
                    output::count(subject.parameters),
                    subject.backend,
                    subject.threads,
                    outcome.test,
                    outcome.mean(),
                    outcome.deviation(),
                )?;
            }
        }
        Format::Json => {
            let rows = outcomes.iter().map(|outcome| {
                let mut row = subject.to_json();
                row["test"] = outcome.test.clone().into();
                row["tokens_per_second"] = outcome.mean().into();
                row["deviation"] = outcome.deviation().into();
                row["runs"] = outcome.speeds.clone().into();
                row
            });
            writeln!(out, "{:#}", Value::Array(rows.collect()))?;
        }
        Format::Csv => {
            writeln!(out, "{CSV_HEAD},test,tokens_per_second,deviation")?;
            for outcome in outcomes {
                let (mean, deviation) = (outcome.mean(), outcome.deviation());
                writeln!(out, "{},{},{mean:.4},{deviation:.4}", subject.to_csv(), outcome.test)?;
            }
        }
    }
    Ok(())
}
