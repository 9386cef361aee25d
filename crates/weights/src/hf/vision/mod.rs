//! The vision tower of a directory, as a checkpoint of its own under the keys and names of
//! llama.cpp's "mmproj" files.
//!
//! | module | content |
//! |---|---|
//! | `config` | the keys of `vision_config`, with the defaults of transformers' classes |
//! | `towers`, `rules` | the table of towers: their keys and the names of their tensors |
//! | `convert` | tensors under their names in GGUF |

mod config;
mod convert;
mod rules;
mod towers;

use std::path::Path;

use super::contents::{Contents, name_of};
use super::json::{CONFIG_BYTES, read};
use super::keys::Out;
use super::shards;
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
    out.set("clip.projector_type", tower.projector);
    vision.set_sizes(tower.width, &mut out)?;
    vision.check_activation(tower.activations)?;
    (tower.keys)(&vision, &mut out)?;
    vision.check_unread()?;
    if let Some((name, text)) = settings(folder)? {
        out.set(clip::SETTINGS, text.as_str());
        out.set(clip::SETTINGS_FILE, name.as_str());
    }
    Ok(Some(Contents { metadata: out.entries(), tensors, file_bytes: stored.file_bytes }))
}

/// The path and the text of the settings of pictures.
fn settings(folder: &Path) -> Result<Option<(String, String)>, Error> {
    for name in SETTINGS {
        let path = folder.join(name);
        if !path.is_file() {
            continue;
        }
        let bytes = read(&path, CONFIG_BYTES)?;
        let text = String::from_utf8(bytes.to_vec())
            .map_err(|fault| Error::at(&path, Problem::Json { fault: fault.to_string() }))?;
        return Ok(Some((path.display().to_string(), text)));
    }
    Ok(None)
}
