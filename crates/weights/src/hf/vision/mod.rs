//! The vision tower of a directory, as a checkpoint of its own under the keys and names of
//! llama.cpp's "mmproj" files.
//!
//! | module | content |
//! |---|---|
//! | `config` | the keys of `vision_config`, with the defaults of transformers' classes |
//! | `towers`, `rules` | the table of towers: their keys and the names of their tensors |
//! | `pictures` | the keys of GGUF that the settings of pictures have |
//! | `convert` | tensors under their names in GGUF |

mod config;
mod convert;
mod pictures;
mod rules;
mod towers;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::contents::{Contents, name_of};
use super::gather::View;
use super::json::{CONFIG_BYTES, TOKENIZER_BYTES, parse, read};
use super::keys::Out;
use super::shards;
use crate::gguf::TensorEntry;
use crate::map::OpenFiles;
use crate::{Error, Problem, clip};
use config::Vision;

/// The files of the settings of pictures, the first of which counts.
const SETTINGS: [&str; 2] = ["preprocessor_config.json", "processor_config.json"];

/// Reads the tower of a directory; `None` if its model has none.
pub(crate) fn open(folder: &Path, files: &mut OpenFiles) -> Result<Option<Contents>, Error> {
    let Some(vision) = Vision::read(&folder.join("config.json"))? else { return Ok(None) };
    let tower = towers::tower_of(&vision)?;
    let stored = shards::open(folder, files)?;
    let file = folder.display().to_string();
    let tensors = convert::tensors(tower, &vision.deepstack()?, &stored.by_name)
        .map_err(|problem| Error::new(&file, problem))?;
    if tensors.is_empty() {
        return Ok(None);
    }
    let mut out = Out::default();
    out.set("general.architecture", clip::ARCHITECTURE);
    out.set("general.type", "mmproj");
    if let Some(name) = name_of(folder) {
        out.set("general.name", name.as_str());
    }
    out.set("clip.has_vision_encoder", true);
    out.set(tower.projector_key, tower.projector);
    if let Some(key) = tower.activation_key {
        out.set(key, true);
    }
    vision.set_sizes(tower.width, tower.has_layers, &mut out)?;
    vision.check_activation(tower.activations)?;
    (tower.keys)(&vision, &mut out)?;
    vision.check_unread()?;
    if let Some((path, text)) = settings(folder)? {
        pictures::set(&path, &text, tower.projector, &mut out)?;
        out.set(clip::SETTINGS, text.as_str());
        let name = path.file_name().unwrap_or_default();
        out.set(clip::SETTINGS_FILE, &*name.to_string_lossy());
    }
    Ok(Some(Contents { metadata: out.entries(), tensors, file_bytes: stored.file_bytes }))
}

/// The path and the text of the settings of pictures.
fn settings(folder: &Path) -> Result<Option<(PathBuf, String)>, Error> {
    for name in SETTINGS {
        let path = folder.join(name);
        if !path.is_file() {
            continue;
        }
        let bytes = read(&path, CONFIG_BYTES)?;
        let text = String::from_utf8(bytes.to_vec())
            .map_err(|fault| Error::at(&path, Problem::Json { fault: fault.to_string() }))?;
        return Ok(Some((path, text)));
    }
    Ok(None)
}

/// The embedding of the token that ends a line of a picture, which llama.cpp reads from a tower's
/// file (Pixtral). `None` if the text has no such token, or has it in a quantized form.
pub(crate) fn line_break(
    folder: &Path,
    files: &mut OpenFiles,
) -> Result<Option<TensorEntry>, Error> {
    let tokenizer: Value = parse(&folder.join("tokenizer.json"), TOKENIZER_BYTES)?;
    let added = tokenizer["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
    let is_break = |token: &&Value| token["content"] == "[IMG_BREAK]";
    let id = added.iter().find(is_break).and_then(|token| token["id"].as_u64());
    let stored = shards::open(folder, files)?.by_name;
    let table = stored.values().find(|source| source.name.ends_with("embed_tokens.weight"));
    let (Some(id), Some(table)) = (id, table) else { return Ok(None) };
    let (Some(dtype), &[rows, width]) = (table.stored.dtype(), table.shape.as_slice()) else {
        return Ok(None);
    };
    let Some(id) = usize::try_from(id).ok().filter(|id| *id < rows) else {
        let fault = format!("has {rows} rows, expected the row {id} of [IMG_BREAK]");
        return Err(Error::at(folder, table.fault(fault)));
    };
    let bytes = View::new(&table.shape).narrow(0, id, 1).take(&table.bytes, dtype.block_bytes());
    let made = table.entry("v.token_embd.img_break".to_owned(), dtype, &[width], bytes);
    made.map(Some).map_err(|problem| Error::at(folder, problem))
}
