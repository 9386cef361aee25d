//! `pelton profile`: the time of each step of a decoding pass, or of a pass over a prompt.

use std::{
    collections::BTreeMap,
    io::{Write, stdout},
    time::Duration,
};

use anyhow::Result;
use clap::ValueEnum;
use pelton::{
    LoadOptions,
    graph::{Op, Plan, Profile, Step},
};
use serde_json::json;

use super::work;
use crate::model::{self, LoadArgs};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model file or directory, or built-in
    model: String,
    /// Measured passes: the times are their means
    #[arg(long, value_name = "N", default_value_t = 32,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tokens: u32,
    /// Rows of a pass: 1 decodes a token, more are tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=512))]
    rows: u32,
    /// Positions that are filled before the measured ones
    #[arg(long, value_name = "N", default_value_t = 0)]
    depth: usize,
    /// Format of the results
    #[arg(short, long, value_enum, default_value = "md")]
    output: Format,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Tables
    Md,
    /// One object
    Json,
}

/// The measurements of one step, or the sum of several.
#[derive(Clone, Default)]
struct Sum {
    time: Duration,
    bytes: u64,
    dispatches: usize,
    dependent: usize,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.time += other.time;
        self.bytes += other.bytes;
        self.dispatches += other.dispatches;
        self.dependent += other.dependent;
    }

    /// Bytes a second.
    fn rate(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64().max(1e-12)
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    let rows = args.rows as usize;
    let positions = super::positions(("--depth", args.depth), ("--rows", rows))?;
    let options = LoadOptions::default().context(positions);
    let (engine, kv) = (model::engine(&args.load)?, args.load.kv());
    let backend = engine.backend().to_owned();
    let model = model::load_on(&engine, &args.model, &args.load, options)?;
    let (depth, passes) = (args.depth, args.tokens as usize);
    let name = model.checkpoint().name().to_owned();
    let mut session = model.into_session()?;
    session.set_effort(args.load.effort.level().unwrap_or_default())?;
    if depth > 0 {
        session.run(&vec![0; depth])?;
    }
    let profile = session.profile(&vec![0; rows], passes)?;

    let plan = session.plan();
    let sums: Vec<Sum> = plan
        .steps
        .iter()
        .zip(&profile.steps)
        .map(|(step, measured)| Sum {
            time: measured.time,
            bytes: (work::weights_read(plan, step, 1, measured.live)
                + work::cache_read(plan, step, positions, kv))
            .round() as u64,
            dispatches: measured.dispatches,
            dependent: measured.dependent,
        })
        .collect();
    let of = [&*name, &*backend];
    match args.output {
        Format::Md => print_tables(plan, of, &profile, &sums, [rows, depth]),
        Format::Json => print_json(plan, of, &profile, &sums, [rows, depth]),
    }
}

/// The steps' sums grouped by `key`, in the order of first appearance.
fn by<K: Ord + Clone>(
    plan: &Plan,
    sums: &[Sum],
    key: impl Fn(&Step) -> Option<K>,
) -> Vec<(K, Sum, usize)> {
    let mut order = Vec::new();
    let mut groups: BTreeMap<K, (Sum, usize)> = BTreeMap::new();
    for (step, sum) in plan.steps.iter().zip(sums) {
        let Some(key) = key(step) else { continue };
        let group = groups.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            Default::default()
        });
        group.0.add(sum);
        group.1 += 1;
    }
    order.into_iter().filter_map(|k| groups.remove(&k).map(|(sum, n)| (k, sum, n))).collect()
}

/// A step's op, with the last weight that it reads where several steps of a layer have one op.
fn kind(plan: &Plan, step: &Step) -> String {
    let reads = step.op.weights().last().map_or("", |&id| plan.weight(id).name.as_str());
    let name = reads.strip_suffix(".weight").unwrap_or(reads);
    let name = name.rsplit('.').next().unwrap_or(name);
    match step.op {
        Op::Linear(_) | Op::LinearAdd(_) | Op::NormLinear { .. } => {
            format!("{} {name}", step.op.name())
        }
        _ => step.op.name().to_owned(),
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn print_tables(
    plan: &Plan,
    [name, backend]: [&str; 2],
    profile: &Profile,
    sums: &[Sum],
    [rows, depth]: [usize; 2],
) -> Result<()> {
    let mut all = Sum::default();
    sums.iter().for_each(|sum| all.add(sum));
    let of_bandwidth = |sum: &Sum| match profile.read_bandwidth {
        Some(most) => format!("{:.0} %", 100.0 * sum.rate() / most),
        None => "-".to_owned(),
    };
    let mut out = stdout().lock();
    writeln!(out, "{name} on {backend}, a pass of {rows} at depth {depth}\n")?;
    writeln!(
        out,
        "| kind | steps | µs | MB read | GB/s | of bandwidth | dispatches (dependent) |"
    )?;
    writeln!(out, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    // a CPU has neither dispatches nor a record of a pass
    let dispatches = |sum: &Sum| match sum.dispatches {
        0 => "-".to_owned(),
        count => format!("{count} ({})", sum.dependent),
    };
    let mut line = |name: &str, count: usize, sum: &Sum| {
        writeln!(
            out,
            "| {name} | {count} | {:.1} | {:.2} | {:.1} | {} | {} |",
            micros(sum.time),
            sum.bytes as f64 / 1e6,
            sum.rate() / 1e9,
            of_bandwidth(sum),
            dispatches(sum),
        )
    };
    for (name, sum, count) in by(plan, sums, |step| Some(kind(plan, step))) {
        line(&name, count, &sum)?;
    }
    line("sum of steps", sums.len(), &all)?;
    line("whole pass", sums.len(), &Sum { time: profile.pass, ..all.clone() })?;

    let layers = by(plan, sums, |step| step.layer);
    let times: Vec<f64> = layers.iter().map(|(_, sum, _)| micros(sum.time)).collect();
    if let Some((_, first, _)) = layers.first() {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let (least, most) =
            times.iter().fold((f64::MAX, 0.0f64), |(a, b), &t| (a.min(t), b.max(t)));
        write!(out, "\na layer: {mean:.1} µs ({least:.1} to {most:.1})")?;
        match (first.dispatches, first.dependent) {
            (0, _) => writeln!(out)?,
            (all, some) => writeln!(out, ", {all} dispatches, {some} of them dependent")?,
        }
    }
    if all.dispatches > 0 {
        writeln!(out, "recording on the CPU: {:.1} µs a pass", micros(profile.recording))?;
    }
    if let Some(most) = profile.read_bandwidth {
        writeln!(out, "bandwidth of a read-only kernel: {:.0} GB/s", most / 1e9)?;
    }
    Ok(())
}

fn print_json(
    plan: &Plan,
    [name, backend]: [&str; 2],
    profile: &Profile,
    sums: &[Sum],
    [rows, depth]: [usize; 2],
) -> Result<()> {
    let object = |sum: &Sum| {
        json!({
            "microseconds": micros(sum.time), "bytes": sum.bytes,
            "dispatches": sum.dispatches, "dependent_dispatches": sum.dependent,
        })
    };
    let steps: Vec<_> = plan
        .steps
        .iter()
        .zip(sums)
        .map(|(step, sum)| {
            let mut row = object(sum);
            row["op"] = step.op.name().into();
            row["kind"] = kind(plan, step).into();
            row["layer"] = step.layer.into();
            row
        })
        .collect();
    let mut all = Sum::default();
    sums.iter().for_each(|sum| all.add(sum));
    let whole = json!({
        "model": name, "backend": backend, "rows": rows, "depth": depth, "steps": steps,
        "sum": object(&all), "pass_microseconds": micros(profile.pass),
        "recording_microseconds": micros(profile.recording),
        "read_bandwidth": profile.read_bandwidth,
    });
    writeln!(stdout().lock(), "{whole:#}")?;
    Ok(())
}
