//! Vision towers on both paths, compared with PyPI `transformers`.

use pelton_cpu::Cpu;
use pelton_testing::towers::{MODELS, Model, equals_the_oracle, folder, text_equals_the_oracle};
use pelton_weights::Checkpoint;

/// The token of padding, whose further embeddings rows of pictures have (Gemma 4).
const PADDING: u32 = 3;
fn paths() -> [(Cpu, f32); 2] {
    [(Cpu::reference(), 1e-4), (Cpu::new(2), 3e-4)]
}

#[test]
fn towers_of_directories_equal_transformers() {
    for name in MODELS.map(|model| model.name) {
        for (backend, tolerance) in paths() {
            let tower = Checkpoint::open_tower(folder(name)).unwrap().unwrap();
            equals_the_oracle(&backend, name, tower, tolerance);
        }
    }
}

#[test]
fn towers_of_files_equal_transformers() {
    for name in MODELS.iter().filter(|model| model.is_converted).map(|model| model.name) {
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
    for Model { name, picture, .. } in MODELS {
        for (backend, tolerance) in paths() {
            text_equals_the_oracle(&backend, name, [picture, PADDING], tolerance);
        }
    }
}
