//! Hugging Face directories as a source of models: `config.json`, safetensors files and the
//! tokenizer, under the keys, names and layouts of GGUF.
//!
//! The keys and names are those of llama.cpp's converter (`conversion/` and `gguf-py` of
//! llama_cpp_python 0.3.36). A folder and its conversion are thus the same checkpoint, but for two
//! things. The rows of queries and keys keep the order of the file, and tensors that need no change
//! keep their type and stay memory-mapped.
//!
//! Tensors that have to be transposed, interleaved or expanded (FP8) are copied at load. An
//! `Object` of JSON remembers which keys were looked up, for `unread`.

mod common_keys;
mod config;
mod contents;
mod convert;
mod families;
mod family;
mod float8;
mod gather;
mod int8;
mod json;
mod keys;
pub(crate) mod lora;
mod mlx;
mod mxfp4;
mod names;
mod nvfp4;
mod packed;
mod reranker;
mod rope;
mod rope_tensors;
mod rules;
mod safetensors;
mod sampling;
mod sentence;
mod shards;
mod stored;
mod tokenizer;
mod transforms;
mod unread;
mod vision;
mod whisper;

use std::path::Path;

use crate::map::OpenFiles;
use crate::{Error, Problem};
use common_keys::COMMON;
use config::{Config, Stated};
use contents::name_of;
use convert::Converter;
use families::family_of;
use family::Family;
use json::{CONFIG_BYTES, Object};
use keys::Out;
use rope::{Rope, Scaling};

pub(crate) use contents::Contents;
pub(crate) use vision::{line_break, open as open_tower};

/// Reads a directory.
pub(crate) fn open(folder: &Path, files: &mut OpenFiles) -> Result<Contents, Error> {
    let stated = Stated::read(&folder.join("config.json"))?;
    if whisper::is_whisper(&stated) {
        return whisper::open(folder, &stated, files);
    }
    let family = family_of(&stated)?;
    let mut config = Config::new(stated)?;
    check_activation(family, &config)?;
    let rope = Rope::read(&config)?;
    check_yarn(family, &config, &rope)?;

    let architecture = family.architecture;
    let mut out = Out::default();
    out.set("general.architecture", architecture);
    out.set("general.type", "model");
    if let Some(name) = name_of(folder) {
        out.set("general.name", name.as_str());
    }
    out.apply(architecture, COMMON, &config, &rope)?;
    sentence::set_pooling(folder, architecture, &mut out)?;
    for keys in family.keys {
        out.apply(architecture, keys, &config, &rope)?;
    }
    let generation = Object::read_if_present(&folder.join("generation_config.json"), CONFIG_BYTES)?;
    if let Some(generation) = &generation {
        sampling::set(generation, &mut out)?;
    }
    tokenizer::set(folder, &config, architecture, generation.as_ref(), &mut out)?;

    let head_dim = match rope.scaling {
        Scaling::Proportional => families::full_head_dim(&config)?,
        _ => config.head_dim,
    };
    let mut tensors = rope_tensors::tensors(&config, &rope, head_dim)?;
    let mut stored = shards::open(folder, files)?;
    let file = folder.display().to_string();
    if reranker::is_reranker(folder, family, &config)? {
        tensors.push(reranker::head(folder, &mut config, &mut stored.by_name, &mut out)?);
    }
    tensors.extend(Converter::new(family, &config, &file, stored.by_name).tensors()?);
    unread::check(&config, architecture, &tensors)?;
    tensors.extend(sentence::dense(folder, architecture, &mut out, files)?);
    Ok(Contents { metadata: out.entries(), tensors, file_bytes: stored.file_bytes })
}

/// Rejects bounds of YaRN's blend that the architecture's graph does not compute; only gpt-oss does
/// not round them.
fn check_yarn(family: &Family, config: &Config, rope: &Rope) -> Result<(), Error> {
    let expected = family.architecture != "gpt-oss";
    match &rope.scaling {
        Scaling::Yarn(yarn) if yarn.truncate.unwrap_or(true) != expected => {
            let found = yarn.truncate.map_or("missing".to_owned(), |found| found.to_string());
            Err(config.unsupported("truncate", found, &expected.to_string()))
        }
        _ => Ok(()),
    }
}

/// Rejects an activation that the architecture's graph does not compute.
fn check_activation(family: &Family, config: &Config) -> Result<(), Error> {
    let names = ["hidden_activation", "hidden_act", "activation_function", "activation"];
    let Some((key, _)) = config.all.first(&names) else { return Ok(()) };
    let found = config.all.text(&[key])?.unwrap_or_default();
    if family.activations.is_empty() || family.activations.contains(&found) {
        return Ok(());
    }
    Err(config.all.error(Problem::ConfigValue {
        key: key.to_owned(),
        found: found.to_owned(),
        expected: family.activations.join(" or "),
    }))
}
