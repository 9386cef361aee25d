//! Vision towers on both paths, compared with PyPI `transformers`.

use pelton_cpu::Cpu;
use pelton_testing::towers::{equals_the_oracle, folder, text_equals_the_oracle};
use pelton_weights::Checkpoint;

/// The models of `tests/fixtures/vision`, and the token that stands for an embedding.
const MODELS: [(&str, u32); 12] = [
    ("gemma3", 109),
    ("gemma4", 109),
    ("gemma4-whole", 109),
    ("idefics3", 107),
    ("internvl", 109),
    ("mistral3", 107),
    ("pixtral", 107),
    ("qwen2-vl", 109),
    ("qwen2.5-vl", 109),
    ("qwen3-vl", 109),
    ("qwen3-vl-moe", 109),
    ("qwen3.5", 109),
];
/// The token of padding, whose further embeddings rows of pictures have (Gemma 4).
const PADDING: u32 = 3;
/// Those that llama.cpp has converted.
const CONVERTED: [&str; 5] = ["gemma3", "gemma4", "mistral3", "qwen2.5-vl", "qwen3-vl"];

fn paths() -> [(Cpu, f32); 2] {
    [(Cpu::reference(), 1e-4), (Cpu::new(2), 3e-4)]
}

#[test]
fn towers_of_directories_equal_transformers() {
    for (name, _) in MODELS {
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

#[test]
fn texts_with_pictures_equal_transformers() {
    // transformers saves the experts of this one in another order than the published files have
    for (name, picture) in MODELS.into_iter().filter(|(name, _)| *name != "qwen3-vl-moe") {
        for (backend, tolerance) in paths() {
            text_equals_the_oracle(&backend, name, [picture, PADDING], tolerance);
        }
    }
}
