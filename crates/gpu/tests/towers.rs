//! Vision towers, compared with PyPI `transformers`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_gpu::{Gpu, adapters};
use pelton_testing::{
    Need, skip,
    towers::{equals_the_oracle, folder},
};
use pelton_weights::Checkpoint;

/// Towers of every kind: the pools, folds, rotations, windows, clamps and slices that there are.
const MODELS: [&str; 9] = [
    "gemma3",
    "gemma4",
    "idefics3",
    "internvl",
    "mistral3",
    "pixtral",
    "qwen2-vl",
    "qwen2.5-vl",
    "qwen3-vl",
];

#[test]
fn towers_equal_transformers() {
    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let backend = Gpu::open_checked(&adapter).unwrap();
    for name in MODELS {
        let tower = Checkpoint::open_tower(folder(name)).unwrap().unwrap();
        equals_the_oracle(&backend, name, tower, 1e-3);
    }
}
