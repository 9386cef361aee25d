//! The tests of several requests at once, through the scheduler and its batches.

use std::{
    io::Write,
    ops::ControlFlow,
    sync::mpsc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use pelton::{Event, GenerateOptions, LoadOptions, Model, Sampling, Speculation};
use serde_json::Value;

use super::{
    args::{Args, Format},
    single::WARM_UP,
    spread::{Spread, percentile},
    subject::{CSV_HEAD, Subject},
    tokens,
};
use crate::{
    commands::positions,
    output::{self, note},
    progress::{Counter, Progress},
};

/// The requests of a test.
#[derive(Clone, Copy)]
pub(super) struct Workload {
    /// Tokens of each prompt.
    pub(super) prompt: usize,
    /// Tokens to generate of each stream.
    pub(super) tokens: usize,
    /// Tokens at the beginning that all prompts have in common.
    pub(super) shared_prefix: usize,
}

impl Workload {
    fn check(self) -> Result<()> {
        let Self { prompt, tokens, shared_prefix } = self;
        if prompt == 0 {
            bail!("-p is 0, expected at least 1 with --streams");
        }
        if tokens < 2 {
            bail!("-n is {tokens}, expected at least 2 with --streams, for a time between tokens");
        }
        if shared_prefix >= prompt {
            bail!(
                "--shared-prefix is {shared_prefix}, expected fewer than the {prompt} tokens of -p"
            );
        }
        Ok(())
    }

    fn name(self) -> String {
        let name = format!("pp{}+tg{}", self.prompt, self.tokens);
        match self.shared_prefix {
            0 => name,
            shared => format!("{name} @ s{shared}"),
        }
    }
}

/// The figures of one run: rates in tokens a second, times in milliseconds.
struct Run {
    /// In the order of [`FIGURES`].
    figures: [f64; FIGURES.len()],
    cached_tokens: usize,
    preemptions: usize,
}

/// The figures of a run, as JSON and CSV name them.
const FIGURES: [&str; 6] = [
    "prefill_tokens_per_second",
    "decode_tokens_per_second",
    "time_to_first_token_p50_ms",
    "time_to_first_token_p99_ms",
    "time_between_tokens_p50_ms",
    "time_between_tokens_p99_ms",
];

/// All runs of one number of streams.
struct Outcome {
    streams: usize,
    figures: [Spread; FIGURES.len()],
    cached_tokens: usize,
    preemptions: usize,
}

impl Outcome {
    fn of(streams: usize, runs: &[Run]) -> Self {
        let most = |value: fn(&Run) -> usize| runs.iter().map(value).max().unwrap_or(0);
        Self {
            streams,
            figures: std::array::from_fn(|i| Spread::of(runs.iter().map(|run| run.figures[i]))),
            cached_tokens: most(|run| run.cached_tokens),
            preemptions: most(|run| run.preemptions),
        }
    }
}

pub(super) fn run(args: &Args, streams: &[u16], workload: Workload) -> Result<()> {
    workload.check()?;
    let context = positions(("-p", workload.prompt), ("-n", workload.tokens))?;
    let most = streams.iter().copied().max().map_or(1, usize::from);
    let options = LoadOptions::default();
    let options = LoadOptions::default()
        .context(context)
        .speculation(Speculation::Off)
        .max_concurrent(most)
        .queue_requests(options.queue_requests.max(most))
        .queue_tokens(options.queue_tokens.max(workload.prompt.saturating_mul(most)));
    let (subject, model) = Subject::load(args, options)?;
    if model.context() < context {
        bail!("--context is {}, expected the {context} of -p and -n", model.context());
    }
    let all: usize = streams.iter().map(|&streams| usize::from(streams)).sum();
    let generated = (all * workload.tokens) as u64 * u64::from(args.repetitions);
    let template = "measuring {bar:32} {pos} of {len} tokens, {eta} left";
    let bar = Progress::new(template, generated);

    let mut bench = Bench { model: &model, workload, runs: 0 };
    let begun = Instant::now();
    let smallest = streams.iter().copied().min().map_or(1, usize::from);
    while bench.runs == 0 || begun.elapsed() < WARM_UP {
        bench.run(smallest, &Counter::default())?;
    }
    let mut outcomes = Vec::new();
    for &streams in streams {
        let streams = usize::from(streams);
        let mut runs = Vec::new();
        for _ in 0..args.repetitions {
            runs.push(bench.run(streams, bar.counter())?);
        }
        outcomes.push(Outcome::of(streams, &runs));
    }
    drop(bar);
    for outcome in outcomes.iter().filter(|outcome| outcome.preemptions > 0) {
        note!(
            "note: with {} streams the memory for keys and values was too small, and {} requests \
             were preempted and resumed",
            outcome.streams,
            outcome.preemptions,
        );
    }
    print(args, &subject, workload, &outcomes)
}

struct Bench<'a> {
    model: &'a Model,
    workload: Workload,
    /// Runs so far: each has its own namespace of cached prefixes, so that none finds the prompts
    /// of another one.
    runs: u64,
}

/// The report of one stream at its end.
struct Stream {
    /// When each token arrived, since the run began.
    times: Vec<Duration>,
    cached_tokens: usize,
    preemptions: usize,
}

impl Bench<'_> {
    fn run(&mut self, streams: usize, counter: &Counter) -> Result<Run> {
        let Workload { prompt, tokens, shared_prefix } = self.workload;
        self.runs += 1;
        let vocab = self.model.plan().vocab;
        let prompts = tokens::prompts(streams, prompt, shared_prefix, self.runs, vocab);
        let (sender, ends) = mpsc::channel();
        let begun = Instant::now();
        for prompt in prompts {
            let options = GenerateOptions::default()
                .max_tokens(tokens)
                .sampling(Sampling::greedy())
                .ignore_eos(true)
                .cache_salt(self.runs);
            let (sender, counter) = (sender.clone(), counter.clone());
            let mut times = Vec::with_capacity(tokens);
            self.model.submit(prompt, options, move |event| {
                // a send fails only where the benchmark has failed
                match event {
                    Event::Token(_) => {
                        times.push(begun.elapsed());
                        counter.add(1);
                    }
                    Event::Finished { stats, .. } => {
                        let _ = sender.send(Ok(Stream {
                            times: std::mem::take(&mut times),
                            cached_tokens: stats.cached_tokens,
                            preemptions: stats.preemptions,
                        }));
                    }
                    Event::Failed(error) => drop(sender.send(Err(error))),
                    _ => {}
                }
                ControlFlow::Continue(())
            })?;
        }
        drop(sender);
        let ended: Vec<Stream> = ends.into_iter().collect::<Result<_, _>>()?;
        if let Some(stream) = ended.iter().find(|stream| stream.times.len() != tokens) {
            bail!("a stream ended after {} tokens, expected {tokens}", stream.times.len());
        }
        if ended.len() != streams {
            bail!("{} of {streams} streams ended", ended.len());
        }
        Ok(figures(&ended, prompt))
    }
}

/// The last of the tokens that arrived together with the one at `time`: tokens of one submission
/// reach their streams one after the other.
fn end_of_burst(sorted: &[Duration], time: Duration) -> Duration {
    const GAP: Duration = Duration::from_millis(1);
    let after = sorted.iter().filter(|&&other| other >= time);
    after.fold(time, |end, &other| if other - end <= GAP { other } else { end })
}

/// The figures of a run whose streams have at least two tokens each.
fn figures(streams: &[Stream], prompt: usize) -> Run {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let firsts = || streams.iter().filter_map(|stream| stream.times.first().copied());
    let lasts = || streams.iter().filter_map(|stream| stream.times.last().copied());
    let last_first = firsts().max().unwrap_or_default();
    let mut times: Vec<Duration> =
        streams.iter().flat_map(|stream| stream.times.iter().copied()).collect();
    times.sort_unstable();
    // while all streams decode; or, where they never do, from the first token of all to the last
    let first_last = lasts().min().unwrap_or_default();
    let (from, until) = match last_first < first_last {
        true => (last_first, end_of_burst(&times, first_last)),
        false => (firsts().min().unwrap_or_default(), lasts().max().unwrap_or_default()),
    };
    let decoded = times.iter().filter(|&&time| from < time && time <= until).count();
    let rate = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64().max(1e-9);
    let mut to_first: Vec<f64> = firsts().map(milliseconds).collect();
    let mut between: Vec<f64> = streams
        .iter()
        .flat_map(|stream| stream.times.windows(2).map(|pair| milliseconds(pair[1] - pair[0])))
        .collect();
    Run {
        figures: [
            rate(streams.len() * prompt, last_first),
            rate(decoded, until.saturating_sub(from)),
            percentile(&mut to_first, 50),
            percentile(&mut to_first, 99),
            percentile(&mut between, 50),
            percentile(&mut between, 99),
        ],
        cached_tokens: streams.iter().map(|stream| stream.cached_tokens).sum(),
        preemptions: streams.iter().map(|stream| stream.preemptions).sum(),
    }
}

fn print(args: &Args, subject: &Subject, workload: Workload, outcomes: &[Outcome]) -> Result<()> {
    let mut out = output::stdout();
    let test = workload.name();
    match args.output {
        Format::Md => {
            writeln!(
                out,
                "| model | backend | threads | test | streams | prefill tokens/s | decode tokens/s \
                 | first token p50, p99 ms | between tokens p50, p99 ms |"
            )?;
            writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
            for outcome in outcomes {
                let [prefill, decode, first_50, first_99, between_50, between_99] =
                    outcome.figures.map(|figure| figure.median);
                writeln!(
                    out,
                    "| {} | {} | {} | {test} | {} | {prefill:.1} | {decode:.1} \
                     | {first_50:.1}, {first_99:.1} | {between_50:.2}, {between_99:.2} |",
                    subject.name, subject.backend, subject.threads, outcome.streams,
                )?;
            }
        }
        Format::Json => {
            let rows = outcomes.iter().map(|outcome| {
                let mut row = subject.to_json();
                row["test"] = test.clone().into();
                row["streams"] = outcome.streams.into();
                row["prompt_tokens"] = workload.prompt.into();
                row["tokens"] = workload.tokens.into();
                row["shared_prefix"] = workload.shared_prefix.into();
                row["repetitions"] = args.repetitions.into();
                for (name, figure) in FIGURES.iter().zip(outcome.figures) {
                    row[*name] = figure.to_json();
                }
                row["cached_tokens"] = outcome.cached_tokens.into();
                row["preemptions"] = outcome.preemptions.into();
                row
            });
            writeln!(out, "{:#}", Value::Array(rows.collect()))?;
        }
        Format::Csv => {
            writeln!(out, "{CSV_HEAD},test,streams,{}", FIGURES.join(","))?;
            for outcome in outcomes {
                let medians = outcome.figures.map(|figure| format!("{:.4}", figure.median));
                let medians = medians.join(",");
                writeln!(out, "{},{test},{},{medians}", subject.to_csv(), outcome.streams)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(milliseconds: &[u64]) -> Stream {
        Stream {
            times: milliseconds.iter().map(|&time| Duration::from_millis(time)).collect(),
            cached_tokens: 3,
            preemptions: 1,
        }
    }

    #[test]
    fn decode_counts_while_all_streams_decode() {
        // the first burst of the second stream is its first token; both end in one burst at 300 ms,
        // which reaches the second stream last
        let first = stream(&[100, 150, 220, 299]);
        let second = stream(&[200, 220, 300]);
        let run = figures(&[first, second], 50);
        // 100 prompt tokens in 200 ms; 4 tokens from 200 ms to 300 ms
        assert!((run.figures[0] - 500.0).abs() < 1e-6, "{:?}", run.figures);
        assert!((run.figures[1] - 40.0).abs() < 1e-6, "{:?}", run.figures);
        assert_eq!((run.cached_tokens, run.preemptions), (6, 2));
    }

    /// A stream that ends before another one begins.
    #[test]
    fn streams_one_after_the_other() {
        let run = figures(&[stream(&[100, 110, 130]), stream(&[200, 205, 300])], 50);
        // 100 prompt tokens in 200 ms; 5 tokens from 100 ms to 300 ms
        let expected = [500.0, 25.0, 100.0, 200.0, 10.0, 95.0];
        for (found, expected) in run.figures.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{:?}", run.figures);
        }
    }
}
