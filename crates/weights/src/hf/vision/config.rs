//! The keys of a vision tower in `config.json`.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::super::config::Stated;
use super::super::json::{Object, shown};
use super::super::keys::Out;
use super::super::unread;
use crate::Error;

/// Keys of transformers' configurations of towers with their defaults (transformers 5.24.0,
/// Apache-2.0; `tests/fixtures/make_vision_classes.py` writes the file).
const CLASSES: &str = include_str!("classes.json");

/// Keys of published files that change nothing: the tower has no head, and sizes of pictures are
/// those of the picture settings.
const DISREGARDED: &[&str] =
    &["vision_use_head", "max_image_size", "size", "use_base_siglip", "tie_word_embeddings"];

/// The keys of a tower, and what its model calls itself.
pub(super) struct Vision {
    /// The keys of `vision_config`.
    pub(super) keys: Object,
    /// The keys of the whole model, those of the language model among them.
    pub(super) model: Object,
    /// `model_type` of the whole model.
    pub(super) model_type: String,
    /// `model_type` of `vision_config`, or empty.
    pub(super) vision_type: String,
    class: Map<String, Value>,
}

impl Vision {
    /// Reads a `config.json`; `None` if it has no tower.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Error> {
        let stated = Stated::read(path)?;
        let Some(keys) = stated.all.object("vision_config")? else { return Ok(None) };
        let model_type = stated.whole_type().to_owned();
        let vision_type = keys.text(&["model_type"])?.unwrap_or_default().to_owned();
        let class = class_of(&vision_type).or_else(|| class_of(&model_type)).unwrap_or_default();
        let keys = keys.with_defaults(class.clone());
        Ok(Some(Self { keys, model: stated.all, model_type, vision_type, class }))
    }

    /// Sets the sizes that all towers have.
    pub(super) fn set_sizes(
        &self,
        width: &[&str],
        has_layers: bool,
        out: &mut Out,
    ) -> Result<(), Error> {
        self.set_size("embedding_length", width, out)?;
        for (name, names) in [
            ("feed_forward_length", &["intermediate_size"][..]),
            ("block_count", &["num_hidden_layers", "depth"][..]),
            ("attention.head_count", &["num_attention_heads", "num_heads"][..]),
        ] {
            if name == "feed_forward_length" && has_layers && !self.has("intermediate_size") {
                continue;
            }
            if !has_layers {
                // llama.cpp requires the keys
                set(out, name, 0);
                continue;
            }
            self.set_size(name, names, out)?;
        }
        let patch = self.side("patch_size")?;
        set(out, "patch_size", patch);
        if self.has("image_size") {
            set(out, "image_size", self.side("image_size")?);
        }
        let text = self.model.required_size(&["hidden_size"])?;
        set(out, "projection_dim", text);
        Ok(())
    }

    pub(super) fn set_size(&self, name: &str, names: &[&str], out: &mut Out) -> Result<(), Error> {
        set(out, name, self.keys.required_size(names)?);
        Ok(())
    }

    /// Sets a number of the epsilon of norms.
    pub(super) fn set_eps(&self, value: f64, out: &mut Out) {
        out.set("clip.vision.attention.layer_norm_epsilon", value as f32);
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.first(&[key]).is_some()
    }

    /// A length of a square's side: a number, or two equal ones.
    pub(super) fn side(&self, key: &str) -> Result<usize, Error> {
        let Some(Value::Array(sides)) = self.keys.get(key) else {
            return self.keys.required_size(&[key]);
        };
        let side = |value: &Value| value.as_u64().and_then(|side| u32::try_from(side).ok());
        match sides.as_slice() {
            [high, wide] if high == wide && side(high).is_some_and(|side| side > 0) => {
                Ok(side(high).unwrap_or_default() as usize)
            }
            _ => {
                let found = shown(&Value::Array(sides.clone()));
                Err(self.keys.invalid(key, found, "a number, or two equal ones"))
            }
        }
    }

    /// The layers whose states become further embeddings.
    pub(super) fn deepstack(&self) -> Result<Vec<usize>, Error> {
        let name = "deepstack_visual_indexes";
        let layers = self.keys.list(name)?.unwrap_or_default();
        let layer = |value: &Value| {
            let layer = value.as_u64().and_then(|layer| u16::try_from(layer).ok());
            let expected = "a list of layers";
            layer.map(usize::from).ok_or_else(|| self.keys.invalid(name, shown(value), expected))
        };
        layers.iter().map(layer).collect()
    }

    /// Refuses a model with another value of a key than this one, which is JSON and counts where
    /// the key is missing.
    pub(super) fn require_model(&self, key: &str, expected: &str) -> Result<(), Error> {
        match self.model.get(key) {
            Some(found) => {
                let text = found.to_string();
                match text == expected {
                    true => Ok(()),
                    false => Err(self.model.invalid(key, shown(found), expected)),
                }
            }
            None => Ok(()),
        }
    }

    /// Refuses a tower with another base of rotations.
    pub(super) fn require_theta(&self, expected: f64) -> Result<(), Error> {
        let Some(rope) = self.keys.object("rope_parameters")? else { return Ok(()) };
        match rope.number(&["rope_theta"])? {
            Some(theta) if theta != expected => {
                Err(rope.invalid("rope_theta", theta, &expected.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Refuses another activation than those of a plan.
    pub(super) fn check_activation(&self, known: &[&str]) -> Result<(), Error> {
        let names = ["hidden_act", "hidden_activation"];
        let Some((key, _)) = self.keys.first(&names) else { return Ok(()) };
        let found = self.keys.text(&[key])?.unwrap_or_default();
        match known.contains(&found) {
            true => Ok(()),
            false => Err(self.keys.invalid(key, found, &known.join(" or "))),
        }
    }

    /// Checks the keys that nothing has looked up.
    pub(super) fn check_unread(&self) -> Result<(), Error> {
        self.keys.disregard(DISREGARDED);
        unread::check_keys(&self.keys, |key| self.class.get(key).cloned())
    }
}

/// Sets a size of the tower.
pub(super) fn set(out: &mut Out, name: &str, size: usize) {
    // sizes of a configuration are below 2^31
    out.set(&format!("clip.vision.{name}"), size as u32);
}

fn class_of(name: &str) -> Option<Map<String, Value>> {
    static ALL: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(CLASSES).unwrap_or_default());
    ALL[name].as_object().cloned()
}
