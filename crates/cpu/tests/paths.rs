//! The fast path against the plain one, and against itself in other batches and threads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::sync::Arc;

use pelton_cpu::Cpu;
use pelton_graph::{Backend, Batch, Executable, Fusion, KvType, Limits, Row, build, pages_for};
use pelton_quant::DType;
use pelton_testing::{ModelSpec, Random};

const LIMITS: Limits = Limits { rows: 96, selected: 96, sequences: 4, pages: 16, kv: KvType::F16 };

fn load(spec: &ModelSpec, cpu: Cpu, fusions: &[Fusion], limits: Limits) -> Box<dyn Executable> {
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = build(&checkpoint).unwrap().fuse(fusions);
    cpu.load(plan, checkpoint, limits).unwrap()
}

fn tokens(spec: &ModelSpec, n: usize) -> Vec<u32> {
    let mut random = Random::new(7);
    (0..n).map(|_| random.below(spec.vocab) as u32).collect()
}

/// The logits of all tokens of one sequence, run in parts of these lengths.
fn logits(executable: &mut dyn Executable, tokens: &[u32], parts: &[usize]) -> Vec<f32> {
    // pages out of order, so that a mistake in the table shows
    let tables = vec![Vec::new(), (0..pages_for(tokens.len()) as u32).rev().collect()];
    let mut all = Vec::new();
    let mut position = 0;
    for &part in parts {
        let rows: Vec<Row> = (position..position + part)
            .map(|p| Row { token: tokens[p], position: p as u32, sequence: 1 })
            .collect();
        let selected: Vec<u32> = (0..part as u32).collect();
        let batch = Batch { rows: &rows, tables: &tables, selected: &selected };
        all.extend_from_slice(executable.forward(&batch).unwrap());
        position += part;
    }
    assert_eq!(position, tokens.len());
    all
}

fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().all(|v| v.is_finite()));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn specs() -> Vec<ModelSpec> {
    let base = ModelSpec::default();
    vec![
        base.clone(),
        ModelSpec { architecture: "qwen2", kv_heads: 4, tied: true, ..base.clone() },
        ModelSpec { architecture: "qwen3", kv_heads: 1, head_dim: 24, ..base.clone() },
        ModelSpec { window: Some(10), rope_divisors: true, ..base.clone() },
        // odd widths: no multiple of a vector, of a block, of a tile
        ModelSpec { hidden: 36, heads: 6, kv_heads: 2, head_dim: 6, ffn: 50, vocab: 33, ..base },
    ]
}

/// With weights in f32 only the order of sums differs; in an f16 cache that can tip a rounding.
#[test]
fn fast_equals_plain() {
    for spec in specs() {
        let tokens = tokens(&spec, 70);
        for (kv, tolerance) in [(KvType::F16, 2e-3), (KvType::F32, 2e-5)] {
            let limits = Limits { kv, ..LIMITS };
            let plain = logits(&mut *load(&spec, Cpu::plain(), &[], limits), &tokens, &[70]);
            let mut fast = load(&spec, Cpu::new(2), &Fusion::ALL, limits);
            let fast = logits(&mut *fast, &tokens, &[70]);
            let difference = greatest_difference(&plain, &fast);
            assert!(difference < tolerance, "{spec:?} {kv:?}: {difference}");
        }
    }
}

#[test]
fn fused_equals_unfused() {
    for spec in specs() {
        let tokens = tokens(&spec, 40);
        let [fused, unfused] = [&Fusion::ALL[..], &[]]
            .map(|fusions| logits(&mut *load(&spec, Cpu::new(2), fusions, LIMITS), &tokens, &[40]));
        assert_eq!(fused, unfused, "{spec:?}");
    }
}

/// Each fusion alone, too: a backend may have any of them.
#[test]
fn each_fusion_alone() {
    let spec = ModelSpec { architecture: "qwen3", ..ModelSpec::default() };
    let tokens = tokens(&spec, 20);
    let unfused = logits(&mut *load(&spec, Cpu::new(1), &[], LIMITS), &tokens, &[20]);
    for fusion in Fusion::ALL {
        let fused = logits(&mut *load(&spec, Cpu::new(1), &[fusion], LIMITS), &tokens, &[20]);
        assert_eq!(fused, unfused, "{fusion:?}");
    }
}

/// What a row gets does not depend on its batch, nor on the number of threads: bit for bit.
#[test]
fn any_split_and_any_number_of_threads() {
    for dtype in [DType::F32, DType::F16, DType::Q4_0, DType::Q4_K, DType::Q6_K, DType::Q8_0] {
        let spec = ModelSpec { window: Some(50), ..ModelSpec::wide(dtype) };
        let tokens = tokens(&spec, 64);
        let run = |threads, parts: &[usize]| {
            let mut fast = load(&spec, Cpu::new(threads), &Fusion::ALL, LIMITS);
            logits(&mut *fast, &tokens, parts)
        };
        let whole = run(2, &[64]);
        for parts in [&[1, 63][..], &[17, 47], &[1; 64], &[5, 1, 30, 28]] {
            assert!(run(2, parts) == whole, "{dtype} in parts {parts:?}");
        }
        for threads in [1, 3, 5] {
            assert!(run(threads, &[17, 47]) == whole, "{dtype} on {threads} threads");
        }
    }
}

/// Weights in blocks: the fast path differs by the rounding of activations to 8 bits.
#[test]
fn every_type_runs() {
    for dtype in DType::ALL {
        let spec = ModelSpec::wide(dtype);
        let tokens = tokens(&spec, 9);
        let plain = logits(&mut *load(&spec, Cpu::plain(), &[], LIMITS), &tokens, &[9]);
        let mut fast = load(&spec, Cpu::new(2), &Fusion::ALL, LIMITS);
        let fast = logits(&mut *fast, &tokens, &[9]);
        let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|v| v * v).sum::<f32>().sqrt();
        let difference = norm(&mut plain.iter().zip(&fast).map(|(a, b)| a - b));
        let share = difference / norm(&mut plain.iter().copied());
        let quantized = dtype.block_len() > 1;
        assert!(share < if quantized { 0.03 } else { 1e-3 }, "{dtype}: {share}");
    }
}

/// Two sequences in one batch get what each gets alone.
#[test]
fn sequences_do_not_mix() {
    let spec = ModelSpec::default();
    let mut executable = load(&spec, Cpu::new(2), &Fusion::ALL, LIMITS);
    let texts = [tokens(&spec, 30), tokens(&spec, 50)[15..].to_vec()];
    let alone = texts.clone().map(|text| logits(&mut *executable, &text, &[text.len()]));
    let tables = [vec![3], vec![1]];
    let rows: Vec<Row> = (0..35)
        .flat_map(|p| {
            let row = |s: usize| {
                let token = *texts[s].get(p)?;
                Some(Row { token, position: p as u32, sequence: s as u32 })
            };
            [row(0), row(1)].into_iter().flatten().collect::<Vec<_>>()
        })
        .collect();
    let selected: Vec<u32> = (0..rows.len() as u32).collect();
    let batch = Batch { rows: &rows, tables: &tables, selected: &selected };
    let together = executable.forward(&batch).unwrap();
    for (row, got) in rows.iter().zip(together.chunks(spec.vocab)) {
        let from = row.position as usize * spec.vocab;
        assert_eq!(got, &alone[row.sequence as usize][from..from + spec.vocab], "{row:?}");
    }
}

#[test]
fn only_selected_rows_in_the_order_asked_for() {
    let spec = ModelSpec::default();
    let mut executable = load(&spec, Cpu::new(2), &Fusion::ALL, LIMITS);
    let tokens = tokens(&spec, 5);
    let all = logits(&mut *executable, &tokens, &[5]);
    let rows: Vec<Row> =
        (0..5).map(|p| Row { token: tokens[p], position: p as u32, sequence: 0 }).collect();
    let (tables, selected) = ([vec![2]], [3, 0]);
    let batch = Batch { rows: &rows, tables: &tables, selected: &selected };
    let got = executable.forward(&batch).unwrap();
    let row = |i: usize| &all[i * spec.vocab..(i + 1) * spec.vocab];
    assert_eq!(got, [row(3), row(0)].concat());
    let none = Batch { selected: &[], ..batch };
    assert!(executable.forward(&none).unwrap().is_empty());
}

#[test]
fn hostile_batches_are_refused() {
    let spec = ModelSpec::default();
    let mut executable = load(&spec, Cpu::new(1), &Fusion::ALL, LIMITS);
    let good = Row { token: 0, position: 0, sequence: 0 };
    let mut refuse = |rows: &[Row], tables: &[Vec<u32>], selected: &[u32], what: &str| {
        let error = executable.forward(&Batch { rows, tables, selected }).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    let tables = [vec![0u32]];
    refuse(&[], &tables, &[], "0 rows");
    refuse(&[good; 97], &tables, &[], "97 rows");
    refuse(&[Row { token: 80, ..good }], &tables, &[], "token 80");
    refuse(&[Row { position: 512, ..good }], &tables, &[], "position 512");
    refuse(&[Row { position: 64, ..good }], &tables, &[], "past the 1 pages");
    refuse(&[Row { sequence: 1, ..good }], &tables, &[], "sequence 1");
    refuse(&[good], &[vec![16]], &[], "page 16");
    refuse(&[good], &tables, &[1], "selected row 1");
    refuse(&[good], &vec![vec![0]; 5], &[], "5 page tables");
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let spec = ModelSpec::default();
    let checkpoint = Arc::new(spec.checkpoint());
    let limits = Limits { pages: usize::MAX / 2, ..LIMITS };
    for cpu in [Cpu::plain(), Cpu::new(1)] {
        let plan = build(&checkpoint).unwrap();
        let error = cpu.load(plan, Arc::clone(&checkpoint), limits).err().unwrap().to_string();
        assert!(error.contains("cache"), "{error}");
    }
}
