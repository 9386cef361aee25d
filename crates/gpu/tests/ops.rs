//! Every op alone, compared with the reference path of the CPU at odd shapes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_cpu::Cpu;
use pelton_gpu::{Gpu, adapters};
use pelton_testing::{Need, ops, skip};

#[test]
fn every_op() {
    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let backend = Gpu::open_checked(&adapter).unwrap();
    let outcome = ops::check(&backend, &Cpu::reference());
    println!("{outcome:?}");
    assert!(outcome.compared > 100, "{outcome:?}");
}
