//! Speed of attention: GB/s of keys and values in decode, GFLOP/s in prefill, and the share of the
//! CPU's peak.
//!
//! `cargo bench -p pelton-cpu --bench attend -- [THREADS] [TYPE]...` runs the caches of these types
//! (`f16`, `q8_0`), or all.
//!
//! The heads are those of Llama-3.2-1B, in a model whose other weights are small. The time of the
//! other steps is measured with the same rows at position 0, and subtracted.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panic")]

use std::hint::black_box;
use std::time::Instant;

use pelton_cpu::Cpu;
use pelton_cpu::pool::{Pool, default_threads};
use pelton_graph::{
    Backend, Executable, Input, KvType, Limits, PAGE, Pass, Phase, Row, TableEdit, Want, pages_for,
};
use pelton_quant::DType;
use pelton_testing::{ModelSpec, backend::load};

const HEADS: usize = 32;
const KV_HEADS: usize = 8;
const HEAD_DIM: usize = 64;
/// Positions before the rows that are timed.
const DEPTH: usize = 4096;
/// Rows of a prompt.
const PREFILL: usize = 512;
const RUNS: usize = 9;

fn row(token: u32, position: u32, slot: u32) -> Row {
    Row { input: Input::Token(token), position, slot }
}

/// A model of heads and small other weights, with every position of its cache written.
struct Subject {
    executable: Box<dyn Executable>,
    layers: usize,
}

impl Subject {
    fn new(threads: usize, layers: usize, kv: KvType) -> Self {
        let spec = ModelSpec {
            dtype: DType::Q8_0,
            layers,
            hidden: HEAD_DIM,
            heads: HEADS,
            kv_heads: KV_HEADS,
            head_dim: HEAD_DIM,
            ffn: 32,
            context: 2 * DEPTH,
            ..ModelSpec::default()
        };
        let pages = pages_for(DEPTH + PREFILL);
        let limits = Limits {
            rows: PREFILL,
            wants: 1,
            sequences: PREFILL,
            context: spec.context,
            pages: vec![pages],
            snapshots: 0,
            kv,
            tokens: spec.vocab,
            bias: 0,
        };
        let cpu = Cpu::new(threads);
        let executable = load(&cpu, &spec, &|op, plan| cpu.accepts(op, plan), limits);
        let mut subject = Self { executable, layers };
        // at the first positions of the sequence, where attention takes no time
        for page in 0..pages as u32 {
            let rows: Vec<Row> =
                (0..PAGE as u32).map(|position| row((page + position) % 80, position, 0)).collect();
            subject.forward(&rows, &[vec![page]]);
        }
        subject
    }

    fn forward(&mut self, rows: &[Row], tables: &[Vec<u32>]) {
        let edit = |(slot, pages)| TableEdit { group: 0, slot: slot as u32, first: 0, pages };
        let edits: Vec<_> = tables.iter().map(Vec::as_slice).enumerate().map(edit).collect();
        let wants = [Want::Logits { row: 0 }];
        let pass = Pass { tables: &edits, ..Pass::new(Phase::Prompt, rows, &wants) };
        let ticket = self.executable.submit(&pass).unwrap();
        black_box(self.executable.take(ticket).unwrap());
    }

    /// Seconds of attention in a layer, of `n` rows of one sequence from position `depth` on.
    fn seconds(&mut self, depth: usize, n: usize) -> f64 {
        let table: Vec<u32> = (0..pages_for(depth + n) as u32).collect();
        let rows: Vec<Row> = (depth..depth + n).map(|p| row(p as u32 % 80, p as u32, 0)).collect();
        let apart: Vec<Row> =
            (0..n).map(|i| Row { position: 0, slot: i as u32, ..rows[i] }).collect();
        let tables: Vec<Vec<u32>> = (0..n as u32).map(|i| vec![i % table.len() as u32]).collect();
        let all = self.best(&rows, &[table]);
        (all - self.best(&apart, &tables)) / self.layers as f64
    }

    /// The time of the fastest run.
    fn best(&mut self, rows: &[Row], tables: &[Vec<u32>]) -> f64 {
        let time = |_| {
            let begun = Instant::now();
            self.forward(rows, tables);
            begun.elapsed().as_secs_f64()
        };
        (0..RUNS).map(time).fold(f64::INFINITY, f64::min)
    }
}

/// Floating-point operations per second that all threads reach on registers, with the widest
/// multiply-add of the CPU.
fn peak(threads: usize) -> f64 {
    const STEPS: usize = 5_000_000;
    const CHAINS: usize = 12;
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    fn run() -> f64 {
        use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_reduce_add_ps, _mm512_set1_ps};
        let x = _mm512_set1_ps(black_box(0.5));
        let mut sums = [_mm512_set1_ps(1.0); CHAINS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, x, x);
            }
        }
        black_box(sums.map(|sum| _mm512_reduce_add_ps(sum)));
        (2 * 16 * CHAINS * STEPS) as f64
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        let Ok(pool) = Pool::new(threads) else { return f64::NAN };
        let begun = Instant::now();
        pool.run(|_| {
            // SAFETY: the feature was detected.
            unsafe { run() };
        });
        return (2 * 16 * CHAINS * STEPS * threads) as f64 / begun.elapsed().as_secs_f64();
    }
    f64::NAN
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let threads = words.iter().find_map(|word| word.parse().ok());
    let threads = threads.unwrap_or_else(default_threads);
    let names: Vec<&String> = words.iter().filter(|word| word.parse::<usize>().is_err()).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|word| *word == name);
    let peak = (0..5).map(|_| peak(threads)).fold(0.0, f64::max);
    println!("{threads} threads, {:.0} GFLOP/s f32 at most", peak / 1e9);
    for kv in [KvType::F16, KvType::F32, KvType::Q8_0] {
        if !wanted(&kv.to_string()) {
            continue;
        }
        // more keys and values than caches hold
        let seconds = Subject::new(threads, 64, kv).seconds(DEPTH, 1);
        let bytes = kv.keys.bytes(2 * KV_HEADS * HEAD_DIM * (DEPTH + 1)) as f64;
        println!(
            "{kv} decode at depth {DEPTH}: {:.0} µs a layer, {:.1} GB/s",
            seconds * 1e6,
            bytes / seconds / 1e9
        );
        let mut prefill = Subject::new(threads, 4, kv);
        for depth in [0, DEPTH] {
            let seconds = prefill.seconds(depth, PREFILL);
            let pairs = PREFILL * depth + PREFILL * (PREFILL + 1) / 2;
            let operations = (4 * HEADS * HEAD_DIM * pairs) as f64;
            println!(
                "{kv} prefill of {PREFILL} at depth {depth}: {:.0} µs a layer, {:.0} GFLOP/s, \
                 {:.0} % of the peak",
                seconds * 1e6,
                operations / seconds / 1e9,
                100.0 * operations / seconds / peak
            );
        }
    }
}
