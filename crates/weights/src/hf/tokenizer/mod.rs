//! The tokenizer of a folder under GGUF's keys.

mod algorithm;
pub(super) mod contents;
mod plain;
pub(super) mod pre;
mod special;
mod template;
mod vocabulary;

use std::path::Path;

use super::config::Config;
use super::json::{CONFIG_BYTES, Object, TOKENIZER_BYTES, parse, parse_bytes, read};
use super::keys::Out;
use crate::Error;
use contents::{Contents, Vocab};

/// Sets `tokenizer.*`. A folder without `tokenizer.json` has no vocabulary: its model takes and
/// gives token ids.
pub(super) fn set(
    folder: &Path,
    config: &Config,
    architecture: &str,
    generation: Option<&Object>,
    out: &mut Out,
) -> Result<(), Error> {
    let settings = Object::read_if_present(&folder.join("tokenizer_config.json"), CONFIG_BYTES)?;
    let path = folder.join("tokenizer.json");
    if !path.is_file() {
        out.set("tokenizer.ggml.model", "no_vocab");
        template::set(folder, settings.as_ref(), out)?;
        return Ok(());
    }
    let file = read(&path, TOKENIZER_BYTES)?;
    let contents: Contents = parse_bytes(&path, &file)?;
    vocabulary::set(&path, &contents, file, config, architecture, out)?;
    special::set(&path, &contents, settings.as_ref(), config, generation, out)?;
    template::set(folder, settings.as_ref(), out)
}

/// The ids of tokens of the vocabulary, if the folder has one with all of them.
pub(super) fn ids<const N: usize>(
    folder: &Path,
    tokens: [&str; N],
) -> Result<Option<[u64; N]>, Error> {
    let path = folder.join("tokenizer.json");
    if !path.is_file() {
        return Ok(None);
    }
    let contents: Contents = parse(&path, TOKENIZER_BYTES)?;
    let Vocab::Ids(all) = &contents.model.vocab else { return Ok(None) };
    let id = |text: &str| all.iter().find(|(token, _)| token == text).map(|(_, id)| *id);
    let mut found = [0; N];
    for (slot, token) in found.iter_mut().zip(tokens) {
        let Some(id) = id(token) else { return Ok(None) };
        *slot = id;
    }
    Ok(Some(found))
}
