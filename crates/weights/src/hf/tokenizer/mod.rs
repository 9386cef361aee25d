//! The tokenizer of a folder under GGUF's keys.

mod contents;
mod pre;
mod special;
mod template;
mod vocabulary;

use std::path::Path;

use super::config::Config;
use super::json::{CONFIG_BYTES, Object, TOKENIZER_BYTES, parse};
use super::keys::Out;
use crate::Error;
use contents::Contents;

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
    let contents: Contents = parse(&path, TOKENIZER_BYTES)?;
    vocabulary::set(&path, &contents, config, architecture, out)?;
    special::set(&contents, settings.as_ref(), config, generation, out)?;
    template::set(folder, settings.as_ref(), out)
}
