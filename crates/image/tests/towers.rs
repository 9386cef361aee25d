//! The settings of the tiny vision models of `tests/fixtures/vision`, and the patches that they
//! make of pictures, compared with transformers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

use std::fs;
use std::path::Path;

use pelton_graph::build_tower;
use pelton_image::{Bounds, Job, Limits, Preprocessor, Tower, decode};
use pelton_testing::{
    npy,
    towers::{MODELS, folder},
};
use pelton_weights::Checkpoint;

/// The preprocessing of the tower that a path leads to.
fn preprocessor(path: &Path) -> Preprocessor {
    let checkpoint = Checkpoint::open_tower(path).unwrap().unwrap();
    let plans = build_tower(&checkpoint).unwrap();
    let settings = checkpoint.vision_settings().unwrap();
    let tower = Tower { patch: plans.patch, merge: plans.merge };
    Preprocessor::from_json(&settings.file, &settings.json, tower)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Compares the patches of a model's pictures.
fn equals_transformers(name: &str, path: &Path) {
    let preprocessor = preprocessor(path);
    let folder = folder(name);
    let (mut pixels, mut grids) = (Vec::new(), Vec::new());
    for i in 0.. {
        let Ok(bytes) = fs::read(folder.join(format!("{i}.png"))) else { break };
        let job = Job::new("a picture", Limits::default(), &|| false);
        let picture = decode(&bytes, &job).unwrap();
        let (width, height) = (picture.width(), picture.height());
        let plan = preprocessor.plan(width, height, Bounds::default(), "it").unwrap();
        let prepared = preprocessor.prepare(&picture, &plan, &job).unwrap();
        pixels.extend(prepared.pixels);
        grids.extend(prepared.grids.iter().flat_map(|grid| [grid.rows, grid.columns]));
    }
    assert_eq!(grids, npy::integers(folder.join("grids.npy")), "{name}");
    let expected = npy::floats(folder.join("pixels.npy"));
    assert_eq!(pixels.len(), expected.len(), "{name}");
    let differences = pixels.iter().zip(&expected).map(|(a, b)| (a - b).abs());
    let greatest = differences.fold(0.0, f32::max);
    assert!(greatest < 1e-5, "{name}: pixels differ by {greatest}");
}

#[test]
fn directories_have_their_settings() {
    for name in MODELS.map(|model| model.name) {
        equals_transformers(name, &folder(name));
    }
}

/// Files state the sizes of some towers. Those of others follow from the published settings, which
/// differ from those of the tiny models.
#[test]
fn files_have_the_settings_of_their_keys() {
    for name in ["gemma3", "idefics3", "mistral3"] {
        equals_transformers(name, &folder(name).join("mmproj.gguf"));
    }
    for name in ["gemma4", "internvl", "pixtral", "qwen2-vl", "qwen2.5-vl", "qwen3-vl"] {
        preprocessor(&folder(name).join("mmproj.gguf"));
    }
}
