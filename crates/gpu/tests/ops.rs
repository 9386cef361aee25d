//! Every op alone, compared with the reference path of the CPU at odd shapes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_cpu::Cpu;
use pelton_gpu::{Gpu, adapters};
use pelton_testing::{Need, ops, skip};

/// Tests in parallel, each of a quarter of the plans.
const TESTS: usize = 4;

fn every_op(test: usize) {
    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let backend = Gpu::open_checked(&adapter).unwrap();
    let outcome = ops::check_every(&backend, &Cpu::reference(), test, TESTS);
    println!("{outcome:?}");
    assert!(outcome.refused.is_empty(), "{outcome:?}");
    assert!(outcome.compared > 100, "{outcome:?}");
}

#[test]
fn experts_are_chosen_by_the_formula() {
    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    ops::check_routes(&Gpu::open_checked(&adapter).unwrap());
}

#[test]
fn first_quarter_of_every_op() {
    every_op(0);
}

#[test]
fn second_quarter_of_every_op() {
    every_op(1);
}

#[test]
fn third_quarter_of_every_op() {
    every_op(2);
}

#[test]
fn fourth_quarter_of_every_op() {
    every_op(3);
}
