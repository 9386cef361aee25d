//! `config.json` and its translation to GGUF keys.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use pelton_weights::GgufWriter;
use serde_json::{Map, Value};

/// Supported model families; they differ in names of keys and in a few tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
}

impl Model {
    /// The architecture's name in GGUF. Mistral is a Llama with an attention window.
    pub(crate) fn architecture(self) -> &'static str {
        match self {
            Self::Llama | Self::Mistral => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// Whether GGUF interleaves the pairs of a rotary embedding, which Hugging Face splits into
    /// the first and second half of a head.
    pub(crate) fn interleaves_rope(self) -> bool {
        self.architecture() == "llama"
    }
}

/// A JSON object with typed lookups. `null` counts as absent, as in transformers.
#[derive(Clone, Debug)]
pub(crate) struct Object(Map<String, Value>);

impl Object {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        match serde_json::from_str(&text).with_context(|| path.display().to_string())? {
            Value::Object(map) => Ok(Self(map)),
            _ => bail!("{} is not a JSON object", path.display()),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter()
    }

    pub(crate) fn object(&self, key: &str) -> Result<Option<Self>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Self(map.clone()))),
            Some(other) => bail!("{key} is {other}, expected an object"),
        }
    }

    pub(crate) fn opt_usize(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        number.map(Some).with_context(|| format!("{key} is {value}, expected an integer"))
    }

    pub(crate) fn usize(&self, key: &str) -> Result<usize> {
        self.opt_usize(key)?.with_context(|| format!("{key} is missing"))
    }

    pub(crate) fn opt_f64(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_f64().map(Some).with_context(|| format!("{key} is {value}, expected a number"))
    }

    pub(crate) fn f64(&self, key: &str) -> Result<f64> {
        self.opt_f64(key)?.with_context(|| format!("{key} is missing"))
    }

    pub(crate) fn opt_str(&self, key: &str) -> Result<Option<&str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).with_context(|| format!("{key} is {value}, expected a string"))
    }

    pub(crate) fn opt_bool(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).with_context(|| format!("{key} is {value}, expected a bool"))
    }
}

/// The fields of `config.json` that the conversion uses.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) model: Model,
    pub(crate) layers: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) ffn: usize,
    pub(crate) vocab: usize,
    /// Whether the output layer shares the token embedding.
    pub(crate) tied: bool,
    pub(crate) rope: Rope,
    pub(crate) window: Option<usize>,
    /// The complete object, for special tokens and keys that are copied.
    pub(crate) all: Object,
}

#[derive(Debug)]
pub(crate) struct Rope {
    pub(crate) theta: f64,
    pub(crate) scaling: Scaling,
}

#[derive(Debug)]
pub(crate) enum Scaling {
    None,
    Linear { factor: f64 },
    Yarn { factor: f64, original_context: usize, beta_fast: Option<f64>, beta_slow: Option<f64> },
    Llama3 { factor: f64, low: f64, high: f64, original_context: f64 },
}

impl Config {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let all = Object::read(path)?;
        Self::new(all).with_context(|| path.display().to_string())
    }

    fn new(all: Object) -> Result<Self> {
        let model = match all.opt_str("model_type")? {
            Some("llama") => Model::Llama,
            Some("mistral") => Model::Mistral,
            Some("qwen2") => Model::Qwen2,
            Some("qwen3") => Model::Qwen3,
            other => bail!("model_type is {other:?}, expected llama, mistral, qwen2 or qwen3"),
        };
        let activation = all.opt_str("hidden_act")?;
        ensure!(
            activation.is_none_or(|name| name == "silu"),
            "hidden_act is {activation:?}, expected silu"
        );
        let layers = all.usize("num_hidden_layers")?;
        let hidden = all.usize("hidden_size")?;
        let heads = all.usize("num_attention_heads")?;
        ensure!(heads > 0, "num_attention_heads is 0, expected at least 1");
        // Defaults of transformers' configuration classes, which differ. The key is required where
        // the default is a value of one particular model.
        let kv_heads = match model {
            Model::Llama => all.opt_usize("num_key_value_heads")?.unwrap_or(heads),
            _ => all.usize("num_key_value_heads")?,
        };
        let head_dim = match model {
            Model::Qwen3 => all.usize("head_dim")?,
            _ => match all.opt_usize("head_dim")? {
                Some(head_dim) => head_dim,
                None => {
                    ensure!(
                        hidden.is_multiple_of(heads),
                        "head_dim is missing, and hidden_size {hidden} is not a multiple of \
                         num_attention_heads {heads}"
                    );
                    hidden / heads
                }
            },
        };
        ensure!(
            head_dim > 0 && head_dim.is_multiple_of(2),
            "head_dim is {head_dim}, expected an even number above 0"
        );
        Ok(Self {
            model,
            layers,
            hidden,
            heads,
            kv_heads,
            head_dim,
            ffn: all.usize("intermediate_size")?,
            vocab: all.usize("vocab_size")?,
            // The default is false in all four classes.
            tied: all.opt_bool("tie_word_embeddings")?.unwrap_or(false),
            rope: rope(&all)?,
            window: window(&all, model, layers)?,
            all,
        })
    }

    /// Writes the architecture's keys.
    pub(crate) fn set_keys(&self, out: &mut GgufWriter) -> Result<()> {
        let architecture = self.model.architecture();
        out.set("general.architecture", architecture)?;
        let mut set = |name: &str, value: usize| -> Result<()> {
            let value = u32::try_from(value).with_context(|| format!("{name} is {value}"))?;
            Ok(out.set(&format!("{architecture}.{name}"), value)?)
        };
        set("block_count", self.layers)?;
        set("context_length", self.all.usize("max_position_embeddings")?)?;
        set("embedding_length", self.hidden)?;
        set("feed_forward_length", self.ffn)?;
        set("attention.head_count", self.heads)?;
        set("attention.head_count_kv", self.kv_heads)?;
        set("attention.key_length", self.head_dim)?;
        set("attention.value_length", self.head_dim)?;
        set("rope.dimension_count", self.head_dim)?;
        set("vocab_size", self.vocab)?;
        if let Some(window) = self.window {
            set("attention.sliding_window", window)?;
        }

        let mut set = |name: &str, value: f64| -> Result<()> {
            Ok(out.set(&format!("{architecture}.{name}"), value as f32)?)
        };
        set("attention.layer_norm_rms_epsilon", self.all.f64("rms_norm_eps")?)?;
        set("rope.freq_base", self.rope.theta)?;
        match self.rope.scaling {
            Scaling::None | Scaling::Llama3 { .. } => {}
            Scaling::Linear { factor } => {
                set("rope.scaling.factor", factor)?;
                out.set(&format!("{architecture}.rope.scaling.type"), "linear")?;
            }
            Scaling::Yarn { factor, original_context, beta_fast, beta_slow } => {
                set("rope.scaling.factor", factor)?;
                if let Some(beta) = beta_fast {
                    set("rope.scaling.yarn_beta_fast", beta)?;
                }
                if let Some(beta) = beta_slow {
                    set("rope.scaling.yarn_beta_slow", beta)?;
                }
                out.set(&format!("{architecture}.rope.scaling.type"), "yarn")?;
                let name = format!("{architecture}.rope.scaling.original_context_length");
                out.set(&name, u32::try_from(original_context)?)?;
            }
        }
        Ok(())
    }
}

/// The rotary embedding: `rope_parameters` since transformers 5, `rope_theta` and
/// `rope_scaling` before.
fn rope(all: &Object) -> Result<Rope> {
    let parameters = match all.object("rope_parameters")? {
        Some(parameters) => Some(parameters),
        None => all.object("rope_scaling")?,
    };
    let theta = match parameters.as_ref().map(|p| p.opt_f64("rope_theta")).transpose()?.flatten() {
        Some(theta) => theta,
        // `default_theta` of the four configuration classes; Llama 2's file depends on it.
        None => all.opt_f64("rope_theta")?.unwrap_or(10_000.0),
    };
    let scaling = match &parameters {
        Some(parameters) => scaling(parameters).context("rope_parameters or rope_scaling")?,
        None => Scaling::None,
    };
    Ok(Rope { theta, scaling })
}

fn scaling(parameters: &Object) -> Result<Scaling> {
    let partial = parameters.opt_f64("partial_rotary_factor")?;
    ensure!(partial.is_none_or(|factor| factor == 1.0), "partial_rotary_factor is {partial:?}");
    // "type" before transformers 4.43.
    let name = match parameters.opt_str("rope_type")? {
        Some(name) => Some(name),
        None => parameters.opt_str("type")?,
    };
    match name {
        None | Some("default") => Ok(Scaling::None),
        Some("linear") => Ok(Scaling::Linear { factor: parameters.f64("factor")? }),
        Some("yarn") => {
            for key in ["attention_factor", "mscale", "mscale_all_dim", "truncate"] {
                ensure!(parameters.get(key).is_none(), "YaRN with {key} has no GGUF key");
            }
            Ok(Scaling::Yarn {
                factor: parameters.f64("factor")?,
                original_context: parameters.usize("original_max_position_embeddings")?,
                beta_fast: parameters.opt_f64("beta_fast")?,
                beta_slow: parameters.opt_f64("beta_slow")?,
            })
        }
        Some("llama3") => Ok(Scaling::Llama3 {
            factor: parameters.f64("factor")?,
            low: parameters.f64("low_freq_factor")?,
            high: parameters.f64("high_freq_factor")?,
            original_context: parameters.f64("original_max_position_embeddings")?,
        }),
        Some(other) => bail!("rope_type is {other:?}, expected default, linear, yarn or llama3"),
    }
}

/// The attention window, which must be the same in every layer: GGUF has one key for all.
fn window(all: &Object, model: Model, layers: usize) -> Result<Option<usize>> {
    let window = match model {
        Model::Llama => None,
        // The default of transformers is 4096, so the key is required, possibly as null.
        Model::Mistral => {
            ensure!(all.0.contains_key("sliding_window"), "sliding_window is missing");
            all.opt_usize("sliding_window")?
        }
        Model::Qwen2 | Model::Qwen3 => match all.opt_bool("use_sliding_window")? {
            Some(true) => Some(all.usize("sliding_window")?),
            _ => None,
        },
    };
    let Some(window) = window else { return Ok(None) };
    let sliding = match all.get("layer_types") {
        Some(Value::Array(types)) => {
            ensure!(types.len() == layers, "layer_types has {} layers", types.len());
            types.iter().filter(|name| name.as_str() == Some("sliding_attention")).count()
        }
        Some(other) => bail!("layer_types is {other}, expected an array"),
        // "Layers below it use full attention": the first `max_window_layers` of Qwen.
        None if model == Model::Mistral => layers,
        None => layers.saturating_sub(all.usize("max_window_layers")?),
    };
    match sliding {
        0 => Ok(None),
        n if n == layers => Ok(Some(window)),
        n => bail!("{n} of {layers} layers have a window, expected all or none"),
    }
}
