//! The settings of a tower's pictures, in the form of transformers' files.
//!
//! A directory has them as a file. A GGUF file has some of the numbers; the family's published
//! settings stand for the others.

use std::path::Path;

use serde_json::{Value, json};

use crate::{Checkpoint, Error, Keys, MAX_SIZE, Problem, Source, clip};

/// The settings of a tower's pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisionSettings {
    /// The file that they are of, for messages.
    pub file: String,
    /// The text of a `preprocessor_config.json`, or of a `processor_config.json` with an
    /// `image_processor`.
    pub json: String,
}

/// Pixels of a picture, from the least to the most.
type Pixels = [usize; 2];

/// The bounds of Qwen2-VL and Qwen2.5-VL, and of Qwen3-VL and Qwen3.5.
const QWEN2: Pixels = [3_136, 12_845_056];
const QWEN3: Pixels = [65_536, 16_777_216];
/// Tiles of InternVL at most.
const TILES: usize = 12;
/// Embeddings of a picture of Gemma 4.
const BUDGET: usize = 280;

pub(super) fn of(tower: &Checkpoint) -> Result<VisionSettings, Error> {
    let metadata = tower.metadata();
    if let Some(text) = metadata.opt_string(clip::SETTINGS)? {
        let file = match tower.source() {
            Source::HuggingFace => {
                let name = metadata.string(clip::SETTINGS_FILE)?;
                Path::new(tower.name()).join(name).display().to_string()
            }
            _ => tower.name().to_owned(),
        };
        return Ok(VisionSettings { file, json: text.to_owned() });
    }
    if tower.source() == Source::HuggingFace {
        return Err(metadata.error(Problem::NoPictureSettings));
    }
    let keys = Keys::new(metadata)?;
    let projector = clip::projector(metadata).unwrap_or_default();
    let mut json = match projector {
        "gemma3" => {
            let side = size(&keys, "image_size")?;
            json!({
                "image_processor_type": "Gemma3ImageProcessor",
                "size": {"height": side, "width": side},
            })
        }
        "idefics3" => {
            let side = size(&keys, "image_size")?;
            let longest = opt(&keys, "preproc_image_size")?.unwrap_or(4 * side);
            json!({
                "image_processor_type": "Idefics3ImageProcessor",
                "size": {"longest_edge": longest},
                "max_image_size": {"longest_edge": side},
            })
        }
        "internvl" => {
            let side = size(&keys, "image_size")?;
            json!({
                "image_processor_type": "GotOcr2ImageProcessor",
                "size": {"height": side, "width": side},
                "min_patches": opt(&keys, "preproc_min_tiles")?.unwrap_or(1),
                "max_patches": opt(&keys, "preproc_max_tiles")?.unwrap_or(TILES),
            })
        }
        "qwen2vl_merger" | "qwen2.5vl_merger" => qwen(&keys, QWEN2)?,
        "qwen3vl_merger" => qwen(&keys, QWEN3)?,
        "pixtral" => json!({
            "image_processor_type": "PixtralImageProcessor",
            "size": {"longest_edge": size(&keys, "image_size")?},
        }),
        "gemma4v" | "gemma4uv" => json!({
            "image_processor_type": match projector {
                "gemma4v" => "Gemma4ImageProcessor",
                _ => "Gemma4UnifiedImageProcessor",
            },
            "patch_size": size(&keys, "patch_size")?,
            "pooling_kernel_size": opt(&keys, "projector.scale_factor")?.unwrap_or(3),
            "max_soft_tokens": BUDGET,
        }),
        other => {
            let tower = other.to_owned();
            return Err(metadata.error(Problem::UnknownTower { tower }));
        }
    };
    if !projector.starts_with("gemma4") {
        for (name, key) in [("image_mean", "image_mean"), ("image_std", "image_std")] {
            json[name] = channels(&keys, key)?;
        }
    }
    Ok(VisionSettings { file: tower.name().to_owned(), json: json.to_string() })
}

fn qwen(keys: &Keys<'_>, [least, most]: Pixels) -> Result<Value, Error> {
    Ok(json!({
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": size(keys, "patch_size")?,
        "temporal_patch_size": 2,
        "merge_size": opt(keys, "spatial_merge_size")?.unwrap_or(2),
        "size": {
            "shortest_edge": opt(keys, "image_min_pixels")?.unwrap_or(least),
            "longest_edge": opt(keys, "image_max_pixels")?.unwrap_or(most),
        },
    }))
}

fn size(keys: &Keys<'_>, name: &str) -> Result<usize, Error> {
    keys.size(&format!("vision.{name}"), MAX_SIZE)
}

fn opt(keys: &Keys<'_>, name: &str) -> Result<Option<usize>, Error> {
    keys.opt_nonzero(&format!("vision.{name}"), MAX_SIZE)
}

fn channels(keys: &Keys<'_>, name: &str) -> Result<Value, Error> {
    let name = format!("vision.{name}");
    let found = keys.metadata().opt_f32_array(&keys.key(&name))?.unwrap_or_default();
    match found.len() {
        3 => Ok(json!(found)),
        count => Err(keys.invalid(&name, format!("{count} numbers"), "3".to_owned())),
    }
}
