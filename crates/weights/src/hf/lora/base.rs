//! The names of the model that an adapter is for.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::hf::config::{Config, Stated};
use crate::hf::convert::Converter;
use crate::hf::families::{families_of, family_of};
use crate::hf::family::Family;
use crate::hf::json::Object;
use crate::hf::rules::How;
use crate::{Error, Metadata, Problem};

/// The model that an adapter is for.
pub(crate) struct Base<'a> {
    pub(crate) metadata: &'a Metadata,
    /// The directory of one that is a directory.
    pub(crate) folder: Option<&'a Path>,
    /// Whether it has a tensor of this name.
    pub(crate) has: &'a dyn Fn(&str) -> bool,
}

/// The place of a module's matrix in GGUF.
pub(super) struct Place<'a> {
    pub(super) config: &'a Config,
    /// `blk.N.`, or empty.
    pub(super) prefix: String,
    pub(super) tensor: String,
    pub(super) how: How,
}

/// The tables of names of the families that the model may be of.
pub(super) struct Names<'a> {
    base: &'a Base<'a>,
    /// The adapter's file, for errors.
    file: String,
    config: Config,
    families: Vec<&'static Family>,
}

impl<'a> Names<'a> {
    pub(super) fn of(base: &'a Base<'a>, file: &str) -> Result<Self, Error> {
        let file = file.to_owned();
        if let Some(folder) = base.folder {
            let stated = Stated::read(&folder.join("config.json"))?;
            let families = vec![family_of(&stated)?];
            return Ok(Self { base, file, config: Config::new(stated)?, families });
        }
        let architecture = base.metadata.string("general.architecture")?;
        let families: Vec<_> = families_of(architecture).collect();
        if families.is_empty() {
            let fault = format!(
                "is one of PEFT, whose names are not known for the architecture {architecture:?}: \
                 expected a GGUF adapter"
            );
            return Err(Error::new(&file, Problem::Adapter { fault }));
        }
        let config = Config::new(stated(base.metadata, architecture)?)?;
        Ok(Self { base, file, config, families })
    }

    /// The place of a module: by the first family with its name whose tensor the model has.
    pub(super) fn place_of(&self, module: &str) -> Result<Place<'_>, Problem> {
        let mut fault = None;
        for family in &self.families {
            let converter = Converter::new(family, &self.config, &self.file, HashMap::new());
            match converter.place_of(module) {
                Ok((prefix, tensor, how)) => {
                    let place = Place { config: &self.config, prefix, tensor, how };
                    // a matrix that is split in GGUF has no name of its own
                    let is_split = matches!(place.how, How::Parts(_));
                    if is_split || (self.base.has)(&place.tensor) {
                        return Ok(place);
                    }
                    let tensor = &place.tensor;
                    let missing = format!("is for {module:?}, and the model has no {tensor:?}");
                    fault = Some(Problem::Adapter { fault: missing });
                }
                Err(problem) => fault = fault.or(Some(problem)),
            }
        }
        Err(fault.unwrap_or_else(|| Problem::Adapter {
            fault: format!("is for {module:?}, which the model does not have"),
        }))
    }
}

/// The sizes of a GGUF file as `config.json` has them, as far as orders of rows depend on them.
fn stated(metadata: &Metadata, architecture: &str) -> Result<Stated, Error> {
    let mut map = Map::new();
    let value = |key: &str| -> Result<Option<usize>, Error> {
        match metadata.get(&format!("{architecture}.{key}")) {
            // one for each layer: no order of rows depends on it there
            Some(crate::Value::Array(_)) => Ok(None),
            _ => metadata.opt_usize(&format!("{architecture}.{key}")),
        }
    };
    let inner = value("ssm.inner_size")?;
    let values = value("ssm.time_step_rank")?.filter(|&heads| heads > 0);
    for (key, found) in [
        ("num_hidden_layers", value("block_count")?),
        ("hidden_size", value("embedding_length")?),
        // an array has the heads of each layer
        ("num_attention_heads", value("attention.head_count")?.or(Some(1))),
        ("num_key_value_heads", value("attention.head_count_kv")?),
        ("head_dim", value("attention.key_length")?),
        ("linear_num_key_heads", value("ssm.group_count")?),
        ("linear_key_head_dim", value("ssm.state_size")?),
        ("linear_num_value_heads", values),
        ("linear_value_head_dim", inner.zip(values).map(|(inner, heads)| inner / heads)),
    ] {
        if let Some(found) = found {
            map.insert(key.to_owned(), json!(found));
        }
    }
    // Falcon says how many key-value heads it has by these
    map.insert("new_decoder_architecture".to_owned(), Value::Bool(true));
    Ok(Stated::of_sizes(Object::new(metadata.file().into(), map)))
}
