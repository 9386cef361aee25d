//! Passes of a model by their number of rows: time and batch invariance.
//!
//! usage: passes MODEL.gguf [DEPTH [prompts]]
//!
//! Compares logits bit for bit: those of decoding rows alone and in passes of 2 to 16 rows, and
//! those of a prompt in different chunks. Then prints the time of a pass of 1 to 64 rows at
//! position DEPTH, and of passes over the rows of a prompt; with `prompts` of those alone. Exits
//! with status 1 if rows depend on each other.

use std::{collections::BTreeMap, process::ExitCode, sync::Arc};

use pelton_gpu::{Gpu, choose};
use pelton_graph::{
    Backend, Error, Executable, Input, KvType, Limits, PAGE, Pass, Phase, Plan, Profile, Row,
    TableEdit, Want, build, pages_for,
};
use pelton_weights::Checkpoint;

/// Numbers of rows of the timed passes.
const ROWS: [usize; 11] = [1, 2, 3, 4, 8, 12, 16, 17, 24, 32, 64];
/// Numbers of rows of the timed passes over a prompt.
const PROMPTS: [usize; 7] = [16, 32, 64, 128, 192, 256, 512];
/// Tokens of the prompt that runs in chunks.
const PROMPT: usize = 200;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        eprintln!("usage: passes MODEL.gguf [DEPTH]");
        return ExitCode::from(2);
    };
    let depth = arguments.next().and_then(|depth| depth.parse().ok()).unwrap_or(128);
    let prompts = arguments.next().is_some_and(|argument| argument == "prompts");
    match run(&file, depth, prompts) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &str, depth: usize, prompts: bool) -> Result<bool, Error> {
    let gpu = Gpu::open(&choose(None)?)?;
    let checkpoint = Arc::new(Checkpoint::open(file)?);
    let plan = build(&checkpoint)?.fuse(&|op, plan| gpu.accepts(op, plan));
    let context = (depth + 64).max(PROMPTS[PROMPTS.len() - 1]);
    let limits = Limits {
        rows: 512,
        wants: 64,
        sequences: 64,
        context,
        pages: vec![64 * pages_for(context)],
        snapshots: 0,
        kv: KvType::F16,
        tokens: plan.vocab,
        bias: 0,
    };
    let mut executable = gpu.load(plan.clone(), checkpoint, limits, &mut |_, _| {})?;
    let executable = &mut *executable;
    let pages = pages_for(context) as u32;
    let tables: Vec<Vec<u32>> =
        (0..64).map(|slot| (slot * pages..(slot + 1) * pages).collect()).collect();
    let edits: Vec<TableEdit<'_>> = (0..)
        .zip(&tables)
        .map(|(slot, pages)| TableEdit { group: 0, slot, first: 0, pages })
        .collect();
    forward(executable, Phase::Prompt, &rows(0..1, 0), &edits, 0)?;
    let independent = (prompts || decoding(executable, &plan)?) & prompt(executable)?;

    println!("{file} on {}, depth {depth}", gpu.name());
    println!("| rows | ms a pass | tokens/s | dispatches |\n| ---: | ---: | ---: | ---: |");
    for count in ROWS.into_iter().filter(|_| !prompts) {
        let rows: Vec<Row> = (0..count as u32)
            .map(|slot| Row { input: Input::Token(slot), position: depth as u32, slot })
            .collect();
        let wants: Vec<Want<'_>> = (0..count as u32).map(|row| Want::Logits { row }).collect();
        let profile = executable.profile(&Pass::new(Phase::Decode, &rows, &wants), 32)?;
        let seconds = profile.pass.as_secs_f64();
        let dispatches: usize = profile.steps().map(|(_, _, step)| step.dispatches).sum();
        println!(
            "| {count} | {:.3} | {:.0} | {dispatches} |",
            1e3 * seconds,
            count as f64 / seconds
        );
        if [1, 4, 16, 32, 64].contains(&count) {
            eprintln!("{count} rows, µs by kind of step: {:.0?}", kinds(&profile));
        }
    }
    println!("| prompt rows | ms a pass | tokens/s |\n| ---: | ---: | ---: |");
    for count in PROMPTS {
        let rows = rows(0..count, 0);
        let wants = [Want::Logits { row: count as u32 - 1 }];
        // the second time the GPU has its clock
        executable.profile(&Pass::new(Phase::Prompt, &rows, &wants), 8)?;
        let profile = executable.profile(&Pass::new(Phase::Prompt, &rows, &wants), 16)?;
        let seconds = profile.pass.as_secs_f64();
        println!("| {count} | {:.3} | {:.0} |", 1e3 * seconds, count as f64 / seconds);
        eprintln!("{count} rows of a prompt, µs by kind of step: {:.0?}", kinds(&profile));
    }
    Ok(independent)
}

/// The microseconds of all steps of a kind.
fn kinds(profile: &Profile) -> BTreeMap<&'static str, f64> {
    let mut kinds = BTreeMap::new();
    for (_, step, measured) in profile.steps() {
        *kinds.entry(step.op.name()).or_default() += 1e6 * measured.time.as_secs_f64();
    }
    kinds
}

fn rows(positions: std::ops::Range<usize>, slot: u32) -> Vec<Row> {
    let token = |position: usize| Input::Token((position * 7919 % 1000) as u32);
    positions.map(|p| Row { input: token(p), position: p as u32, slot }).collect()
}

/// The logits of the last `selected` rows.
fn forward(
    executable: &mut dyn Executable,
    phase: Phase,
    rows: &[Row],
    tables: &[TableEdit<'_>],
    selected: usize,
) -> Result<Vec<f32>, Error> {
    let first = rows.len() - selected;
    let wants: Vec<Want<'_>> =
        (first..rows.len()).map(|row| Want::Logits { row: row as u32 }).collect();
    let ticket = executable.submit(&Pass { tables, ..Pass::new(phase, rows, &wants) })?;
    Ok(executable.take(ticket)?.logits.to_vec())
}

/// Whether decoding rows have the same bits alone and in larger passes.
fn decoding(executable: &mut dyn Executable, plan: &Plan) -> Result<bool, Error> {
    const COUNT: usize = 16;
    // prompts of different lengths, the last of which end in several KV splits
    for slot in 0..COUNT {
        forward(executable, Phase::Prompt, &rows(0..12 * slot + 5, slot as u32), &[], 0)?;
    }
    let last: Vec<Row> =
        (0..COUNT).flat_map(|slot| rows(12 * slot + 5..12 * slot + 6, slot as u32)).collect();
    let mut alone = Vec::new();
    for row in &last {
        alone.extend(forward(executable, Phase::Decode, &[*row], &[], 1)?);
    }
    let mut all = true;
    for count in 2..=COUNT {
        let got = forward(executable, Phase::Decode, &last[COUNT - count..], &[], count)?;
        let expected = &alone[(COUNT - count) * plan.vocab..];
        all &= same(&format!("a pass of {count} rows"), expected, &got);
    }
    beyond(executable, plan)?;
    // rows of one slot, as in verification
    let draft = rows(100..108, 0);
    forward(executable, Phase::Prompt, &rows(0..100, 0), &[], 0)?;
    let together = forward(executable, Phase::Decode, &draft, &[], draft.len())?;
    let mut single = Vec::new();
    for row in &draft {
        single.extend(forward(executable, Phase::Decode, &[*row], &[], 1)?);
    }
    Ok(all & same("8 rows of one slot", &single, &together))
}

/// Prints how far the logits of rows in passes of more than 16 rows, whose products run on matrix
/// cores, are from those of the rows alone.
fn beyond(executable: &mut dyn Executable, plan: &Plan) -> Result<(), Error> {
    let at = |slot: usize| 3 * slot + 5;
    for slot in 0..64 {
        forward(executable, Phase::Prompt, &rows(0..at(slot), slot as u32), &[], 0)?;
    }
    let last: Vec<Row> =
        (0..64).flat_map(|slot| rows(at(slot)..at(slot) + 1, slot as u32)).collect();
    let mut alone = Vec::new();
    for row in &last {
        alone.extend(forward(executable, Phase::Decode, &[*row], &[], 1)?);
    }
    let norm = alone.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / alone.len() as f64;
    for count in [17, 29, 32, 50, 64] {
        let got = forward(executable, Phase::Decode, &last[..count], &[], count)?;
        let pairs = got.iter().zip(&alone[..count * plan.vocab]);
        let most = pairs.map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
        let share = most / norm.sqrt();
        println!("a pass of {count} rows: logits differ by {share:.1e} of their RMS at most");
    }
    Ok(())
}

/// Whether the logits after a prompt are the same for all chunks.
fn prompt(executable: &mut dyn Executable) -> Result<bool, Error> {
    let whole = forward(executable, Phase::Prompt, &rows(0..PROMPT, 1), &[], 1)?;
    let mut all = true;
    for cut in [PAGE, 2 * PAGE, 3 * PAGE] {
        forward(executable, Phase::Prompt, &rows(0..cut, 2), &[], 0)?;
        let got = forward(executable, Phase::Prompt, &rows(cut..PROMPT, 2), &[], 1)?;
        all &= same(&format!("a prompt cut at {cut}"), &whole, &got);
    }
    Ok(all)
}

fn same(what: &str, expected: &[f32], got: &[f32]) -> bool {
    let differ = expected.iter().zip(got).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    let most = expected.iter().zip(got).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{what}: {differ} of {} logits differ, by {most:e} at most", expected.len());
    differ == 0 && expected.len() == got.len() && expected.iter().all(|v| v.is_finite())
}
