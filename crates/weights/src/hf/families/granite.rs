//! Granite without experts, and what its models with experts share.

use super::llama::{LLAMA, ROPE_DIMS, VOCAB};
use crate::hf::common_keys::window_pattern;
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::keys::{Key, check, derived, flags, number, size};
use crate::hf::names::{ATTENTION, GATED, PRE_NORMS};
use crate::hf::rope::Rope;
use crate::hf::rules::{Rule, keep, parts};
use crate::hf::transforms::gate_up;
use crate::{Error, Value};

type Computed = Result<Option<Value>, Error>;

/// Granite's multipliers.
pub(super) const GRANITE: &[Key] = &[
    VOCAB,
    ROPE_DIMS,
    number("attention.scale", &["attention_multiplier"]).optional(),
    number("embedding_scale", &["embedding_multiplier"]).optional(),
    number("residual_scale", &["residual_multiplier"]).optional(),
    number("logit_scale", &["logits_scaling"]).optional(),
];

/// Windows, and layers without rotation.
pub(super) const SWA: &[Key] = &[
    size("attention.sliding_window", &["sliding_window"]),
    derived("attention.sliding_window_pattern", |config, rope| {
        match window_pattern(config, rope)? {
            Some(pattern) => Ok(Some(pattern)),
            None => Ok(Some(flags((0..config.layers).map(|layer| !layer.is_multiple_of(4))))),
        }
    }),
    derived("attention.rope_pattern", |config, _| {
        let rotates = |theta: &f64| *theta != 0.0;
        Ok(thetas(config)?.map(|thetas| flags(thetas.iter().map(rotates))))
    }),
    derived("rope.freq_base", base),
];

/// The width of the network of models without experts.
pub(super) const DENSE_WIDTH: Key = size("feed_forward_length", &["shared_intermediate_size"]);
/// Rejects layers with a recurrent state.
pub(super) const ATTENTION_ALONE: Key = check(check_attention);
/// Whether layers rotate.
pub(super) const FINETUNED: Key = derived("rope.scaling.finetuned", rotates);

/// The network of models without experts.
pub(super) const SHARED_MLP: &[Rule] = &[
    parts("shared_mlp.input_linear.weight", "", gate_up),
    keep("shared_mlp.output_linear", "ffn_down"),
];

/// Sinks of attention.
pub(super) const SINKS: &[Rule] = &[keep("self_attn.sinks", "attn_sinks.weight")];

pub(super) const FAMILIES: &[Family] = &[
    Family {
        classes: &["GraniteForCausalLM"],
        types: &["granite"],
        architecture: "granite",
        keys: &[GRANITE],
        ..LLAMA
    },
    Family {
        classes: &["HyperCLOVAXForCausalLM"],
        types: &["hyperclovax"],
        architecture: "hyperclovax",
        keys: &[GRANITE],
        blocks: &[
            ATTENTION,
            GATED,
            PRE_NORMS,
            &[keep("post_norm1", "post_attention_norm"), keep("post_norm2", "post_ffw_norm")],
        ],
        ..LLAMA
    },
    Family {
        classes: &["GraniteMoeHybridForCausalLM"],
        types: &["granitemoehybrid"],
        architecture: "granite",
        keys: &[GRANITE, &[DENSE_WIDTH, ATTENTION_ALONE, FINETUNED]],
        blocks: &[ATTENTION, PRE_NORMS, SHARED_MLP],
        ..LLAMA
    },
    Family {
        classes: &["GraniteSWAForCausalLM"],
        types: &["granite_swa"],
        architecture: "granite_swa",
        keys: &[GRANITE, SWA],
        blocks: &[ATTENTION, SINKS, GATED, PRE_NORMS],
        ..LLAMA
    },
];

/// The bases of the layers, 0 for no rotation: one base, as GGUF has no key of several. Older files
/// state in `no_rope_layers` the layers that rotate.
fn thetas(config: &Config) -> Result<Option<Vec<f64>>, Error> {
    let keys = ["layer_rope_theta", "no_rope_layers"];
    for key in keys {
        let Some(list) = config.all.list(key)? else { continue };
        config.all.disregard(&keys);
        let expected = format!("{} numbers, all of them 0 or equal", config.layers);
        let thetas: Vec<f64> = list.iter().filter_map(serde_json::Value::as_f64).collect();
        let first = thetas.iter().copied().find(|theta| *theta != 0.0);
        let fits = |theta: &f64| *theta == 0.0 || (*theta > 0.0 && Some(*theta) == first);
        if thetas.len() != list.len() || list.len() != config.layers || !thetas.iter().all(fits) {
            return Err(config.unsupported(key, "another list", &expected));
        }
        return Ok(Some(thetas));
    }
    Ok(None)
}

/// The base of the layers that rotate.
fn base(config: &Config, rope: &Rope) -> Computed {
    let stated = match config.all.list("layer_rope_theta")? {
        Some(_) => thetas(config)?.and_then(|all| all.into_iter().find(|theta| *theta > 0.0)),
        None => None,
    };
    Ok(stated.or(rope.theta).map(|theta| Value::from(theta as f32)))
}

/// Keys of layers with a recurrent state.
const RECURRENT: &[&str] = &[
    "mamba_chunk_size",
    "mamba_conv_bias",
    "mamba_d_conv",
    "mamba_d_head",
    "mamba_d_state",
    "mamba_expand",
    "mamba_n_groups",
    "mamba_n_heads",
    "mamba_proj_bias",
    "time_step_limit",
];

/// Rejects layers with a recurrent state.
fn check_attention(config: &Config, _: &Rope) -> Computed {
    let types = config.layer_types()?;
    let is_attention = |kind: &&str| ["attention", "full_attention"].contains(kind);
    match types {
        Some(types) if types.iter().all(is_attention) => {
            config.all.disregard(RECURRENT);
            Ok(None)
        }
        _ => {
            let found = if types.is_some() { "other layers" } else { "missing" };
            Err(config.unsupported("layer_types", found, "attention in all layers"))
        }
    }
}

fn rotates(config: &Config, _: &Rope) -> Computed {
    match config.all.text(&["position_embedding_type"])? {
        Some("rope") => Ok(Some(true.into())),
        None | Some("nope") => Ok(Some(false.into())),
        Some(other) => Err(config.unsupported("position_embedding_type", other, "rope or null")),
    }
}
