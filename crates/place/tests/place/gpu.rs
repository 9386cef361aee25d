//! Splits with a GPU or its software driver. Without either, each test says that it was skipped.

use std::sync::Arc;

use pelton_cpu::Cpu;
use pelton_gpu::{Gpu, adapters};
use pelton_graph::{Backend, Plan, build};
use pelton_place::Split;
use pelton_quant::DType;
use pelton_testing::{ModelSpec, Need, backend::Subject, skip};

use crate::common::{Runs, limits_for, run};

fn gpu() -> Option<Arc<dyn Backend>> {
    Some(Arc::new(opened()?.without_persistent()))
}

fn opened() -> Option<Gpu> {
    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return None;
    };
    Some(Gpu::open_checked(&adapter).unwrap())
}

/// Two open instances of one adapter give the bits of one.
#[test]
fn two_instances_are_one() {
    let (Some(first), Some(other)) = (gpu(), gpu()) else { return };
    bits_of_one([first, other], &[0, 1, 2]);
}

/// So do two with persistent kernels.
#[test]
fn two_persistent_instances_are_one() {
    if adapters().first().is_some_and(|adapter| !adapter.has_coherent_buffers()) {
        skip(Need::Capability, "this GPU has no coherent buffers");
        return;
    }
    // one workgroup waits for nobody, and Mesa ends a loop after 65,535 turns
    let persistent = || Some(opened()?.with_persistent(1, 60_000, 1));
    let (Some(first), Some(other)) = (persistent(), persistent()) else { return };
    bits_of_one([Arc::new(first.clone()), Arc::new(other.clone())], &[1]);
    for gpu in [first, other] {
        assert!(gpu.persistent_passes() > 0, "{} has run dispatches alone", gpu.name());
    }
}

/// Compares a split before each of some layers with one device without persistent kernels.
fn bits_of_one(devices: [Arc<dyn Backend>; 2], layers: &[usize]) {
    let Some(whole) = gpu() else { return };
    for spec in [ModelSpec::default(), ModelSpec::wide(DType::Q4_0)] {
        let checkpoint = Arc::new(spec.checkpoint());
        let plan = build(&checkpoint).unwrap();
        let load = |backend: &dyn Backend, plan: Plan| {
            let fused = plan.fuse(&|op, plan| backend.accepts(op, plan));
            let limits = limits_for(&fused);
            backend.load(fused, Arc::clone(&checkpoint), limits, &mut |_, _| {}).unwrap()
        };
        let expected = run(&mut *load(&*whole, plan.clone()), &plan);
        for &layer in layers {
            let split = Split::new(devices.to_vec(), vec![layer]).unwrap();
            let got = run(&mut *load(&split, plan.clone()), &plan);
            let difference = Runs::difference(&expected, &got);
            assert!(difference.is_none(), "{spec:?} before {layer}: {difference:?}");
        }
    }
}

/// A CPU before a GPU: near the reference, and independent of chunks and of other rows.
#[test]
fn a_cpu_before_a_gpu() {
    let Some(gpu) = gpu() else { return };
    let reference = Cpu::reference();
    for layer in [0, 1] {
        let split = Split::new(vec![Arc::new(Cpu::new(2)), Arc::clone(&gpu)], vec![layer]).unwrap();
        let subject = Subject { backend: &split, reference: &reference, tolerance: 0.05 };
        subject.any_chunks(&[DType::Q4_0]);
        subject.sequences_do_not_mix();
        subject.copied_pages();
    }
}
