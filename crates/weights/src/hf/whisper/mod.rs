//! Directories of Whisper: two stacks of layers, tensors under OpenAI's names, special tokens that
//! files have only in part.

mod config;
mod generation;
mod tensors;
mod tokenizer;

use std::path::Path;

use super::config::Stated;
use super::contents::{Contents, name_of};
use super::json::{CONFIG_BYTES, Object};
use super::{shards, unread};
use crate::map::OpenFiles;
use crate::metadata::Entries;
use crate::value::array;
use crate::whisper::{ALIGNMENT_HEADS, ARCHITECTURE, known_heads};
use crate::{Error, ValueType};

/// Values of `architectures[0]`.
pub(super) const CLASSES: [&str; 2] = ["WhisperForConditionalGeneration", "WhisperModel"];

/// Whether a configuration is one of Whisper.
pub(super) fn is_whisper(stated: &Stated) -> bool {
    match stated.class.as_str() {
        "" => stated.model_type == ARCHITECTURE,
        class => CLASSES.contains(&class),
    }
}

/// Reads a directory.
pub(super) fn open(
    folder: &Path,
    stated: &Stated,
    files: &mut OpenFiles,
) -> Result<Contents, Error> {
    let sizes = config::sizes(&stated.all)?;
    config::check_features(folder, &sizes)?;
    let tokens = tokenizer::read(folder, sizes.vocab)?;
    let path = folder.join("generation_config.json");
    let generation = Object::read_if_present(&path, CONFIG_BYTES)?;
    let heads = match &generation {
        Some(generation) => {
            generation::check_ids(generation, &tokens)?;
            generation::alignment_heads(generation, &sizes)?
        }
        None => None,
    };

    let mut metadata = Entries::default();
    metadata.insert("general.architecture", ARCHITECTURE.into());
    metadata.insert("general.type", "model".into());
    if let Some(name) = name_of(folder) {
        metadata.insert("general.name", name.into());
    }
    sizes.set(&mut metadata);
    if let Some(heads) = heads.or_else(|| known_heads(&sizes)) {
        metadata.insert(ALIGNMENT_HEADS, array(ValueType::I32, heads));
    }
    tokens.set(&mut metadata);
    let stored = shards::open(folder, files)?;
    let file = folder.display().to_string();
    let tensors =
        tensors::convert(stored.by_name, &sizes).map_err(|problem| Error::new(&file, problem))?;
    unread::check_keys(&stated.all, |key| stated.default_of(key))?;
    Ok(Contents { metadata, tensors, file_bytes: stored.file_bytes })
}
