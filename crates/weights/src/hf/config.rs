//! `config.json`: one object of all keys of the language model, and its common sizes.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::json::{CONFIG_BYTES, Object, shown};
use crate::{Error, Problem};

/// Keys of transformers' configuration classes by `model_type`: "defaults" of keys that files may
/// omit, and "others" (transformers 5.24.0, Apache-2.0; `tests/fixtures/make_hf_classes.py` writes
/// the file).
const CLASSES: &str = include_str!("classes.json");

/// Keys of a multimodal configuration that hold the language model's.
const TEXT: &[&str] = &["text_config", "llm_config", "language_config", "lm_config"];

/// Classes of models with a vision tower around a text model of another class, whose `model_type`
/// tells it.
const AROUND: &[&str] = &[
    "Idefics3ForConditionalGeneration",
    "InternVLForConditionalGeneration",
    "LlavaForConditionalGeneration",
    "SmolVLMForConditionalGeneration",
];

/// Whether the output matrix is the embedding table.
const TIED: &str = "tie_word_embeddings";
/// Names of the number of layers.
const LAYERS: &[&str] = &["num_hidden_layers", "n_layer", "n_layers", "num_layers"];
/// Names of the list of the kinds of layers.
pub(super) const LAYER_TYPES: &[&str] = &["layer_types", "layers_block_type"];
/// The name of a string with a character for each layer's kind.
pub(super) const PATTERN: &str = "hybrid_override_pattern";
/// Names of the width of the residual stream.
const HIDDEN: &[&str] = &["hidden_size", "n_embd", "n_embed", "dim", "d_model"];
/// Names of the number of query heads.
const HEADS: &[&str] = &["num_attention_heads", "n_head", "n_heads"];

const MAX_LAYERS: usize = 10_000;

/// The keys of a language model, and what they call it. Its family follows from these, before a
/// size is read that other families may not have.
#[derive(Clone, Debug)]
pub(super) struct Stated {
    /// All keys: those of the language model, of the whole model, and defaults.
    pub(super) all: Object,
    /// `architectures[0]`, or empty.
    pub(super) class: String,
    /// `model_type`, or empty.
    pub(super) model_type: String,
    /// `model_type` of the multimodal model that the language model is a part of, or empty.
    outer_type: String,
}

/// The configuration of a language model.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// All keys: those of the language model, of the whole model, and defaults.
    pub(super) all: Object,
    /// `architectures[0]`, or empty.
    pub(super) class: String,
    /// `model_type`, or empty.
    pub(super) model_type: String,
    /// `model_type` of the multimodal model that the language model is a part of, or empty.
    outer_type: String,
    pub(super) layers: usize,
    pub(super) hidden: usize,
    pub(super) heads: usize,
    /// Width of a head.
    pub(super) head_dim: usize,
    /// Whether the output layer shares the token embedding.
    pub(super) tied: bool,
    /// Whether the configuration says that it does not; without a word a folder may lack the layer,
    /// which transformers ties then.
    pub(super) untied: bool,
}

impl Stated {
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let mut all = Object::read(path, CONFIG_BYTES)?;
        let mut class = class_of(&all)?;
        let mut outer_type = String::new();
        for key in TEXT {
            if let Some(text) = all.object(key)? {
                let is_around = class.as_deref().is_some_and(|class| AROUND.contains(&class));
                class = if is_around { None } else { class_of(&text)?.or(class) };
                outer_type = all.text(&["model_type"])?.unwrap_or_default().to_owned();
                // the whole model decides whether its output is the embedding
                let tied = all.get(TIED).cloned();
                all.extend(text);
                all.set(TIED, tied);
                break;
            }
        }
        let model_type = all.text(&["model_type"])?.unwrap_or_default().to_owned();
        let all = all.with_defaults(of_class(&model_type, "defaults"));
        Ok(Self { all, class: class.unwrap_or_default(), model_type, outer_type })
    }

    /// A model of which the sizes are known and nothing else.
    pub(super) fn of_sizes(all: Object) -> Self {
        let (class, model_type, outer_type) = Default::default();
        Self { all, class, model_type, outer_type }
    }

    /// `model_type` of the whole model.
    pub(super) fn whole_type(&self) -> &str {
        if self.outer_type.is_empty() { &self.model_type } else { &self.outer_type }
    }

    /// As [`Config::default_of`].
    pub(super) fn default_of(&self, key: &str) -> Option<Value> {
        default_of([&self.model_type, &self.outer_type], key)
    }
}

impl Config {
    /// Reads the sizes that all families have.
    pub(super) fn new(stated: Stated) -> Result<Self, Error> {
        let Stated { all, class, model_type, outer_type } = stated;
        // the kinds of layers count, if there are any, whatever the number of layers
        let layers = match (all.list("layers_block_type")?, all.text(&[PATTERN])?) {
            (Some(kinds), _) if !kinds.is_empty() => kinds.len(),
            (None, Some(pattern)) if !pattern.is_empty() => pattern.chars().count(),
            _ => all.required_size(LAYERS)?,
        };
        if layers > MAX_LAYERS {
            return Err(all.invalid("num_hidden_layers", layers, "at most 10000"));
        }
        let hidden = all.required_size(HIDDEN)?;
        let heads = all.required_size(HEADS)?;
        let head_dim = match all.size(&["head_dim"])? {
            Some(0) => return Err(all.invalid("head_dim", 0, "at least 1")),
            Some(head_dim) => head_dim,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                let expected = format!("a divisor of hidden_size {hidden}, as head_dim is missing");
                return Err(all.invalid("num_attention_heads", heads, &expected));
            }
        };
        let stated = all.flag(&[TIED])?;
        let (tied, untied) = (stated == Some(true), stated == Some(false));
        Ok(Self {
            all,
            class,
            model_type,
            outer_type,
            layers,
            hidden,
            heads,
            head_dim,
            tied,
            untied,
        })
    }

    /// Number of key-value heads; all heads if the configuration does not say.
    pub(super) fn kv_heads(&self) -> Result<usize, Error> {
        let names = &["num_key_value_heads", "n_kv_heads", "num_kv_heads", "n_head_kv"];
        Ok(self.all.size(names)?.unwrap_or(self.heads))
    }

    /// `layer_types`, one per layer.
    pub(super) fn layer_types(&self) -> Result<Option<Vec<&str>>, Error> {
        self.kinds_of_layers("layer_types")
    }

    /// The kinds of layers under a key, one per layer.
    pub(super) fn kinds_of_layers(&self, key: &str) -> Result<Option<Vec<&str>>, Error> {
        let Some(types) = self.all.list(key)? else { return Ok(None) };
        if types.len() < self.layers {
            let expected = format!("{}, the number of layers", self.layers);
            let found = format!("a list of {}", types.len());
            return Err(self.all.invalid(key, found, &expected));
        }
        types
            .iter()
            .take(self.layers)
            .map(|value| {
                value
                    .as_str()
                    .ok_or_else(|| self.all.invalid(key, shown(value), "a list of strings"))
            })
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The default of a key in transformers' class, null for lists and objects; `None` if the class
    /// does not have the key.
    pub(super) fn default_of(&self, key: &str) -> Option<Value> {
        default_of([&self.model_type, &self.outer_type], key)
    }

    /// Whether transformers' class of the language model has a key; yes for classes of other
    /// packages.
    pub(super) fn class_has(&self, key: &str) -> bool {
        let has = |part| of_class(&self.model_type, part).contains_key(key);
        has("defaults") || has("others") || of_class(&self.model_type, "others").is_empty()
    }

    pub(super) fn unsupported(&self, key: &str, found: impl ToString, expected: &str) -> Error {
        self.all.error(Problem::ConfigValue {
            key: key.to_owned(),
            found: found.to_string(),
            expected: expected.to_owned(),
        })
    }
}

fn class_of(object: &Object) -> Result<Option<String>, Error> {
    let Some(first) = object.list("architectures")?.and_then(<[Value]>::first) else {
        return Ok(None);
    };
    match first.as_str() {
        Some(class) => Ok(Some(class.to_owned())),
        None => Err(object.invalid("architectures", shown(first), "a list of strings")),
    }
}

fn default_of(types: [&str; 2], key: &str) -> Option<Value> {
    let mut parts = types.into_iter().flat_map(|name| ["defaults", "others"].map(|of| (name, of)));
    parts.find_map(|(name, part)| of_class(name, part).remove(key))
}

/// A part of what [`CLASSES`] says of a class.
fn of_class(model_type: &str, part: &str) -> Map<String, Value> {
    static ALL: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(CLASSES).unwrap_or_default());
    ALL[model_type][part].as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_have_their_keys() {
        let all: Map<String, Value> = serde_json::from_str(CLASSES).unwrap();
        assert!(all.values().all(|class| class["defaults"].is_object()));
        assert!(all.values().all(|class| class["others"].is_object()));
        assert_eq!(of_class("gemma3_text", "defaults")["head_dim"], 256);
        assert_eq!(of_class("gemma3_text", "others")["attention_bias"], false);
    }
}
