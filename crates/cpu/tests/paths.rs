//! The fast path against the plain one, and against itself in other batches and threads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_cpu::{Cpu, FUSIONS};
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
        let spec = ModelSpec { window: Some(50), ..ModelSpec::wide(dtype) };
        let tokens = tokens(&spec, 64);
        let run = |threads| {
            logits(&mut *load(&Cpu::new(threads), &spec, FUSIONS, LIMITS), &tokens, &[17, 47])
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
