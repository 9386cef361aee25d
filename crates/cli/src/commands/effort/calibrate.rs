//! `pelton effort calibrate`: the thresholds of a model's matrices, and the fractions of their kinds at an effort.
//!
//! The scores of all matrices are measured on the first windows of the text ([`effort_scores`]).
//! A first load measures the divergence from the whole model of each group alone at some fractions: a
//! table of effort has a point for each of these measurements. [`fractions::divide`] makes the table of
//! them. A second load measures what that table, the uniform fractions and the mean of both give, and the
//! least is kept, so that a table is never worse than none on its text.

use std::{
    io::Write,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use pelton::{
    EffortFile, EffortMode, EffortTables, LoadOptions, Model, Session,
    cpu::effort_scores,
    graph::{EffortGroup, EffortKind, EffortTable, OutputKind, Plan, build},
};
use serde_json::{Value, json};

use crate::{
    commands::perplexity::{begin, text_tokens},
    effort,
    loader::Loader,
    model::LoadArgs,
    output,
    progress::{Counter, Progress},
    scores::{
        CONTEXT_MIN, fractions,
        score::{LogProbs, score},
        scored,
    },
};

/// Tokens of a window.
const CONTEXT: usize = 256;
/// The efforts of a table, and the fractions at which each group is measured.
const LEVELS: [f64; 8] = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Candidates of each effort: uniform, the division, and their mean.
const CANDIDATES: usize = 3;
/// The part of the time that the first load may take.
const FIRST: f64 = 0.75;
/// The most windows on which scores are measured.
const SCORED: usize = 4;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model: a file, a directory, a name such as qwen3:0.6b, or built-in
    model: String,
    /// A file of text in UTF-8, of the kind that the model is used for: some windows of 256 tokens
    /// (--context), all of which are run about 120 times
    text: PathBuf,
    /// The file of the table; by default one in the user's cache directory, which every load of the
    /// model with --effort finds
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    /// Measure on as many windows as take about this long, and on at least one
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    minutes: f64,
    /// Groups of neighbouring layers that have fractions of their own
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    layer_groups: u16,
    /// Write a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kept: effort::KeptWeights,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) fn run(mut args: Args) -> Result<()> {
    if args.load.effort.level().is_some() {
        bail!(
            "calibration measures all efforts, expected no --effort; --mode chooses what is left out"
        );
    }
    ensure!(
        args.minutes >= 0.0 && args.minutes <= 1e6,
        "--minutes is {}, expected 0 to 1000000",
        args.minutes
    );
    let context = args.load.context().unwrap_or(CONTEXT);
    ensure!(
        context >= CONTEXT_MIN,
        "--context is {context}, expected at least {CONTEXT_MIN} tokens of a window"
    );
    args.load.set_context(context);

    // only buckets need no scores
    let mode = args.kept.options().mode;
    let has_scores = mode != EffortMode::Bucket;
    let model = load(&args, (!has_scores).then_some(EffortTables::Uniform))?;
    let windows = windows(&model, &args, context)?;
    let mut plan = model.plan().clone();
    if has_scores {
        plan = plan.with_effort()?;
        plan.effort.mode = mode;
    }
    let groups = groups(&plan, usize::from(args.layer_groups));
    let path = match &args.output {
        Some(path) => path.clone(),
        None => EffortFile::path(
            &effort::folder().context("there is no cache directory, expected --output FILE")?,
            &plan,
            model.checkpoint(),
        ),
    };
    let scores = if has_scores { scores(&model, &windows)? } else { EffortTable::default() };
    drop(model);

    let alone = (0..groups.len()).flat_map(|group| LEVELS.map(|level| (group, level)));
    let points = alone.map(|(alone, level)| {
        let of = |group| if group == alone { level } else { 1.0 };
        (0..groups.len()).map(of).collect()
    });
    let limit = Duration::from_secs_f64(args.minutes * 60.0 * FIRST);
    let (measured, used) =
        measure(&args, (&groups, &scores), points.collect(), &windows, Some(limit))?;
    let curves: Vec<fractions::Group> = groups
        .iter()
        .zip(measured.chunks(LEVELS.len()))
        .map(|(group, divergences)| fractions::Group {
            bytes: group.bytes,
            points: LEVELS.into_iter().zip(divergences.iter().copied()).rev().collect(),
        })
        .collect();

    let candidates = LEVELS.map(|effort| {
        let divided = fractions::divide(&curves, effort);
        let mean = divided.iter().map(|fraction| (fraction + effort) / 2.0).collect();
        [vec![effort; groups.len()], divided, mean]
    });
    let points = candidates.iter().flatten().cloned().collect();
    let (measured, _) = measure(&args, (&groups, &scores), points, &windows[..used], None)?;
    let mut kept: Vec<Kept> = Vec::new();
    for ((effort, candidates), found) in
        LEVELS.into_iter().zip(candidates).zip(measured.chunks(CANDIDATES))
    {
        let best = (0..CANDIDATES).min_by(|&a, &b| found[a].total_cmp(&found[b])).unwrap_or(0);
        let fractions = candidates.into_iter().nth(best).unwrap_or_default();
        kept.push(Kept { effort, fractions, uniform: found[0], divergence: found[best] });
    }
    let points: Vec<_> = kept.iter().map(|kept| &kept.fractions).collect();
    let table = table((&groups, &scores), LEVELS.to_vec(), &points)?;
    let model = load(&args, Some(EffortTables::Table(Arc::new(table.clone()))))?;
    EffortFile::write(&path, (model.plan(), model.checkpoint()), &table)?;
    print(&args, &groups, &kept, (used, context), &path)
}

/// The matrices of a kind in neighbouring layers.
struct Group {
    kind: EffortKind,
    first: usize,
    last: usize,
    bytes: f64,
}

impl Group {
    fn name(&self) -> String {
        format!("{} {}-{}", self.kind.name(), self.first, self.last)
    }
}

/// The fractions that are kept at one effort, and the mean divergences.
struct Kept {
    effort: f64,
    fractions: Vec<f64>,
    uniform: f64,
    divergence: f64,
}

/// The model with a table, or without effort.
fn load(args: &Args, tables: Option<EffortTables>) -> Result<Model> {
    let mut options = LoadOptions::default();
    options.effort = tables.map(|tables| args.kept.options().tables(tables));
    let model = Loader::new(&args.load).load(&args.model, options)?;
    if model.plan().output != OutputKind::Logits {
        bail!("{} computes no logits, expected a model that generates text", args.model);
    }
    Ok(model)
}

/// The scores of the matrices on some windows.
fn scores(model: &Model, windows: &[Vec<u32>]) -> Result<EffortTable> {
    let checkpoint = model.checkpoint();
    let windows = &windows[..windows.len().min(SCORED)];
    let bar = Progress::new("scores {bar:32} window {pos} of {len}", windows.len() as u64);
    let show = &mut |done, all| bar.counter().set(done, all);
    let threads = pelton::default_threads();
    Ok(EffortTable::new(effort_scores(build(checkpoint)?, checkpoint, windows, threads, show)?))
}

/// The windows of the text.
fn windows(model: &Model, args: &Args, context: usize) -> Result<Vec<Vec<u32>>> {
    let begin = begin(model)?;
    let tokens = text_tokens(model, &args.model, &args.text, begin)?;
    let windows = tokens.chunks_exact(context).map(|window| {
        let mut window = window.to_vec();
        window[0] = begin.unwrap_or(window[0]);
        window
    });
    let windows: Vec<_> = windows.collect();
    ensure!(
        !windows.is_empty(),
        "the text has {} tokens, expected at least one window of {context} (--context)",
        tokens.len()
    );
    Ok(windows)
}

/// The groups of a plan: of each kind those of `count` runs of layers, as far as there are some.
fn groups(plan: &Plan, count: usize) -> Vec<Group> {
    let matrices = plan.effort_matrices();
    let layers = matrices.iter().map(|(layer, ..)| layer + 1).max().unwrap_or(1);
    let count = count.min(layers);
    let mut all = Vec::new();
    for kind in EffortKind::ALL {
        for i in 0..count {
            let (first, end) = (i * layers / count, (i + 1) * layers / count);
            let of = matrices
                .iter()
                .filter(|(layer, of, _)| *of == kind && (first..end).contains(layer));
            let bytes: f64 = of.map(|(.., bytes)| bytes).sum();
            if bytes > 0.0 {
                all.push(Group { kind, first, last: end - 1, bytes });
            }
        }
    }
    all
}

/// A table of scores, and of groups with some fractions `[points][groups]`.
fn table(
    (groups, scores): (&[Group], &EffortTable),
    efforts: Vec<f64>,
    points: &[&Vec<f64>],
) -> Result<EffortTable> {
    let group = |(i, group): (usize, &Group)| EffortGroup {
        kind: group.kind,
        layers: group.first..=group.last,
        // rounding of sums
        fractions: points.iter().map(|of| of[i].clamp(1e-3, 1.0)).collect(),
    };
    let all = groups.iter().enumerate().map(group).collect();
    scores.clone().with_fractions(efforts, all).map_err(anyhow::Error::msg)
}

/// The mean divergence from the whole model with each of some fractions `[points][groups]`, over as
/// many windows as the limit allows, and their number.
fn measure(
    args: &Args,
    of: (&[Group], &EffortTable),
    points: Vec<Vec<f64>>,
    windows: &[Vec<u32>],
    limit: Option<Duration>,
) -> Result<(Vec<f64>, usize)> {
    // the point of each effort of this table is one measurement
    let efforts: Vec<f64> =
        (1..=points.len()).map(|i| i as f64 / (points.len() + 1) as f64).collect();
    let table = table(of, efforts.clone(), &points.iter().collect::<Vec<_>>())?;
    let tables = EffortTables::Table(Arc::new(table));
    let mut session = load(args, Some(tables))?.into_session()?;
    let all = (windows.len() * points.len()) as u64;
    let bar = Progress::new("measuring {bar:32} {pos} of {len} runs, {eta} left", all);
    let begun = Instant::now();
    let mut sums = vec![0.0; points.len()];
    let mut used = 0;
    for window in windows {
        let found = divergences(&mut session, window, &efforts, bar.counter())?;
        for (sum, divergence) in sums.iter_mut().zip(found) {
            *sum += divergence;
        }
        used += 1;
        let each = begun.elapsed() / used as u32;
        if limit.is_some_and(|limit| begun.elapsed() + each > limit) {
            break;
        }
    }
    drop(bar);
    let mean = |sum: f64| sum / used as f64;
    Ok((sums.into_iter().map(mean).collect(), used))
}

/// The mean divergence of the scored tokens of a window at each of some efforts.
fn divergences(
    session: &mut Session,
    tokens: &[u32],
    efforts: &[f64],
    counter: &Counter,
) -> Result<Vec<f64>> {
    let rows = scored(tokens.len());
    session.truncate(0);
    session.set_effort(1.0)?;
    let mut base = Vec::with_capacity(rows.len());
    session.run(&tokens[..rows.start])?;
    session.run_all(&tokens[rows.clone()], |logits| base.push(LogProbs::of(logits)))?;
    let mut all = Vec::with_capacity(efforts.len());
    for &effort in efforts {
        session.truncate(0);
        session.set_effort(effort)?;
        session.run(&tokens[..rows.start])?;
        let (mut i, mut sum) = (0, Some(0.0));
        session.run_all(&tokens[rows.clone()], |logits| {
            let found = score(logits, tokens[rows.start + i + 1], Some(&base[i]));
            let divergence = found.and_then(|score| score.base).map(|base| base.divergence);
            sum = sum.zip(divergence).map(|(sum, divergence)| sum + divergence);
            i += 1;
        })?;
        all.push(sum.map(|sum| sum / rows.len() as f64));
        counter.add(1);
    }
    let found: Option<Vec<f64>> = all.into_iter().collect();
    found.context("logits that are no numbers, expected finite ones of every scored token")
}

fn print(
    args: &Args,
    groups: &[Group],
    kept: &[Kept],
    (windows, context): (usize, usize),
    path: &std::path::Path,
) -> Result<()> {
    let mut out = output::stdout();
    if args.json {
        let point = |kept: &Kept| {
            json!({
                "effort": kept.effort,
                "uniform_divergence": kept.uniform,
                "divergence": kept.divergence,
                "fractions": kept.fractions,
            })
        };
        let object = json!({
            "model": args.model,
            "file": path.display().to_string(),
            "context": context,
            "windows": windows,
            "groups": groups.iter().map(Group::name).collect::<Vec<_>>(),
            "efforts": kept.iter().map(point).collect::<Vec<Value>>(),
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "mean KL divergence in nats over {windows} windows of {context} tokens")?;
    write!(out, "effort  uniform    table")?;
    for group in groups {
        write!(out, "  {}", group.name())?;
    }
    writeln!(out)?;
    for Kept { effort, fractions, uniform, divergence } in kept {
        write!(out, "{effort:6.2}  {uniform:7.4}  {divergence:7.4}")?;
        for (fraction, group) in fractions.iter().zip(groups) {
            write!(out, "  {fraction:>0$.3}", group.name().len())?;
        }
        writeln!(out)?;
    }
    writeln!(out, "saved as {}", path.display())?;
    Ok(())
}
