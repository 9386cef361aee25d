//! The conversion: reads a directory and writes a GGUF file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pelton_quant::DType;
use pelton_weights::GgufWriter;
use safetensors::SafeTensors;
use serde_json::Value;

use crate::config::{Config, Object};
use crate::tensors::{encoded, place, plan, rope_divisors};
use crate::tokenizer;

/// Options of a conversion.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Element type of the matrices.
    pub(crate) dtype: DType,
    /// `tokenizer.ggml.pre`; required if there is a `tokenizer.json`.
    pub(crate) pre: Option<String>,
}

/// Converts the model in `directory` to the file `output`.
pub(crate) fn convert(directory: &Path, output: &Path, options: &Options) -> Result<()> {
    let config = Config::read(&directory.join("config.json"))?;
    let mut out = GgufWriter::new();
    config.set_keys(&mut out)?;
    out.set("general.type", "model")?;
    out.set("general.file_type", file_type(options.dtype))?;
    // The version of the block layouts, `GGML_QNT_VERSION` in ggml.h.
    out.set("general.quantization_version", 2u32)?;
    tokenizer::set_keys(&mut out, directory, &config, options.pre.as_deref())?;

    let shards: Vec<Vec<u8>> = shard_paths(directory)?
        .iter()
        .map(|path| fs::read(path).with_context(|| path.display().to_string()))
        .collect::<Result<_>>()?;
    let shards: Vec<SafeTensors<'_>> =
        shards.iter().map(|bytes| SafeTensors::deserialize(bytes)).collect::<Result<_, _>>()?;

    let divisors = rope_divisors(&config);
    if let Some(divisors) = &divisors {
        out.declare("rope_freqs.weight", DType::F32, &[divisors.len()])?;
    }
    let mut planned = Vec::new();
    for shard in &shards {
        for (source, view) in shard.iter() {
            if let Some(tensor) = plan(source, &view, &config, options.dtype)? {
                planned.push((tensor, view));
            }
        }
    }
    // Tensors are written in the order of a forward pass; the order in a shard is arbitrary.
    planned.sort_by_cached_key(|(tensor, _)| (place(&tensor.name), tensor.name.clone()));
    for (tensor, _) in &planned {
        out.declare(&tensor.name, tensor.dtype, &tensor.shape)?;
    }
    let has = |name: &str| planned.iter().any(|(tensor, _)| tensor.name == name);
    ensure!(has("token_embd.weight"), "model.embed_tokens.weight is missing");
    ensure!(config.tied || has("output.weight"), "lm_head.weight is missing");

    let file = File::create(output).with_context(|| output.display().to_string())?;
    let mut body = out.begin(BufWriter::new(file))?;
    if let Some(divisors) = divisors {
        let bytes: Vec<_> = divisors.iter().flat_map(|divisor| divisor.to_le_bytes()).collect();
        body.write(&bytes)?;
    }
    for (tensor, view) in &planned {
        body.write(&encoded(tensor, view)?)?;
    }
    body.finish()?;
    Ok(())
}

/// `general.file_type`: `enum llama_ftype` in llama.h.
fn file_type(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => 1,
        DType::Q8_0 => 7,
        DType::BF16 => 32,
        _ => 0,
    }
}

/// Paths of the files with the tensors.
fn shard_paths(directory: &Path) -> Result<Vec<PathBuf>> {
    let index = directory.join("model.safetensors.index.json");
    if !index.is_file() {
        return Ok(vec![directory.join("model.safetensors")]);
    }
    let map = Object::read(&index)?.get("weight_map").cloned().context("no weight_map")?;
    let names: BTreeSet<_> = map
        .as_object()
        .context("weight_map is not an object")?
        .values()
        .map(|name| name.as_str().map(str::to_owned).context("a file name is not a string"))
        .collect::<Result<_>>()?;
    ensure!(
        names.iter().all(|name| Path::new(name).file_name() == Some(name.as_ref())),
        "weight_map names a file in another folder"
    );
    Ok(names.iter().map(|name| directory.join(name)).collect())
}

/// A JSON string, or the string in an object's `content`: special tokens occur in both forms.
pub(crate) fn text_of(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}
