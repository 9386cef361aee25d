//! The shared tests of all backends, on the first GPU or else on a software driver.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::sync::Arc;

use pelton_cpu::Cpu;
use pelton_gpu::{Gpu, adapters};
use pelton_graph::{Effort, KvElement, KvType, MatrixScores, Plan};
use pelton_quant::DType;
use pelton_testing::{Need, backend::Subject, skip};
use pelton_weights::Checkpoint;

fn on_gpu(test: impl FnOnce(Subject<'_>)) {
    // the order of sums differs between the kernels of the two phases, and with matrix cores the
    // rounding of attention
    within(4e-3, test);
}

fn within(tolerance: f32, test: impl FnOnce(Subject<'_>)) {
    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let backend = Gpu::open_checked(&adapter).unwrap();
    test(Subject { backend: &backend, reference: &Cpu::reference(), tolerance });
}

#[test]
fn equals_reference() {
    on_gpu(|subject| subject.equals_reference());
}

#[test]
fn far_positions() {
    on_gpu(|subject| subject.far_positions(&[(KvType::F16, 1e-3), (KvType::F32, 1e-5)]));
}

/// A code that tips from one integer to the next changes an element by a 127th of
/// its block's greatest.
#[test]
fn far_positions_in_blocks() {
    within(5e-2, |subject| subject.far_positions(&[(KvType::Q8_0, 1e-2)]));
    let mixed = KvType { keys: KvElement::Q5_1, values: KvElement::Q4_0 };
    within(3e-1, |subject| subject.far_positions(&[(mixed, 1e-1)]));
}

#[test]
fn fused_equals_unfused() {
    on_gpu(|subject| subject.fused_equals_unfused());
}

#[test]
fn each_fusion_alone() {
    on_gpu(|subject| subject.each_fusion_alone());
}

#[test]
fn any_chunks() {
    // matrix cores multiply a prompt's activations in f16, each within 2⁻¹¹ of its
    // value; decoding does not
    within(8e-3, |subject| {
        subject.any_chunks(&[DType::F32, DType::F16, DType::Q4_0, DType::Q6_K]);
    });
}

#[test]
fn every_type() {
    on_gpu(|subject| subject.every_type());
}

#[test]
fn sequences_do_not_mix() {
    on_gpu(|subject| subject.sequences_do_not_mix());
}

#[test]
fn only_wanted_rows() {
    on_gpu(|subject| subject.only_wanted_rows());
}

#[test]
fn copied_pages() {
    on_gpu(|subject| subject.copied_pages());
}

#[test]
fn hostile_passes() {
    on_gpu(|subject| subject.hostile_passes());
}

#[test]
fn memory_that_is_not_there() {
    on_gpu(|subject| subject.memory_that_is_not_there());
}

fn half() -> Effort {
    Effort::new(0.5).unwrap()
}

/// The scores of a plan's matrices, from a CPU.
fn calibrate(plan: Plan, checkpoint: &Arc<Checkpoint>, windows: &[Vec<u32>]) -> Vec<MatrixScores> {
    pelton_cpu::effort_scores(plan, checkpoint, windows, 1, &mut |_, _| {}).unwrap()
}

#[test]
fn effort_1_is_dense() {
    on_gpu(|subject| subject.effort_1_is_dense(&calibrate, &[DType::Q8_0]));
}

#[test]
fn efforts_of_any_pass() {
    let cpu = Cpu::new(1);
    on_gpu(|subject| subject.efforts_of_any_pass(&calibrate, half(), &cpu, &[DType::Q8_0]));
}
