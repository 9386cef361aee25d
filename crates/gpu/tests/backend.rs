//! The tests that every backend passes, on whatever device there is: a GPU, or else a software
//! driver. Where there is neither, each says that it was skipped.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_cpu::Cpu;
use pelton_gpu::{Gpu, adapters};
use pelton_quant::DType;
use pelton_testing::backend::Subject;

fn on_device(test: impl FnOnce(Subject<'_>)) {
    let Some(adapter) = adapters().into_iter().next() else {
        eprintln!("SKIPPED: no Vulkan, Metal or DX12 device, not even in software");
        return;
    };
    let backend = Gpu::open_checked(&adapter).unwrap();
    // the order of sums differs between kernels for one row and for many
    test(Subject { backend: &backend, plain: &Cpu::plain(), tolerance: 2e-3 });
}

#[test]
fn equals_plain() {
    on_device(|subject| subject.equals_plain());
}

#[test]
fn fused_equals_unfused() {
    on_device(|subject| subject.fused_equals_unfused());
}

#[test]
fn each_fusion_alone() {
    on_device(|subject| subject.each_fusion_alone());
}

#[test]
fn any_split() {
    on_device(|subject| subject.any_split(&[DType::F32, DType::Q4_0, DType::Q6_K]));
}

#[test]
fn every_type() {
    on_device(|subject| subject.every_type());
}

#[test]
fn sequences_do_not_mix() {
    on_device(|subject| subject.sequences_do_not_mix());
}

#[test]
fn only_selected_rows() {
    on_device(|subject| subject.only_selected_rows());
}

#[test]
fn hostile_batches() {
    on_device(|subject| subject.hostile_batches());
}

#[test]
fn memory_that_is_not_there() {
    on_device(|subject| subject.memory_that_is_not_there());
}
