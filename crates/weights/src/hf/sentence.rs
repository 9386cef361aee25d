//! Modules of sentence-transformers: pooling and dense layers after it.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::json::{CONFIG_BYTES, Object, parse};
use super::keys::Out;
use super::safetensors;
use crate::gguf::TensorEntry;
use crate::map::OpenFiles;
use crate::{Error, Problem};

/// The folders of the modules of a kind, by `modules.json`.
fn folders(folder: &Path, kind: &str) -> Result<Vec<PathBuf>, Error> {
    let path = folder.join("modules.json");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let modules: Vec<Json> = parse(&path, CONFIG_BYTES)?;
    let mut folders = Vec::new();
    for module in modules {
        let text = |key: &str| module.get(key).and_then(Json::as_str);
        let (Some(class), Some(place)) = (text("type"), text("path")) else { continue };
        if !class.ends_with(kind) {
            continue;
        }
        // The path is a folder next to the file, or empty for the folder itself.
        if Path::new(place).components().count() > 1
            || place.contains(['/', '\\', ':'])
            || place == ".."
        {
            return Err(Error::at(
                &path,
                Problem::ConfigValue {
                    key: "path".to_owned(),
                    found: format!("{place:?}"),
                    expected: "the name of a folder".to_owned(),
                },
            ));
        }
        folders.push(folder.join(place));
    }
    Ok(folders)
}

/// Sets `pooling_type`: 1 mean, 2 first token, 3 last token.
pub(super) fn set_pooling(folder: &Path, architecture: &str, out: &mut Out) -> Result<(), Error> {
    let Some(pooling) = folders(folder, "Pooling")?.into_iter().next() else { return Ok(()) };
    let config = Object::read(&pooling.join("config.json"), CONFIG_BYTES)?;
    let is = |key: &str| -> Result<bool, Error> { Ok(config.flag(&[key])? == Some(true)) };
    let mode = if is("pooling_mode_mean_tokens")? {
        1u32
    } else if is("pooling_mode_cls_token")? {
        2
    } else if is("pooling_mode_lasttoken")? {
        3
    } else {
        match config.text(&["pooling_mode"])? {
            Some("mean") => 1,
            Some("cls") => 2,
            Some("lasttoken") => 3,
            other => {
                let found = other.unwrap_or("missing");
                return Err(config.invalid("pooling_mode", found, "mean, cls or lasttoken"));
            }
        }
    };
    out.set(&format!("{architecture}.pooling_type"), mode);
    Ok(())
}

/// The linear layers after pooling as `dense_2` and `dense_3`, with keys for their widths.
/// Biases and activations have no place in GGUF and are rejected.
pub(super) fn dense(
    folder: &Path,
    architecture: &str,
    out: &mut Out,
    files: &mut OpenFiles,
) -> Result<Vec<TensorEntry>, Error> {
    let mut tensors = Vec::new();
    for (module, name) in folders(folder, "Dense")?.into_iter().zip(["dense_2", "dense_3"]) {
        let config = Object::read(&module.join("config.json"), CONFIG_BYTES)?;
        let activation = config.text(&["activation_function"])?.unwrap_or("Identity");
        if !activation.ends_with("Identity") {
            return Err(config.invalid("activation_function", activation, "Identity"));
        }
        let inputs = config.required_size(&["in_features"])?;
        let outputs = config.required_size(&["out_features"])?;
        out.set(&format!("{architecture}.{name}_feat_in"), inputs as u32);
        out.set(&format!("{architecture}.{name}_feat_out"), outputs as u32);

        let path = module.join("model.safetensors");
        let rejected = |problem| Error::at(&path, problem);
        let bytes = files.map(&path).map_err(rejected)?;
        for source in safetensors::parse(&bytes).map_err(rejected)? {
            let fault = |fault: String| {
                rejected(Problem::SafetensorsTensor { tensor: source.name.clone(), fault })
            };
            if source.name != "linear.weight" {
                return Err(fault("is not known of a dense layer".to_owned()));
            }
            if source.shape != [outputs, inputs] {
                let expected = format!("expected [{outputs}, {inputs}]");
                return Err(fault(format!("has shape {:?}, {expected}", source.shape)));
            }
            let dtype = source.stored.dtype().ok_or_else(|| {
                fault(format!("has type {:?}, expected F32, F16 or BF16", source.stored))
            })?;
            let name = format!("{name}.weight");
            let tensor = TensorEntry::new(name, dtype, &[inputs, outputs], source.bytes.clone());
            tensors.push(tensor.ok_or_else(|| fault("has no elements".to_owned()))?);
        }
    }
    Ok(tensors)
}
