//! The tower's file next to a GGUF file.

use std::path::Path;

use pelton_quant::DType;

use crate::{Checkpoint, Error, Keys, Problem, clip, folder};

/// Projectors and the architectures of text models that they join. Others join any.
const JOINED: &[(&str, &[&str])] = &[
    ("gemma3", &["gemma3"]),
    ("gemma4v", &["gemma4"]),
    ("idefics3", &["llama", "smollm3"]),
    ("pixtral", &["llama", "mistral3"]),
    ("qwen2vl_merger", &["qwen2vl"]),
    ("qwen2.5vl_merger", &["qwen2vl"]),
    ("qwen3vl_merger", &["qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe"]),
];

/// The tower of a model's folder that fits the model; `None` if there is none.
///
/// Files of one tower in several types are common. Then the one in BF16 is taken, or else in F16.
pub(super) fn tower_of(file: &Path, model: &Checkpoint) -> Result<Option<Checkpoint>, Error> {
    let Some(folder) = file.parent() else { return Ok(None) };
    let mut found: Vec<(usize, Checkpoint)> = Vec::new();
    for path in folder::projector_files(folder) {
        // a broken file of another model is no fault of this one
        let Ok(tower) = Checkpoint::open(&path) else { continue };
        if fits(&tower, model) {
            found.push((rank(&tower), tower));
        }
    }
    found.sort_by_key(|(rank, _)| *rank);
    let mut first = found.into_iter();
    match (first.next(), first.next()) {
        (Some((rank, tower)), Some((other, second))) if rank == other => {
            let found = format!("{} and {}", tower.name(), second.name());
            Err(model.metadata().error(Problem::SeveralTowers { found }))
        }
        (found, _) => Ok(found.map(|(_, tower)| tower)),
    }
}

fn fits(tower: &Checkpoint, model: &Checkpoint) -> bool {
    let Some(projector) = clip::projector(tower.metadata()) else { return false };
    let Ok(text) = Keys::new(model.metadata()) else { return false };
    let joined = JOINED.iter().find(|(name, _)| *name == projector);
    if joined.is_some_and(|(_, names)| !names.contains(&text.architecture())) {
        return false;
    }
    let size = |of: &Checkpoint, key: &str| of.metadata().opt_usize(key).ok().flatten();
    let width = size(tower, "clip.vision.projection_dim");
    width.is_some() && width == size(model, &text.key("embedding_length"))
}

/// The place of a file among the files of one tower, by the type of its matrices.
fn rank(tower: &Checkpoint) -> usize {
    let matrices = tower.tensors().filter(|tensor| tensor.name.starts_with("v.blk."));
    match matrices.filter(|tensor| tensor.rows() > 1).map(|tensor| tensor.dtype).next() {
        Some(DType::BF16) => 0,
        Some(DType::F16) => 1,
        Some(DType::F32) => 2,
        _ => 3,
    }
}
