//! Decoding of one row by persistent kernels and by dispatches: bits and speed.
//!
//! usage: persistent MODEL.gguf [CHECKED [GROUPS,...]]
//!
//! Draws CHECKED tokens with both, at temperature 1 with the log-probability of each, in 16
//! sequences: by persistent kernels one sequence after the other, by dispatches 16 rows a pass.
//! Counts the tokens that differ. GROUPS makes these persistent kernels of the first number of
//! workgroups. Otherwise they are the choice at load, which can be dispatches: the time of a token
//! tells. Then prints the tokens per second, sampling of the likeliest included, at several depths,
//! of the choice at load and of persistent kernels of GROUPS workgroups.

use std::{collections::VecDeque, process::ExitCode, sync::Arc, time::Instant};

use pelton_gpu::{Gpu, choose};
use pelton_graph::{
    Backend, Error, Executable, Input, KvType, Limits, Pass, Phase, Row, Sample, TableEdit, Want,
    build, pages_for,
};
use pelton_sampling::{Draw, FixedParams};
use pelton_weights::Checkpoint;

/// Sequences of the check, which fill the largest pass whose rows are exact.
const SEQUENCES: usize = 16;
/// Passes of one submission.
const REPEAT: usize = 32;
/// Turns of a spin at most, as in use.
const TURNS: u32 = 300_000;
/// Tokens of one sequence that are drawn by dispatches for their time.
const BY_DISPATCHES: usize = 1024;
/// Timed tokens, and depths.
const TIMED: usize = 256;
const DEPTHS: [usize; 3] = [0, 512, 4096];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        eprintln!("usage: persistent MODEL.gguf [CHECKED [GROUPS,...]]");
        return ExitCode::from(2);
    };
    let checked = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(16_384);
    let groups = arguments.next().unwrap_or_default();
    let groups: Vec<usize> = groups.split(',').filter_map(|n| n.parse().ok()).collect();
    match run(&file, checked, &groups) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The number of tokens that differ.
fn run(file: &str, checked: usize, groups: &[usize]) -> Result<usize, Error> {
    let gpu = Gpu::open(&choose(None)?)?;
    let checkpoint = Arc::new(Checkpoint::open(file)?);
    let load = |gpu: &Gpu, what: &str| -> Result<Box<dyn Executable>, Error> {
        let begun = Instant::now();
        let plan = build(&checkpoint)?.fuse(&|op, plan| gpu.accepts(op, plan));
        let context = 4096 + TIMED + 64;
        let limits = Limits {
            rows: 512,
            wants: SEQUENCES,
            sequences: SEQUENCES,
            context,
            pages: vec![SEQUENCES * pages_for(context)],
            snapshots: 0,
            kv: KvType::F16,
            tokens: plan.vocab,
            bias: 0,
        };
        let mut executable = gpu.load(plan, Arc::clone(&checkpoint), limits, &mut |_, _| {})?;
        let pages = pages_for(context) as u32;
        let tables: Vec<Vec<u32>> = (0..SEQUENCES as u32)
            .map(|slot| (slot * pages..(slot + 1) * pages).collect())
            .collect();
        let edits: Vec<TableEdit<'_>> = (0..)
            .zip(&tables)
            .map(|(slot, pages)| TableEdit { group: 0, slot, first: 0, pages })
            .collect();
        let first = [Row { input: Input::Token(1), position: 0, slot: 0 }];
        let ticket =
            executable.submit(&Pass { tables: &edits, ..Pass::new(Phase::Decode, &first, &[]) })?;
        executable.take(ticket)?;
        println!("{what}: loaded in {:.1} s", begun.elapsed().as_secs_f64());
        Ok(executable)
    };
    println!("{file} on {}", gpu.name());
    let mut usual = load(&gpu.clone().without_persistent(), "dispatches")?;
    let mut chosen = load(&gpu, "choice at load")?;
    let mut differ = 0;
    if checked > 0 {
        let mut forced = match groups.first() {
            Some(&groups) => Some(load(&gpu.clone().with_persistent(groups, TURNS, 1), "forced")?),
            None => None,
        };
        let tried = forced.as_mut().unwrap_or(&mut chosen);
        let each = (checked / SEQUENCES).div_ceil(REPEAT) * REPEAT;
        let slots: Vec<u32> = (0..SEQUENCES as u32).collect();
        // by position, then by slot
        let together = draws(&mut *usual, &slots, each)?;
        let begun = Instant::now();
        for &slot in &slots {
            let alone = draws(&mut **tried, &[slot], each)?;
            let expected = together.iter().skip(slot as usize).step_by(SEQUENCES);
            differ += alone.iter().zip(expected).filter(|(a, b)| a != b).count();
            // a check of many tokens may be stopped
            eprint!("\r{} tokens drawn with both: {differ} differ", (slot as usize + 1) * each);
        }
        eprintln!();
        let (seconds, tokens) = (begun.elapsed().as_secs_f64(), each * SEQUENCES);
        let speed = tokens as f64 / seconds;
        println!("{tokens} tokens drawn with both: {differ} differ, {speed:.0} tokens/s");
        let begun = Instant::now();
        draws(&mut *usual, &slots[..1], each.min(BY_DISPATCHES))?;
        let speed = each.min(BY_DISPATCHES) as f64 / begun.elapsed().as_secs_f64();
        println!("one sequence by dispatches: {speed:.0} tokens/s");
    }
    println!("| kernels | {} |", DEPTHS.map(|depth| format!("tokens/s at {depth}")).join(" | "));
    println!("| --- |{}", " ---: |".repeat(DEPTHS.len()));
    for _ in 0..2 {
        speed("dispatches", &mut *usual)?;
        speed("choice at load", &mut *chosen)?;
    }
    drop(chosen);
    for &groups in groups {
        let forced = gpu.clone().with_persistent(groups, TURNS, 1);
        let mut forced = load(&forced, &format!("{groups} workgroups"))?;
        speed(&format!("{groups} workgroups"), &mut *forced)?;
    }
    Ok(differ)
}

/// A token and the bits of its log-probability.
type Drawn = (Option<u32>, Option<u32>);

/// The tokens that are drawn, and their log-probabilities, from position 0 on.
fn draws(
    executable: &mut dyn Executable,
    slots: &[u32],
    count: usize,
) -> Result<Vec<Drawn>, Error> {
    /// Positions of a sequence before it starts again.
    const LEN: usize = 2048;
    let mut all = Vec::with_capacity(slots.len() * count);
    let mut tickets = VecDeque::new();
    let mut take = |executable: &mut dyn Executable, ticket| -> Result<(), Error> {
        for sample in executable.take(ticket)?.samples {
            let drawn = sample.log_probs.as_ref().map(|log_probs| log_probs.drawn.to_bits());
            all.push((sample.token, drawn));
        }
        Ok(())
    };
    for done in (0..count).step_by(REPEAT) {
        let position = (done % LEN) as u32;
        let row = |&slot: &u32| {
            let first = Input::Token(7 * slot + (done / LEN) as u32);
            let input = if position == 0 { first } else { Input::Sampled };
            Row { input, position, slot }
        };
        let rows: Vec<Row> = slots.iter().map(row).collect();
        let want = |(row, &slot): (u32, &u32)| {
            let draw = Draw {
                params: FixedParams::new(1.0, 40, 0.95, 0.0),
                seed: u64::from(slot),
                index: done as u64,
                log_probs: Some(0),
                ..Draw::GREEDY
            };
            Want::Sample(Sample { row, draw, recent: &[], pending: 0 })
        };
        let wants: Vec<Want<'_>> = (0..).zip(slots).map(want).collect();
        let pass = Pass { repeat: REPEAT as u32, ..Pass::new(Phase::Decode, &rows, &wants) };
        tickets.push_back(executable.submit(&pass)?);
        if tickets.len() == 2
            && let Some(ticket) = tickets.pop_front()
        {
            take(executable, ticket)?;
        }
    }
    for ticket in tickets {
        take(executable, ticket)?;
    }
    Ok(all)
}

/// Prints the tokens per second at each depth, with passes submitted ahead.
fn speed(what: &str, executable: &mut dyn Executable) -> Result<(), Error> {
    let mut line = format!("| {what} |");
    for depth in DEPTHS {
        let mut tickets = VecDeque::new();
        let mut begun = Instant::now();
        // the first passes bring the GPU to its clock rate
        let passes = 2 + TIMED / REPEAT;
        for i in 0..passes {
            let position = depth + (i % (TIMED / REPEAT)) * REPEAT;
            let rows = [Row { input: Input::Token(3), position: position as u32, slot: 0 }];
            let want = Sample { row: 0, draw: Draw::GREEDY, recent: &[], pending: 0 };
            let wants = [Want::Sample(want)];
            let pass = Pass { repeat: REPEAT as u32, ..Pass::new(Phase::Decode, &rows, &wants) };
            tickets.push_back(executable.submit(&pass)?);
            if i >= 2 {
                let Some(ticket) = tickets.pop_front() else { continue };
                executable.take(ticket)?;
            }
            // the third pass begins when the second is taken
            if i == 3 {
                begun = Instant::now();
            }
        }
        while let Some(ticket) = tickets.pop_front() {
            executable.take(ticket)?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        line += &format!(" {:.0} |", TIMED as f64 / seconds);
    }
    println!("{line}");
    Ok(())
}
