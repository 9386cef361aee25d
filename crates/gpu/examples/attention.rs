//! Attention of prompts on matrix cores: compares it with f64, and measures each work split.
//!
//! usage: attention [check] [PASS ...]
//!
//! A PASS is ROWS or ROWS@DEPTH: rows of a prompt after DEPTH positions. Prints the time of a layer
//! of llama-3.2-1b and of llama-3.1-8b for each pass and work split. `*` marks the one that a model
//! would use, `without` the kernel without matrix cores. `check` only compares the results. Exits
//! with status 1 if a result is wrong or no GPU has matrix cores.

use std::{process::ExitCode, time::Instant};

use half::f16;
use pelton_gpu::{
    adapters,
    microbench::{
        Bench,
        attention::{Heads, Prompt, WorkSplit},
    },
};
use pelton_graph::Error;
use pelton_testing::Random;

/// Heads of models: the elements of a head, heads, KV heads and window.
const SHAPES: [(&str, Heads); 2] = [
    ("llama-3.2-1b", Heads { heads: 32, kv_heads: 8, head_dim: 64, window: None }),
    ("llama-3.1-8b", Heads { heads: 32, kv_heads: 8, head_dim: 128, window: None }),
];

/// Further heads of which only results are compared.
const CHECKED: [Heads; 5] = [
    Heads { heads: 9, kv_heads: 3, head_dim: 64, window: None },
    Heads { heads: 14, kv_heads: 2, head_dim: 80, window: Some(100) },
    Heads { heads: 4, kv_heads: 4, head_dim: 96, window: None },
    Heads { heads: 16, kv_heads: 8, head_dim: 128, window: Some(1) },
    Heads { heads: 8, kv_heads: 4, head_dim: 256, window: Some(300) },
];

/// Work splits to measure.
const CANDIDATES: [WorkSplit; 9] = [
    WorkSplit::of(32, 8, 64),
    WorkSplit::of(16, 8, 64),
    WorkSplit::of(32, 8, 32),
    WorkSplit::of(16, 8, 32),
    WorkSplit::of(32, 4, 32),
    WorkSplit::of(16, 4, 32),
    WorkSplit { step: 16, ..WorkSplit::of(16, 4, 32) },
    WorkSplit { prefetch: false, ..WorkSplit::of(16, 8, 32) },
    WorkSplit { prefetch: false, ..WorkSplit::of(16, 4, 32) },
];

/// Rows that are compared with f64.
const SAMPLES: usize = 9;

/// The most bytes of workgroup memory of a workgroup.
const BYTES: usize = 48 << 10;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Error> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let check = arguments.first().is_some_and(|first| first == "check");
    if check {
        arguments.remove(0);
    }
    let pass = |text: &String| -> Option<(usize, usize)> {
        let (rows, depth) = text.split_once('@').unwrap_or((text, "0"));
        Some((rows.parse().ok()?, depth.parse().ok()?))
    };
    let mut passes: Vec<(usize, usize)> = arguments.iter().filter_map(pass).collect();
    if passes.is_empty() {
        passes = vec![(512, 0), (512, 3584), (2048, 2048), (4096, 0), (2048, 14336)];
    }
    let Some(adapter) = adapters().into_iter().find(|adapter| adapter.has_matrix_cores()) else {
        eprintln!("error: no GPU has matrix cores that kernels can use");
        return Ok(false);
    };
    println!("{}", adapter.name());
    let checked = Bench::open(&adapter, true)?;
    let mut right = true;
    for heads in CHECKED.iter().chain(SHAPES.iter().map(|(_, heads)| heads)) {
        for (rows, depth) in [(333, 0), (70, 250)] {
            right &= compare(&checked, heads, rows, depth)?;
        }
    }
    println!("results: {}", if right { "right" } else { "WRONG" });
    if check {
        return Ok(right);
    }
    let bench = Bench::open(&adapter, false)?;
    for (name, heads) in &SHAPES {
        for &(rows, depth) in &passes {
            measure(&bench, name, heads, rows, depth)?;
        }
    }
    Ok(right)
}

/// Normal values, repeated from a prime number of them.
fn values(random: &mut Random, count: usize) -> Vec<f32> {
    const DISTINCT: usize = 1_000_003;
    let distinct = random.normals(count.min(DISTINCT), 0.0, 1.0);
    distinct.iter().copied().cycle().take(count).collect()
}

fn operands(heads: &Heads, rows: usize, depth: usize) -> [Vec<f32>; 3] {
    let mut random = Random::new(11);
    let cached = (rows + depth) * heads.kv_heads * heads.head_dim;
    [rows * heads.heads * heads.head_dim, cached, cached].map(|count| values(&mut random, count))
}

/// Compares every work split with f64; prints what differs.
fn compare(bench: &Bench, heads: &Heads, rows: usize, depth: usize) -> Result<bool, Error> {
    let [q, k, v] = operands(heads, rows, depth);
    let prompt = bench.prompt(heads, rows, [&q, &k, &v])?;
    let samples: Vec<usize> = (0..SAMPLES).map(|i| i * (rows - 1) / (SAMPLES - 1)).collect();
    let expected: Vec<Vec<f64>> =
        samples.iter().map(|&row| attention(heads, row, depth, [&q, &k, &v])).collect();
    let mut right = true;
    let mut first: Option<Vec<f32>> = None;
    for cores in usable(&prompt, heads) {
        let got = prompt.by(Some(cores))?.compute()?;
        let len = heads.heads * heads.head_dim;
        let (mut errors, mut squares) = (0.0, 0.0);
        for (row, expected) in samples.iter().zip(&expected) {
            for (got, e) in got[row * len..].iter().zip(expected) {
                errors += (f64::from(*got) - e).powi(2);
                squares += e * e;
            }
        }
        let error = (errors / squares).sqrt();
        // steps of one length give the same bits
        let same = cores.step != 32
            || first.get_or_insert_with(|| got.clone()).iter().zip(&got).all(|(a, b)| a == b);
        // false for a NaN
        let close = error < 2e-3;
        if !(close && same) {
            println!("{heads:?} {rows}@{depth} {cores:?}: error {error:.1e}, same bits: {same}");
            right = false;
        }
    }
    Ok(right)
}

/// The work splits that fit these heads, the model's own first.
fn usable(prompt: &Prompt, heads: &Heads) -> Vec<WorkSplit> {
    let mut all: Vec<WorkSplit> = prompt.cores().into_iter().collect();
    for cores in CANDIDATES {
        let fits = prompt.bytes(&cores) <= BYTES
            && (cores.queries == 16 || heads.head_dim <= 80)
            && (!cores.prefetch || heads.head_dim <= 128);
        if fits && !all.contains(&cores) {
            all.push(cores);
        }
    }
    all
}

/// Row `row` of attention in f64, of operands rounded to 16 bits.
fn attention(heads: &Heads, row: usize, depth: usize, [q, k, v]: [&[f32]; 3]) -> Vec<f64> {
    let &Heads { heads: all, kv_heads, head_dim, window } = heads;
    let rounded = |v: &f32| f64::from(f16::from_f32(*v));
    let end = depth + row + 1;
    let first = window.map_or(0, |window| end - window.min(end));
    let mut result = Vec::with_capacity(all * head_dim);
    for head in 0..all {
        let query = &q[(row * all + head) * head_dim..][..head_dim];
        let at = |position: usize| (position * kv_heads + head / (all / kv_heads)) * head_dim;
        let scores: Vec<f64> = (first..end)
            .map(|position| {
                let key = &k[at(position)..][..head_dim];
                let dot: f64 = query.iter().zip(key).map(|(q, k)| f64::from(*q) * rounded(k)).sum();
                dot / (head_dim as f64).sqrt()
            })
            .collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        result.extend((0..head_dim).map(|d| {
            let terms = (first..end).zip(&weights);
            terms.map(|(position, w)| w * rounded(&v[at(position) + d])).sum::<f64>() / total
        }));
    }
    result
}

/// Prints the time of each work split.
fn measure(
    bench: &Bench,
    name: &str,
    heads: &Heads,
    rows: usize,
    depth: usize,
) -> Result<(), Error> {
    let [q, k, v] = operands(heads, rows, depth);
    let prompt = bench.prompt(heads, rows, [&q, &k, &v])?;
    let pairs = (rows * depth + rows * (rows + 1) / 2) as f64;
    let operations = 4.0 * pairs * (heads.heads * heads.head_dim) as f64;
    let chosen = prompt.cores();
    println!("{name}, {rows} rows after {depth}");
    for cores in usable(&prompt, heads).into_iter().map(Some).chain([None]) {
        let compiling = Instant::now();
        let split = prompt.by(cores)?;
        let compiling = compiling.elapsed().as_secs_f64();
        let once = split.seconds(1)?;
        let times = (0.02 / once).clamp(1.0, 100.0) as u32;
        // a GPU that has idled takes a while to reach its clock
        let warm = Instant::now();
        while warm.elapsed().as_secs_f64() < 0.15 {
            split.seconds(times)?;
        }
        let mut all: Vec<f64> =
            (0..5).map(|_| split.seconds(times)).collect::<Result<_, Error>>()?;
        all.sort_by(f64::total_cmp);
        let seconds = all[2];
        let what = match cores {
            None => "without".to_owned(),
            Some(WorkSplit { queries, subgroups, staged, step, prefetch }) => format!(
                "{queries} queries x {subgroups}, {staged} staged, steps of {step}{}{}",
                if prefetch { "" } else { ", no prefetch" },
                if cores == chosen { " *" } else { "" }
            ),
        };
        println!(
            "  {:8.1} µs {:6.1} TFLOP/s, compiled in {compiling:.1} s  {what}",
            1e6 * seconds,
            1e-12 * operations / seconds
        );
    }
    Ok(())
}
