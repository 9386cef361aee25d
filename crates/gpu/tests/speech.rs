//! Whisper's plan on a GPU: compared with openai-whisper, with the reference path, and with
//! itself in other batches.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_cpu::Cpu;
use pelton_gpu::{Gpu, adapters};
use pelton_testing::{Need, skip, speech};

fn on_gpu(test: impl FnOnce(&Gpu)) {
    match adapters().into_iter().next() {
        Some(adapter) => test(&Gpu::open_checked(&adapter).unwrap()),
        None => skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software"),
    }
}

#[test]
fn equals_openai_whisper() {
    on_gpu(|gpu| speech::equals_the_oracle(gpu, 80));
}

#[test]
fn equals_reference() {
    on_gpu(|gpu| speech::equals_reference(gpu, &Cpu::reference(), [1e-4, 4e-3, 5e-2]));
}

#[test]
fn batches_of_windows_change_nothing() {
    on_gpu(|gpu| speech::batches_change_nothing(&[gpu]));
}
