//! The fast path compared with the reference path, and with itself in other batches and threads.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pelton_cpu::Cpu;
use pelton_graph::Phase::{Decode, Prompt};
use pelton_graph::{
    Backend, Error, Executable, KvElement, KvType, Limits, Op, Plan, TableEdit, Weight, WeightKind,
    build,
};
use pelton_quant::DType;
use pelton_testing::{
    ModelSpec,
    backend::{Subject, forward, limits, load, logits, relative_difference, rows, tokens, unfused},
};

/// Calls `test` with the fast path on `threads` threads. Its results are those of the row alone, in
/// the same phase, bit for bit.
fn fast(threads: usize, test: impl FnOnce(Subject<'_>)) {
    let (backend, reference) = (Cpu::new(threads), Cpu::reference());
    test(Subject { backend: &backend, reference: &reference, tolerance: 0.0 });
}

#[test]
fn equals_reference() {
    fast(2, |subject| subject.equals_reference());
}

/// f16 and q8_0 differ by more where a last bit tips the rounding of a key or value.
#[test]
fn far_positions() {
    // also how far logits of the two phases may differ
    let mixed = KvType { keys: KvElement::Q5_1, values: KvElement::Iq4Nl };
    let types = [
        (KvType::F32, 1e-5, 1e-3),
        (KvType::F16, 1e-3, 5e-3),
        (KvType::both(KvElement::Bf16), 1e-2, 5e-2),
        (KvType::Q8_0, 1e-2, 5e-2),
        (KvType::both(KvElement::Q4_0), 1e-1, 3e-1),
        (mixed, 1e-1, 3e-1),
    ];
    for (kv, limit, tolerance) in types {
        fast(3, |subject| Subject { tolerance, ..subject }.far_positions(&[(kv, limit)]));
    }
}

/// The error of keys and values in eight bits, and the refusal of heads that are no whole blocks.
#[test]
fn keys_and_values_in_q8_0() {
    for cpu in [Cpu::reference(), Cpu::new(2)] {
        let spec = ModelSpec { context: 300, ..ModelSpec::wide(DType::F32) };
        let tokens = tokens(&spec, 300);
        let run = |kv| {
            let limits = Limits { rows: 300, wants: 300, kv, ..limits(&spec) };
            logits(&mut *load(&cpu, &spec, &unfused, limits), &tokens, &[(Prompt, 300)])
        };
        let exact = run(KvType::F32);
        let difference = relative_difference(&exact, &run(KvType::Q8_0));
        assert!((1e-3..3e-2).contains(&difference), "{difference}");
        let difference = relative_difference(&exact, &run(KvType::both(KvElement::Q4_0)));
        assert!((1e-2..3e-1).contains(&difference), "{difference}");

        let spec = ModelSpec { head_dim: 24, ..spec };
        let checkpoint = Arc::new(spec.checkpoint());
        let plan = build(&checkpoint).unwrap();
        let limits = Limits { kv: KvType::Q8_0, ..limits(&spec) };
        let error = cpu.load(plan, checkpoint, limits, &mut |_, _| {}).err().unwrap().to_string();
        assert!(error.contains("q8_0") && error.contains("heads of 24 elements"), "{error}");
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
fn any_chunks() {
    let floats: Vec<_> = DType::ALL.into_iter().filter(|dtype| dtype.block_len() == 1).collect();
    let blocks: Vec<_> = DType::ALL.into_iter().filter(|dtype| dtype.block_len() > 1).collect();
    fast(2, |subject| subject.any_chunks(&blocks));
    // phases sum products in f32 in different orders
    fast(2, |subject| Subject { tolerance: 2e-3, ..subject }.any_chunks(&floats));
}

/// Phases agree, and an answer in the cache is a part of a later prompt, unless weights in floats
/// have kernels of their own for decoding.
#[test]
fn phases_agree_with_weights_in_blocks() {
    for dtype in DType::ALL {
        let spec = ModelSpec::wide(dtype);
        let executable = load(&Cpu::new(2), &spec, &unfused, limits(&spec));
        assert_eq!(executable.pipeline().phases_agree, dtype.block_len() > 1, "{dtype}");
    }
}

/// A partition decides which thread computes a value, not how.
#[test]
fn any_number_of_threads() {
    for dtype in [DType::F32, DType::F16, DType::Q4_0, DType::Q4_K, DType::Q6_K, DType::Q8_0] {
        let spec = ModelSpec { window: Some(300), context: 600, ..ModelSpec::wide(dtype) };
        let tokens = tokens(&spec, 600);
        let limits = Limits { rows: 600, wants: 600, ..limits(&spec) };
        let run = |threads| {
            let cpu = Cpu::new(threads);
            let accepts = |op: &Op, plan: &Plan| cpu.accepts(op, plan);
            let mut executable = load(&cpu, &spec, &accepts, limits.clone());
            let chunks = [(Decode, 17), (Prompt, 570), (Decode, 12), (Decode, 1)];
            logits(&mut *executable, &tokens, &chunks)
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
fn only_wanted_rows() {
    fast(2, |subject| subject.only_wanted_rows());
}

#[test]
fn copied_pages() {
    fast(2, |subject| subject.copied_pages());
    let reference = Cpu::reference();
    Subject { backend: &reference, reference: &reference, tolerance: 0.0 }.copied_pages();
}

#[test]
fn hostile_passes() {
    fast(1, |subject| subject.hostile_passes());
    let reference = Cpu::reference();
    Subject { backend: &reference, reference: &reference, tolerance: 0.0 }.hostile_passes();
}

#[test]
fn memory_that_is_not_there() {
    fast(1, |subject| subject.memory_that_is_not_there());
    let reference = Cpu::reference();
    Subject { backend: &reference, reference: &reference, tolerance: 0.0 }
        .memory_that_is_not_there();
}

/// Every limit is refused with an error where it needs more memory than there is, before any
/// allocation.
#[test]
fn limits_that_do_not_fit_into_memory() {
    const MANY: usize = usize::MAX >> 8;
    let spec = ModelSpec::default();
    for cpu in [Cpu::reference(), Cpu::new(2)] {
        for limits in [
            Limits { rows: MANY, ..limits(&spec) },
            Limits { wants: MANY, ..limits(&spec) },
            Limits { sequences: MANY, ..limits(&spec) },
            Limits { pages: vec![MANY], ..limits(&spec) },
            Limits { pages: vec![1 << 40], ..limits(&spec) },
        ] {
            let checkpoint = Arc::new(spec.checkpoint());
            let plan = build(&checkpoint).unwrap().fuse(&|op, plan| cpu.accepts(op, plan));
            let error = cpu.load(plan, checkpoint, limits, &mut |_, _| {}).err().unwrap();
            assert!(matches!(error, Error::Memory { .. } | Error::LoadMemory { .. }), "{error}");
            if cfg!(target_os = "linux") {
                assert!(error.to_string().contains("are available"), "{error}");
            }
        }
    }
}

/// Weights of another kind or type than the plan says are refused by name.
#[test]
fn weights_of_another_kind_are_refused() {
    for cpu in [Cpu::reference(), Cpu::new(2)] {
        let spec = ModelSpec { dtype: DType::F16, ..ModelSpec::default() };
        let refused = |change: &dyn Fn(&mut Weight)| {
            let checkpoint = Arc::new(spec.checkpoint());
            let mut plan = build(&checkpoint).unwrap().fuse(&|op, plan| cpu.accepts(op, plan));
            plan.weights.iter_mut().for_each(change);
            let loaded = cpu.load(plan, checkpoint, limits(&spec), &mut |_, _| {});
            loaded.err().unwrap().to_string()
        };
        let matrix_norm = refused(&|weight| {
            if weight.name == "blk.1.ffn_norm.weight" {
                weight.kind = WeightKind::Matrix;
            }
        });
        assert!(matrix_norm.contains("'cpu' cannot run the op"), "{matrix_norm}");
        assert!(matrix_norm.contains("layer 1"), "{matrix_norm}");
        let vector = refused(&|weight| {
            if weight.name == "output.weight" {
                (weight.kind, weight.row_len) = (WeightKind::Vector, weight.row_len * weight.rows);
            }
        });
        assert!(vector.contains("linear"), "{vector}");
        // as many bytes, of another meaning
        let type_of_same_size = refused(&|weight| {
            if weight.dtype == DType::F16 {
                weight.dtype = DType::BF16;
            }
        });
        assert!(
            type_of_same_size.contains("is stored as F16, expected BF16"),
            "{type_of_same_size}"
        );
    }
}

/// A pass that fails in the middle of its steps leaves every buffer in place.
#[test]
fn a_failed_pass_leaves_the_executable_usable() {
    let spec = ModelSpec::default();
    for cpu in [Cpu::reference(), Cpu::new(2)] {
        let load = || {
            let checkpoint = Arc::new(spec.checkpoint());
            let mut plan = build(&checkpoint).unwrap().fuse(&|op, plan| cpu.accepts(op, plan));
            // one token more than the embedding table has rows
            plan.vocab += 1;
            cpu.load(plan, checkpoint, limits(&spec), &mut |_, _| {}).unwrap()
        };
        let edits = [TableEdit { group: 0, slot: 0, first: 0, pages: &[0] }];
        let run = |executable: &mut dyn Executable, token| {
            forward(executable, Decode, &rows(&[token], 0, 0), &edits, &[0]).unwrap()
        };
        let expected = run(&mut *load(), 3);
        let mut executable = load();
        let failing = AssertUnwindSafe(|| run(&mut *executable, spec.vocab as u32));
        assert!(catch_unwind(failing).is_err());
        assert_eq!(run(&mut *executable, 3), expected, "{cpu:?}");
    }
}
