//! The keys of GGUF that the settings of pictures have.

use std::path::Path;

use serde_json::{Map, Value};

use super::super::json::{Object, parse_bytes, shown};
use super::super::keys::{Out, array};
use super::config::set as set_size;
use crate::{Error, ValueType};

/// Colours of a pixel.
const CHANNELS: usize = 3;

/// Sets the keys that a settings file has; `text` is its text.
pub(super) fn set(path: &Path, text: &str, projector: &str, out: &mut Out) -> Result<(), Error> {
    let map: Map<String, Value> = parse_bytes(path, text.as_bytes())?;
    let all = Object::new(path.display().to_string().into(), map);
    let settings = all.object("image_processor")?.unwrap_or(all);
    for (key, default) in [("image_mean", 0.0), ("image_std", 1.0)] {
        let values = match settings.get(key) {
            Some(values) => channels(&settings, key, values)?,
            // the model has its own
            None if projector.starts_with("gemma4") => vec![default; CHANNELS],
            None => continue,
        };
        out.set(&format!("clip.vision.{key}"), array(ValueType::F32, values));
    }
    let size = |key: &str| settings.size(&[key]);
    match projector {
        "idefics3" => {
            if let Some(sizes) = settings.object("size")?
                && let Some(longest) = sizes.size(&["longest_edge"])?
            {
                set_size(out, "preproc_image_size", longest);
            }
        }
        "internvl" => {
            let keys = [("preproc_min_tiles", "min_patches"), ("preproc_max_tiles", "max_patches")];
            for (key, name) in keys {
                if let Some(tiles) = size(name)? {
                    set_size(out, key, tiles);
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// A number for each colour.
fn channels(settings: &Object, key: &str, values: &Value) -> Result<Vec<f32>, Error> {
    let numbers = values.as_array().map_or(&[][..], Vec::as_slice);
    let numbers: Vec<_> = numbers.iter().filter_map(Value::as_f64).map(|x| x as f32).collect();
    match numbers.len() {
        CHANNELS if numbers.iter().all(|number| number.is_finite()) => Ok(numbers),
        _ => Err(settings.invalid(key, shown(values), "three numbers")),
    }
}
