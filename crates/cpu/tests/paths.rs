//! The fast path against the plain one, and against itself in other batches and threads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::sync::Arc;

use pelton_cpu::{Cpu, FUSIONS};
use pelton_graph::{Backend, KvType, Limits, build};
use pelton_quant::DType;
use pelton_testing::{
    ModelSpec,
    backend::{LIMITS, Subject, load, logits, tokens},
};

/// Calls `test` with the fast path on `threads` threads, whose results never depend on the batch.
fn fast(threads: usize, test: impl FnOnce(Subject<'_>)) {
    let (backend, plain) = (Cpu::new(threads), Cpu::plain());
    test(Subject { backend: &backend, plain: &plain, tolerance: 0.0 });
}

const TYPES: [DType; 6] =
    [DType::F32, DType::F16, DType::Q4_0, DType::Q4_K, DType::Q6_K, DType::Q8_0];

#[test]
fn fast_equals_plain() {
    fast(2, |subject| subject.equals_plain());
}

/// Where a last bit tips the rounding of a key or value, f16 and q8_0 differ by more.
#[test]
fn far_positions() {
    let types = [(KvType::F32, 1e-5), (KvType::F16, 1e-3), (KvType::Q8_0, 1e-2)];
    fast(3, |subject| subject.far_positions(&types));
}

/// Eight bits for keys and values: what they change, and heads that they do not fit.
#[test]
fn keys_and_values_in_q8_0() {
    for cpu in [Cpu::plain(), Cpu::new(2)] {
        let spec = ModelSpec { context: 300, ..ModelSpec::wide(DType::F32) };
        let tokens = tokens(&spec, 300);
        let run = |kv| {
            let limits = Limits { rows: 300, selected: 300, kv, ..LIMITS };
            logits(&mut *load(&cpu, &spec, &[], limits), &tokens, &[300])
        };
        let (exact, got) = (run(KvType::F32), run(KvType::Q8_0));
        let square = |v: f32| f64::from(v).powi(2);
        let difference: f64 = exact.iter().zip(&got).map(|(a, b)| square(a - b)).sum();
        let share = (difference / exact.iter().map(|&v| square(v)).sum::<f64>()).sqrt();
        assert!((1e-3..3e-2).contains(&share), "{share}");

        let spec = ModelSpec { head_dim: 24, ..spec };
        let checkpoint = Arc::new(spec.checkpoint());
        let plan = build(&checkpoint).unwrap();
        let limits = Limits { kv: KvType::Q8_0, ..LIMITS };
        let error = cpu.load(plan, checkpoint, limits, &mut |_, _| {}).err().unwrap().to_string();
        assert!(error.contains("q8_0") && error.contains("heads of 24 numbers"), "{error}");
    }
}

#[test]
fn fused_equals_unfused() {
    fast(2, |subject| subject.fused_equals_unfused());
}

#[test]
fn each_fusion_alone() {
    fast(1, |subject| subject.each_fusion_alone());
}

#[test]
fn any_split() {
    fast(2, |subject| subject.any_split(&TYPES));
}

/// A thread's share decides who computes a number, never how.
#[test]
fn any_number_of_threads() {
    for dtype in TYPES {
        let spec = ModelSpec { window: Some(300), context: 600, ..ModelSpec::wide(dtype) };
        let tokens = tokens(&spec, 600);
        let limits = Limits { rows: 600, selected: 600, ..LIMITS };
        let run = |threads| {
            let mut executable = load(&Cpu::new(threads), &spec, FUSIONS, limits);
            logits(&mut *executable, &tokens, &[17, 570, 12, 1])
        };
        let two = run(2);
        for threads in [1, 3, 5] {
            assert!(run(threads) == two, "{dtype} on {threads} threads");
        }
    }
}

#[test]
fn every_type() {
    fast(2, |subject| subject.every_type());
}

#[test]
fn sequences_do_not_mix() {
    fast(2, |subject| subject.sequences_do_not_mix());
}

#[test]
fn only_selected_rows() {
    fast(2, |subject| subject.only_selected_rows());
}

#[test]
fn hostile_batches() {
    fast(1, |subject| subject.hostile_batches());
}

#[test]
fn memory_that_is_not_there() {
    fast(1, |subject| subject.memory_that_is_not_there());
    let plain = Cpu::plain();
    Subject { backend: &plain, plain: &plain, tolerance: 0.0 }.memory_that_is_not_there();
}
