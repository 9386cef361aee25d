//! Vision towers on both paths, compared with PyPI `transformers`.

use pelton_cpu::Cpu;
use pelton_testing::towers::{equals_the_oracle, folder};
use pelton_weights::Checkpoint;

/// The models of `tests/fixtures/vision`.
const MODELS: [&str; 11] = [
    "gemma3",
    "gemma4",
    "gemma4-whole",
    "idefics3",
    "internvl",
    "mistral3",
    "pixtral",
    "qwen2-vl",
    "qwen2.5-vl",
    "qwen3-vl",
    "qwen3.5",
];
/// Those that llama.cpp has converted.
const CONVERTED: [&str; 5] = ["gemma3", "gemma4", "mistral3", "qwen2.5-vl", "qwen3-vl"];

fn paths() -> [(Cpu, f32); 2] {
    [(Cpu::reference(), 1e-4), (Cpu::new(2), 3e-4)]
}

#[test]
fn towers_of_directories_equal_transformers() {
    for name in MODELS {
        for (backend, tolerance) in paths() {
            let tower = Checkpoint::open_tower(folder(name)).unwrap().unwrap();
            equals_the_oracle(&backend, name, tower, tolerance);
        }
    }
}

#[test]
fn towers_of_files_equal_transformers() {
    for name in CONVERTED {
        // one matrix is F16 in such files
        for (backend, _) in paths() {
            let file = folder(name).join("mmproj.gguf");
            let tower = Checkpoint::open_tower(file).unwrap().unwrap();
            equals_the_oracle(&backend, name, tower, 1e-3);
        }
    }
}
