//! Vision towers, compared with PyPI `transformers`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_gpu::{Gpu, adapters};
use pelton_testing::{
    Need, skip,
    towers::{MODELS, equals_the_oracle, folder},
};
use pelton_weights::Checkpoint;

#[test]
fn towers_equal_transformers() {
    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let backend = Gpu::open_checked(&adapter).unwrap();
    for name in MODELS.map(|model| model.name) {
        let tower = Checkpoint::open_tower(folder(name)).unwrap().unwrap();
        equals_the_oracle(&backend, name, tower, 1e-3);
    }
}

/// The kernels for decoding rows are tried with tokens of the vocabulary, and towers have none.
#[test]
fn towers_load_where_kernels_for_decoding_are_tried() {
    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let backend = Gpu::open_checked(&adapter).unwrap().with_persistent(1, 1000, 1);
    let tower = Checkpoint::open_tower(folder("qwen2.5-vl")).unwrap().unwrap();
    equals_the_oracle(&backend, "qwen2.5-vl", tower, 1e-3);
    assert_eq!(backend.persistent_passes(), 0);
}
