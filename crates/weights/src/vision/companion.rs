//! The tower's file next to a GGUF file.

use std::path::{Path, PathBuf};

use pelton_quant::DType;

use crate::{Checkpoint, Error, Keys, Problem, clip, folder};

/// Projectors and the architectures of text models that they join. Others join any.
const JOINED: &[(&str, &[&str])] = &[
    ("gemma3", &["gemma3"]),
    ("gemma4v", &["gemma4"]),
    ("gemma4uv", &["gemma4"]),
    ("idefics3", &["llama", "smollm3"]),
    ("pixtral", &["llama", "mistral3"]),
    ("qwen2vl_merger", &["qwen2vl"]),
    ("qwen2.5vl_merger", &["qwen2vl"]),
    ("qwen3vl_merger", &["qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe"]),
];

/// The tower of a model's folder that fits the model, or of the folder above it; `None` if there is
/// none.
///
/// The file `mmproj-NAME` of a model's file NAME is taken, as `pelton convert` writes it. Files of
/// one tower in several types are common. Then the one in BF16 is taken, or else in F16.
pub(super) fn tower_of(file: &Path, model: &Checkpoint) -> Result<Option<Checkpoint>, Error> {
    // a name alone has no folder
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let Some(folder) = file.parent() else { return Ok(None) };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let own = folder.join(format!("mmproj-{name}"));
    let here = folder::projector_files(folder);
    let mut found = fitting(&here, &own, model);
    if found.is_empty() {
        // repositories have folders for types, and one tower above them
        let mut above = folder.parent().map(folder::projector_files).unwrap_or_default();
        above.retain(|path| path.to_string_lossy().to_ascii_lowercase().contains("mmproj"));
        found = fitting(&above, &own, model);
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

/// The files that are a tower of the model, each with its place among them.
fn fitting(files: &[PathBuf], own: &Path, model: &Checkpoint) -> Vec<(usize, Checkpoint)> {
    // a broken file of another model is no fault of this one
    let opened = files.iter().filter_map(|path| Some((path, Checkpoint::open(path).ok()?)));
    let fitting = opened.filter(|(_, tower)| fits(tower, model));
    fitting.map(|(path, tower)| (if path == own { 0 } else { rank(&tower) }, tower)).collect()
}

/// The architectures of text models that a projector joins; none of one that joins any.
pub(super) fn joined(projector: &str) -> &'static [&'static str] {
    JOINED.iter().find(|(name, _)| *name == projector).map_or(&[], |(_, names)| *names)
}

fn fits(tower: &Checkpoint, model: &Checkpoint) -> bool {
    let Some(projector) = clip::projector(tower.metadata()) else { return false };
    let Ok(text) = Keys::new(model.metadata()) else { return false };
    let joined = joined(projector);
    if !joined.is_empty() && !joined.contains(&text.architecture()) {
        return false;
    }
    let size = |of: &Checkpoint, key: &str| of.metadata().opt_usize(key).ok().flatten();
    let width = size(tower, "clip.vision.projection_dim");
    width.is_some() && width == size(model, &text.key("embedding_length"))
}

/// The place of a file among the files of one tower, by the type of its matrices, from 1 on.
fn rank(tower: &Checkpoint) -> usize {
    let matrices = tower.tensors().filter(|tensor| tensor.name.starts_with("v.blk."));
    match matrices.filter(|tensor| tensor.rows() > 1).map(|tensor| tensor.dtype).next() {
        Some(DType::BF16) => 1,
        Some(DType::F16) => 2,
        Some(DType::F32) => 3,
        _ => 4,
    }
}
