//! A warm executable allocates nothing in a pass.

#![allow(clippy::unwrap_used, reason = "a test fails by panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use pelton_cpu::Cpu;
use pelton_graph::Phase::{Decode, Prompt};
use pelton_graph::{Backend, Input, Op, Pass, Phase, Plan, Row, Sample, TableEdit, Want};
use pelton_quant::DType;
use pelton_sampling::{Draw, FixedParams, Penalties};
use pelton_testing::{
    ModelSpec,
    backend::{limits, load, rows, tokens},
    ops,
};

/// The system's allocator, which counts.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test, as tests in parallel would count each other's allocations.
#[test]
fn a_warm_pass_allocates_nothing() {
    of_a_model();
    of_every_op();
}

fn of_every_op() {
    let cpu = Cpu::new(2);
    ops::each_executable(&cpu, &mut |name, run| {
        for len in [ops::WARM, 1] {
            run(len);
            let allocated = || {
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                run(len);
                ALLOCATIONS.load(Ordering::Relaxed) - before
            };
            // a thread of the pool allocates at its first product of a size, which on a busy
            // machine another thread may have computed in the runs before
            let mut runs = std::iter::repeat_with(allocated).take(10);
            assert!(runs.any(|count| count == 0), "{name}, {len} rows");
        }
    });
}

fn of_a_model() {
    for dtype in [DType::F16, DType::Q4_K] {
        let spec = ModelSpec { context: 400, ..ModelSpec::wide(dtype) };
        let cpu = Cpu::new(2);
        let accepts = |op: &Op, plan: &Plan| cpu.accepts(op, plan);
        let mut executable = load(&cpu, &spec, &accepts, limits(&spec));
        let text = tokens(&spec, 200);
        let pages: Vec<u32> = (0..6).collect();
        let edits = [TableEdit { group: 0, slot: 0, first: 0, pages: &pages }];
        let bias = [(3, 1.0)];
        let mut run = |phase: Phase, rows: &[Row], seed: u64| {
            let draw = Draw {
                params: FixedParams::new(0.8, 40, 0.95, 0.05),
                penalties: Some(Penalties {
                    repetition: 1.1,
                    presence: 0.0,
                    frequency: 0.1,
                    window: 64,
                }),
                bias: &bias,
                seed,
                ..Draw::GREEDY
            };
            let row = rows.len() as u32 - 1;
            let wants = [
                Want::Sample(Sample {
                    row: row.saturating_sub(1),
                    draw: Draw { seed: 9, ..draw },
                    recent: &[],
                    pending: 1,
                }),
                Want::Sample(Sample { row, draw, recent: &text[..30], pending: 20 }),
                Want::Logits { row },
            ];
            // a single row has none before it
            let wants = &wants[usize::from(row == 0)..];
            let pass = Pass { tables: &edits, ..Pass::new(phase, rows, wants) };
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            let ticket = executable.submit(&pass).unwrap();
            let token = executable.take(ticket).unwrap().samples[0].token;
            assert!(token.is_some());
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        let prompt = rows(&text, 0, 0);
        let next = |i: u32| [Row { input: Input::Sampled, position: 200 + i, slot: 0 }];
        assert!(run(Prompt, &prompt, 1) > 0, "the first pass grows what later ones reuse");
        for i in 0..40 {
            run(Decode, &next(i), 2);
        }
        assert_eq!(run(Prompt, &prompt, 3), 0, "{dtype} prompt");
        for i in 0..40 {
            assert_eq!(run(Decode, &next(i), 4), 0, "{dtype} decode");
        }
    }
}
