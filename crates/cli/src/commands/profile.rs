//! `pelton profile`: the time of each step of a decoding pass, or of a pass over a prompt.

use std::{collections::BTreeMap, io::Write, time::Duration};

use anyhow::Result;
use clap::ValueEnum;
use pelton::{
    KvType, LoadOptions,
    graph::{Op, PartProfile, Plan, Profile, Step, StepProfile, cache_read, weights_read},
};
use pelton_printable::line;
use serde_json::json;

use crate::{loader::Loader, model::LoadArgs, output};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model: a file, a directory, a name such as qwen3:0.6b, or built-in
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
    let (loader, kv) = (Loader::new(&args.load), args.load.kv());
    let backend = loader.engine()?.backend().to_owned();
    let model = loader.load(&args.model, options)?;
    let (depth, passes) = (args.depth, args.tokens as usize);
    let name = model.checkpoint().name().to_owned();
    let mut session = args.load.session(model)?;
    if depth > 0 {
        session.run(&vec![0; depth])?;
    }
    let profile = session.profile(&vec![0; rows], passes)?;
    let parts = profile.parts.iter().map(|part| Part::new(part, positions, kv));
    let parts: Vec<Part<'_>> = parts.collect();
    let of = [&*name, &*backend];
    match args.output {
        Format::Md => print_tables(of, &profile, &parts, [rows, depth]),
        Format::Json => print_json(of, &profile, &parts, [rows, depth]),
    }
}

/// A part of the plan, and the sum of each step that its device runs.
struct Part<'a> {
    profile: &'a PartProfile,
    sums: Vec<(&'a Step, Sum)>,
}

impl<'a> Part<'a> {
    fn new(profile: &'a PartProfile, positions: usize, kv: KvType) -> Self {
        let plan = &profile.plan;
        let sum = |(step, measured): (&'a Step, &StepProfile)| {
            let bytes =
                weights_read(plan, step, 1, measured.live) + cache_read(plan, step, positions, kv);
            let &StepProfile { time, dispatches, dependent, .. } = measured;
            (step, Sum { time, bytes: bytes.round() as u64, dispatches, dependent })
        };
        // a CPU next to a GPU computes its steps of decoding passes
        let of_host = |i: usize| plan.host.iter().any(|part| part.steps.contains(&i));
        let steps = plan.steps.iter().zip(&profile.steps).enumerate();
        let own = steps.filter(|(i, (_, of))| of.dispatches > 0 || !of_host(*i));
        Self { profile, sums: own.map(|(_, step)| sum(step)).collect() }
    }

    fn steps(&self) -> impl Iterator<Item = (&'a Plan, &'a Step, &Sum)> {
        let plan = &self.profile.plan;
        self.sums.iter().map(move |(step, sum)| (plan, *step, sum))
    }
}

/// The steps' sums grouped by `key`, in the order of first appearance.
fn by<K: Ord + Clone>(
    parts: &[&Part<'_>],
    key: impl Fn(&Plan, &Step) -> Option<K>,
) -> Vec<(K, Sum, usize)> {
    let mut order = Vec::new();
    let mut groups: BTreeMap<K, (Sum, usize)> = BTreeMap::new();
    for (plan, step, sum) in parts.iter().flat_map(|part| part.steps()) {
        let Some(key) = key(plan, step) else { continue };
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

/// The parts of each device, which can have several.
fn by_device<'a>(parts: &'a [Part<'a>]) -> Vec<(&'a str, Vec<&'a Part<'a>>)> {
    let mut devices: Vec<(&str, Vec<&Part<'_>>)> = Vec::new();
    for part in parts {
        let name = part.profile.device.as_str();
        match devices.iter_mut().find(|(device, _)| *device == name) {
            Some((_, parts)) => parts.push(part),
            None => devices.push((name, vec![part])),
        }
    }
    devices
}

fn print_tables(
    [name, backend]: [&str; 2],
    profile: &Profile,
    parts: &[Part<'_>],
    [rows, depth]: [usize; 2],
) -> Result<()> {
    let mut out = output::stdout();
    let name = line(name);
    writeln!(out, "{name} on {backend}, a pass of {rows} at depth {depth}")?;
    let devices = by_device(parts);
    let is_one = devices.len() < 2;
    for (device, parts) in &devices {
        if !is_one {
            writeln!(out, "\n{device}:")?;
        }
        print_device(&mut out, parts, is_one.then_some(profile.pass))?;
    }
    if !is_one {
        let ways = profile.ways;
        writeln!(out, "\n| between devices | µs |\n| --- | ---: |")?;
        let rows = [("hop", ways.hop), ("stream", ways.stream), ("wait", ways.wait)];
        for (name, time) in rows.into_iter().chain([("whole pass", profile.pass)]) {
            writeln!(out, "| {name} | {:.1} |", micros(time))?;
        }
    }
    Ok(())
}

/// The table of the parts of a device, with the time of a whole pass if it runs all of it.
fn print_device(out: &mut impl Write, parts: &[&Part<'_>], whole: Option<Duration>) -> Result<()> {
    let mut all = Sum::default();
    let sums = parts.iter().flat_map(|part| &part.sums);
    sums.clone().for_each(|(_, sum)| all.add(sum));
    let count = sums.count();
    let read_bandwidth = parts.iter().find_map(|part| part.profile.read_bandwidth);
    let of_bandwidth = |sum: &Sum| match read_bandwidth {
        Some(most) => format!("{:.0} %", 100.0 * sum.rate() / most),
        None => "-".to_owned(),
    };
    writeln!(
        out,
        "\n| kind | steps | µs | MB read | GB/s | of bandwidth | dispatches (dependent) |"
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
    for (name, sum, count) in by(parts, |plan, step| Some(kind(plan, step))) {
        line(&name, count, &sum)?;
    }
    line("sum of steps", count, &all)?;
    if let Some(time) = whole {
        line("whole pass", count, &Sum { time, ..all.clone() })?;
    }

    let layers = by(parts, |_, step| step.layer);
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
        let recording = parts.iter().map(|part| part.profile.recording).sum();
        writeln!(out, "recording on the CPU: {:.1} µs a pass", micros(recording))?;
    }
    if let Some(most) = read_bandwidth {
        writeln!(out, "bandwidth of a read-only kernel: {:.0} GB/s", most / 1e9)?;
    }
    Ok(())
}

fn print_json(
    [name, backend]: [&str; 2],
    profile: &Profile,
    parts: &[Part<'_>],
    [rows, depth]: [usize; 2],
) -> Result<()> {
    let object = |sum: &Sum| {
        json!({
            "microseconds": micros(sum.time), "bytes": sum.bytes,
            "dispatches": sum.dispatches, "dependent_dispatches": sum.dependent,
        })
    };
    let steps = parts.iter().flat_map(|part| {
        part.steps().map(|(plan, step, sum)| {
            let mut row = object(sum);
            row["op"] = step.op.name().into();
            row["kind"] = kind(plan, step).into();
            row["layer"] = step.layer.into();
            row["device"] = part.profile.device.as_str().into();
            row
        })
    });
    let steps: Vec<_> = steps.collect();
    let mut all = Sum::default();
    parts.iter().flat_map(|part| &part.sums).for_each(|(_, sum)| all.add(sum));
    let recording = profile.parts.iter().map(|part| part.recording).sum();
    let bandwidths = profile.parts.iter().map(|part| part.read_bandwidth);
    let ways = profile.ways;
    let whole = json!({
        "model": name, "backend": backend, "rows": rows, "depth": depth, "steps": steps,
        "sum": object(&all), "pass_microseconds": micros(profile.pass),
        "hop_microseconds": micros(ways.hop), "stream_microseconds": micros(ways.stream),
        "wait_microseconds": micros(ways.wait),
        "recording_microseconds": micros(recording),
        "read_bandwidth": bandwidths.flatten().next(),
    });
    writeln!(output::stdout(), "{whole:#}")?;
    Ok(())
}
