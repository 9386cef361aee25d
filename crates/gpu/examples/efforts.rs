//! Decoding of one row at several efforts: speed, and the time of each kind of step.
//!
//! usage: efforts MODEL.gguf [DEPTH] [channel|nested|bucket]
//!
//! Prints the tokens per second from position DEPTH on, sampling of the likeliest included: of a load
//! without effort, and of one for an effort at each of some efforts, in turns. Then the µs of the steps of
//! a pass by kind, by dispatches with timestamps between the steps. Thresholds are measured on tokens in a
//! row.

use std::{collections::VecDeque, process::ExitCode, sync::Arc, time::Instant};

use pelton_gpu::{Gpu, choose};
use pelton_graph::{
    Backend, Effort, EffortMode, EffortTable, Error, Executable, Input, KvType, Limits, Pass,
    Phase, Plan, Row, Sample, TableEdit, Want, build, pages_for,
};
use pelton_sampling::Draw;
use pelton_weights::Checkpoint;

const EFFORTS: [f64; 5] = [1.0, 0.7, 0.5, 0.35, 0.25];
const MODES: [EffortMode; 3] = [EffortMode::Channel, EffortMode::Nested, EffortMode::Bucket];
/// Passes of one submission, timed tokens, and measurements of each effort, in turns.
const REPEAT: usize = 32;
const TIMED: usize = 256;
const TURNS: usize = 5;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        eprintln!("usage: efforts MODEL.gguf [DEPTH] [channel|nested|bucket]");
        return ExitCode::from(2);
    };
    let depth = arguments.next().and_then(|depth| depth.parse().ok()).unwrap_or(0);
    let name = arguments.next();
    let mode = MODES.into_iter().find(|mode| Some(mode.name()) == name.as_deref());
    match run(&file, depth, mode.unwrap_or_default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &str, depth: usize, mode: EffortMode) -> Result<(), Error> {
    let gpu = Gpu::open(&choose(None)?)?;
    let checkpoint = Arc::new(Checkpoint::open(file)?);
    let built = build(&checkpoint)?;
    let plan = built.clone().fuse(&|op, plan| gpu.accepts(op, plan));
    println!("{file} on {}, depth {depth}, mode {}", gpu.name(), mode.name());
    let mut with_effort = plan.clone().with_effort()?;
    with_effort.effort.mode = mode;
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let windows = [(0..64).collect()];
    let scores = pelton_cpu::effort_scores(built, &checkpoint, &windows, threads, &mut |_, _| {})?;
    with_effort.effort.table = Some(Arc::new(EffortTable::new(scores)));
    for plan in [plan, with_effort] {
        // the matrices of one load at a time
        let gpu = Gpu::open(&choose(None)?)?;
        let mut executable = load(&gpu, &plan, &checkpoint, depth)?;
        let marked = plan.has_effort();
        let mut efforts: Vec<Effort> = EFFORTS.into_iter().filter_map(Effort::new).collect();
        efforts.truncate(if marked { efforts.len() } else { 1 });
        // the first time the GPU reaches its clock rate
        for &effort in &efforts {
            speed(&mut *executable, depth, effort)?;
        }
        let mut speeds = vec![Vec::new(); efforts.len()];
        for _ in 0..TURNS {
            for (speeds, &effort) in speeds.iter_mut().zip(&efforts) {
                speeds.push(speed(&mut *executable, depth, effort)?);
            }
        }
        let whole = median(&mut speeds[0]);
        for (speeds, effort) in speeds.iter_mut().zip(efforts) {
            let what = if marked { format!("effort {effort}") } else { "no effort".to_owned() };
            let (median, of_whole) = (median(speeds), median(speeds) / whole);
            let (least, most) = (speeds[0], speeds[TURNS - 1]);
            println!(
                "{what}: {median:.1} tokens/s ({least:.1} to {most:.1}), {of_whole:.3} of effort 1"
            );
            let rows = [Row { input: Input::Token(3), position: depth as u32, slot: 0 }];
            let efforts = [effort];
            let wants = [Want::Logits { row: 0 }];
            let pass = Pass { efforts: &efforts, ..Pass::new(Phase::Decode, &rows, &wants) };
            let profile = executable.profile(&pass, 32)?;
            let mut kinds: Vec<(String, f64)> = Vec::new();
            for (part, step, measured) in profile.steps() {
                let width = part.plan.buffer(step.outputs[0]).width;
                let name = format!("{} {width}", step.op.name());
                let time = 1e6 * measured.time.as_secs_f64();
                match kinds.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += time,
                    None => kinds.push((name, time)),
                }
            }
            let pass = 1e6 * profile.pass.as_secs_f64();
            let kinds = kinds.iter().map(|(name, time)| format!("{name} {time:.0}"));
            println!("  a pass of {pass:.0} µs: {}", kinds.collect::<Vec<_>>().join(", "));
        }
    }
    Ok(())
}

/// The median of some speeds, which are sorted.
fn median(speeds: &mut [f64]) -> f64 {
    speeds.sort_by(f64::total_cmp);
    speeds[speeds.len() / 2]
}

fn load(
    gpu: &Gpu,
    plan: &Plan,
    checkpoint: &Arc<Checkpoint>,
    depth: usize,
) -> Result<Box<dyn Executable>, Error> {
    let begun = Instant::now();
    let context = depth + TIMED + 64;
    let pages = pages_for(context);
    let limits = Limits {
        rows: 512,
        wants: 1,
        sequences: 1,
        context,
        pages: vec![pages],
        snapshots: 0,
        kv: KvType::F16,
        tokens: plan.vocab,
        bias: 0,
    };
    let checkpoint = Arc::clone(checkpoint);
    let mut executable = gpu.load(plan.clone(), checkpoint, limits, &mut |_, _| {})?;
    let pages: Vec<u32> = (0..pages as u32).collect();
    let tables = [TableEdit { group: 0, slot: 0, first: 0, pages: &pages }];
    let first = [Row { input: Input::Token(1), position: 0, slot: 0 }];
    let ticket =
        executable.submit(&Pass { tables: &tables, ..Pass::new(Phase::Decode, &first, &[]) })?;
    executable.take(ticket)?;
    println!("loaded in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(executable)
}

/// The tokens per second of rows of an effort, with passes submitted ahead.
fn speed(executable: &mut dyn Executable, depth: usize, effort: Effort) -> Result<f64, Error> {
    let mut tickets = VecDeque::new();
    let begun = Instant::now();
    for done in (0..TIMED).step_by(REPEAT) {
        let rows = [Row { input: Input::Token(3), position: (depth + done) as u32, slot: 0 }];
        let want = Sample { row: 0, draw: Draw::GREEDY, recent: &[], pending: 0 };
        let wants = [Want::Sample(want)];
        let efforts = [effort];
        let repeat = REPEAT as u32;
        let pass = Pass { repeat, efforts: &efforts, ..Pass::new(Phase::Decode, &rows, &wants) };
        tickets.push_back(executable.submit(&pass)?);
        if tickets.len() == 2
            && let Some(ticket) = tickets.pop_front()
        {
            executable.take(ticket)?;
        }
    }
    for ticket in tickets {
        executable.take(ticket)?;
    }
    Ok(TIMED as f64 / begun.elapsed().as_secs_f64())
}
