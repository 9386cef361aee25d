//! Gemma.

use crate::hf::common_keys::{some, window_pattern};
use crate::hf::config::Config;
use crate::hf::family::{Family, GELU};
use crate::hf::keys::{Key, check, derived, flags, number, size, sizes};
use crate::hf::names::{ATTENTION, ENDS, GATED, PRE_NORMS, QK_NORMS, SANDWICH_NORMS};
use crate::hf::rope::Rope;
use crate::hf::rules::keep;
use crate::{Error, Value};

type Computed = Result<Option<Value>, Error>;

const WINDOW: Key = size("attention.sliding_window", &["sliding_window"]);
const PATTERN: Key = derived("attention.sliding_window_pattern", window_pattern);
/// Factor of scores of attention, one over the root of `query_pre_attn_scalar`.
const SCALE: Key = derived("attention.scale", |config, _| {
    let Some(scalar) = config.all.number(&["query_pre_attn_scalar"])? else { return Ok(None) };
    if scalar <= 0.0 {
        return Err(config.unsupported("query_pre_attn_scalar", scalar, "a number above 0"));
    }
    Ok(Some(Value::from((1.0 / scalar.sqrt()) as f32)))
});
const FINAL_CAP: Key = number("final_logit_softcapping", &["final_logit_softcapping"]).optional();

/// The activation of Gemma 2 and later.
const TANH: &[&str] = &["gelu_pytorch_tanh"];

const GEMMA: Family = Family {
    classes: &["GemmaForCausalLM"],
    types: &["gemma"],
    architecture: "gemma",
    globals: &[ENDS],
    blocks: &[ATTENTION, GATED, PRE_NORMS],
    minus_one: "norm.weight",
    activations: GELU,
    ..Family::DECODER
};

pub(super) const FAMILIES: &[Family] = &[
    GEMMA,
    Family {
        classes: &["Gemma2ForCausalLM"],
        types: &["gemma2"],
        architecture: "gemma2",
        keys: &[&[
            number("attn_logit_softcapping", &["attn_logit_softcapping"]).optional(),
            FINAL_CAP,
            SCALE,
            WINDOW,
            PATTERN,
        ]],
        blocks: &[ATTENTION, GATED, SANDWICH_NORMS],
        activations: TANH,
        ..GEMMA
    },
    Family {
        classes: &["VaultGemmaForCausalLM"],
        types: &["vaultgemma"],
        architecture: "vaultgemma",
        keys: &[&[
            number("attn_logit_softcapping", &["attn_logit_softcapping"]).optional(),
            FINAL_CAP,
            SCALE,
            WINDOW,
            PATTERN,
        ]],
        blocks: &[ATTENTION, GATED, SANDWICH_NORMS],
        activations: TANH,
        ..GEMMA
    },
    Family {
        classes: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
        types: &["gemma3_text"],
        architecture: "gemma3",
        keys: &[&[
            FINAL_CAP,
            SCALE,
            WINDOW,
            derived("attention.sliding_window_pattern", gemma3_pattern),
        ]],
        blocks: &[ATTENTION, QK_NORMS, GATED, SANDWICH_NORMS],
        activations: TANH,
        ..GEMMA
    },
    Family {
        classes: &["Gemma3TextModel"],
        types: &[],
        architecture: "gemma-embedding",
        keys: &[&[
            check(check_bidirectional),
            FINAL_CAP,
            SCALE,
            WINDOW,
            derived("attention.sliding_window_pattern", gemma3_pattern),
        ]],
        blocks: &[ATTENTION, QK_NORMS, GATED, SANDWICH_NORMS],
        activations: TANH,
        ..GEMMA
    },
    Family {
        classes: &[
            "Gemma4ForCausalLM",
            "Gemma4ForConditionalGeneration",
            "Gemma4UnifiedForCausalLM",
            "Gemma4UnifiedForConditionalGeneration",
        ],
        types: &["gemma4_text", "gemma4_unified_text"],
        architecture: "gemma4",
        keys: &[&[
            FINAL_CAP,
            WINDOW,
            PATTERN,
            derived("attention.bidirectional_pictures", sees_pictures),
            size("attention.shared_kv_layers", &["num_kv_shared_layers"]),
            derived("embedding_length_per_layer_input", |config, _| {
                some(config.all.size(&["hidden_size_per_layer_input"])?.unwrap_or(0))
            }),
            derived("attention.key_length", |config, _| some(full_head_dim(config)?)),
            derived("attention.value_length", |config, _| some(full_head_dim(config)?)),
            size("attention.key_length_swa", &["head_dim"]),
            size("attention.value_length_swa", &["head_dim"]),
            size(
                "expert_feed_forward_length",
                &["expert_intermediate_size", "moe_intermediate_size"],
            )
            .optional(),
            derived("feed_forward_length", feed_forward),
            derived("attention.head_count_kv", kv_heads),
            derived("rope.dimension_count", |config, _| some(full_head_dim(config)?)),
            size("rope.dimension_count_swa", &["head_dim"]),
        ]],
        globals: &[
            ENDS,
            &[
                keep("embed_tokens_per_layer", "per_layer_token_embd"),
                keep("per_layer_model_projection", "per_layer_model_proj"),
                keep("per_layer_projection_norm", "per_layer_proj_norm"),
            ],
        ],
        blocks: &[
            ATTENTION,
            QK_NORMS,
            GATED,
            SANDWICH_NORMS,
            &[
                keep("pre_feedforward_layernorm_2", "pre_ffw_norm_2"),
                keep("post_feedforward_layernorm_1", "post_ffw_norm_1"),
                keep("post_feedforward_layernorm_2", "post_ffw_norm_2"),
                keep("layer_scalar", "layer_output_scale.weight"),
                keep("per_layer_input_gate", "inp_gate"),
                keep("per_layer_projection", "proj"),
                keep("post_per_layer_input_norm", "post_norm"),
                keep("router.proj", "ffn_gate_inp"),
                keep("router.scale", "ffn_gate_inp.scale"),
                keep("router.per_expert_scale", "ffn_down_exps.scale"),
                keep("experts.gate_up_proj", "ffn_gate_up_exps.weight"),
                keep("experts.down_proj", "ffn_down_exps.weight"),
            ],
        ],
        unused: &["embed_vision.", "embed_audio."],
        activations: TANH,
        minus_one: "",
        ..GEMMA
    },
];

/// Whether rows of a picture see each other in layers with a window, of a model with a tower.
fn sees_pictures(config: &Config, _: &Rope) -> Computed {
    let key = "use_bidirectional_attention";
    let has_tower = config.all.get("vision_config").is_some();
    match config.all.text(&[key])? {
        None => Ok(has_tower.then(|| false.into())),
        Some("vision") => Ok(has_tower.then(|| true.into())),
        Some(other) => Err(config.unsupported(key, other, "null or vision")),
    }
}

/// Rejects the text model of Gemma 3 with causal attention, which only the embedding model lacks.
fn check_bidirectional(config: &Config, _: &Rope) -> Computed {
    match config.all.flag(&["use_bidirectional_attention"])? {
        Some(true) => Ok(None),
        found => {
            let found = found.map_or("missing".to_owned(), |found| found.to_string());
            Err(config.unsupported("use_bidirectional_attention", found, "true"))
        }
    }
}

/// Which layers have a window: all but each sixth by default.
fn gemma3_pattern(config: &Config, rope: &Rope) -> Computed {
    let names = &["sliding_window_pattern", "_sliding_window_pattern"];
    if let Some(pattern) = window_pattern(config, rope)? {
        config.all.disregard(names);
        return Ok(Some(pattern));
    }
    let period = config.all.size(names)?.unwrap_or(6).max(1);
    Ok(Some(flags((1..=config.layers).map(|layer| !layer.is_multiple_of(period)))))
}

/// A key of the first layer with full attention in `per_layer_config`.
fn of_full_layer(config: &Config, key: &str) -> Result<Option<usize>, Error> {
    let Some(layers) = config.all.object("per_layer_config")? else { return Ok(None) };
    let Some(types) = config.layer_types()? else { return Ok(None) };
    for (number, _) in layers.entries() {
        let is_full = number
            .parse::<usize>()
            .is_ok_and(|layer| types.get(layer).copied() == Some("full_attention"));
        if is_full
            && let Some(layer) = layers.object(number)?
            && let Some(size) = layer.size(&[key])?
        {
            return Ok(Some(size));
        }
    }
    Ok(None)
}

/// Width of a head in layers with full attention.
pub(in crate::hf) fn full_head_dim(config: &Config) -> Result<usize, Error> {
    match config.all.size(&["global_head_dim"])? {
        Some(head_dim) => Ok(head_dim),
        None => match of_full_layer(config, "head_dim")? {
            Some(head_dim) => Ok(head_dim),
            // newer files state only what differs from other layers
            None if config.all.contains("per_layer_config") => Ok(config.head_dim),
            None => config.all.required_size(&["global_head_dim"]),
        },
    }
}

/// Widths of the feed-forward networks, twice as large in layers that share keys and values if
/// the configuration says so.
fn feed_forward(config: &Config, _: &Rope) -> Computed {
    let width = config.all.required_size(&["intermediate_size"])?;
    if config.all.flag(&["use_double_wide_mlp"])? != Some(true) {
        return some(width);
    }
    let shared = config.all.size(&["num_kv_shared_layers"])?.unwrap_or(0);
    let first = config.layers.saturating_sub(shared);
    let of_layer = |layer| if layer < first { width } else { width.saturating_mul(2) };
    Ok(Some(sizes((0..config.layers).map(of_layer))))
}

/// Numbers of key-value heads, by layer if they differ.
fn kv_heads(config: &Config, _: &Rope) -> Computed {
    let windowed = config.kv_heads()?;
    let full = match config.all.size(&["num_global_key_value_heads"])? {
        Some(heads) => Some(heads),
        None => of_full_layer(config, "num_key_value_heads")?,
    };
    let (Some(full), Some(types)) = (full, config.layer_types()?) else { return some(windowed) };
    let of_type = |name: &str| if name == "sliding_attention" { windowed } else { full };
    Ok(Some(sizes(types.into_iter().map(of_type))))
}
