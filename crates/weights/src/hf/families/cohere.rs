//! Command R, Command R7B, and North with experts.

use super::recent::shared_width;
use crate::hf::common_keys::{
    NORMALISED, UNSCALED, some, whole_heads, window_pattern, window_pattern_of_4,
};
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::keys::{check, derived, flags, number, size};
use crate::hf::names::{ATTENTION, ENDS, EXPERTS, GATED, QK_NORMS, SHARED_EXPERT};
use crate::hf::rope::Rope;
use crate::hf::rules::{Rule, keep};
use crate::{Error, Value};

const NORM: &[Rule] = &[keep("input_layernorm", "attn_norm")];

const COHERE: Family = Family {
    classes: &["CohereForCausalLM"],
    types: &["cohere"],
    architecture: "command-r",
    keys: &[&[
        // `max_position_embeddings` is the length of a part of the training in published files.
        size("context_length", &["model_max_length", "max_position_embeddings"]),
        number("logit_scale", &["logit_scale"]),
        UNSCALED,
    ]],
    globals: &[ENDS],
    blocks: &[ATTENTION, QK_NORMS, GATED, NORM],
    ..Family::DECODER
};

pub(super) const FAMILIES: &[Family] = &[
    COHERE,
    Family {
        classes: &["Cohere2ForCausalLM"],
        types: &["cohere2"],
        architecture: "cohere2",
        keys: &[&[
            number("logit_scale", &["logit_scale"]),
            size("attention.sliding_window", &["sliding_window"]),
            derived("attention.sliding_window_pattern", pattern),
            size("vocab_size", &["vocab_size"]),
            derived("rope.dimension_count", whole_heads),
            UNSCALED,
        ]],
        ..COHERE
    },
    Family {
        classes: &["Cohere2MoeForCausalLM"],
        types: &["cohere2_moe"],
        architecture: "cohere2moe",
        keys: &[&[
            number("logit_scale", &["logit_scale"]),
            size("attention.sliding_window", &["sliding_window"]),
            derived("attention.sliding_window_pattern", moe_pattern),
            size("vocab_size", &["vocab_size"]),
            derived("rope.dimension_count", whole_heads),
            UNSCALED,
            size("expert_feed_forward_length", &["intermediate_size"]),
            size("feed_forward_length", &["prefix_dense_intermediate_size", "intermediate_size"]),
            derived("leading_dense_block_count", |config, _| some(dense_layers(config)?)),
            size("expert_shared_count", &["num_shared_experts"]).optional(),
            derived("expert_shared_feed_forward_length", shared_width),
            derived("expert_gating_func", selection),
            NORMALISED,
            check(check_mean),
        ]],
        blocks: &[ATTENTION, GATED, NORM, EXPERTS, SHARED_EXPERT],
        ..COHERE
    },
];

/// Layers without experts, which come first.
fn dense_layers(config: &Config) -> Result<usize, Error> {
    let Some(types) = config.all.list("mlp_layer_types")? else {
        return Ok(config.all.size(&["first_k_dense_replace"])?.unwrap_or(0));
    };
    Ok(types.iter().take_while(|kind| *kind == "dense").count())
}

/// Which layers have a window: by `layer_types`, or by the periods of dense layers and of others.
/// Dense layers without a window rotate if their period is 1, and GGUF has no other case.
fn moe_pattern(config: &Config, rope: &Rope) -> Result<Option<Value>, Error> {
    const PERIODS: [&str; 2] = ["prefix_dense_sliding_window_pattern", "sliding_window_pattern"];
    let dense = dense_layers(config)?;
    let of_dense = config.all.size(&[PERIODS[0]])?.unwrap_or(1);
    let of_others = config.all.size(&[PERIODS[1]])?.unwrap_or(4).max(1);
    if dense > 0 && of_dense != 1 {
        return Err(config.unsupported(PERIODS[0], of_dense, "1, as no other value is computed"));
    }
    if let Some(pattern) = window_pattern(config, rope)? {
        return Ok(Some(pattern));
    }
    let windowed = |layer: usize| layer >= dense && !(layer - dense + 1).is_multiple_of(of_others);
    Ok(Some(flags((0..config.layers).map(windowed))))
}

/// The router's function; its softmax is of the chosen logits.
fn selection(config: &Config, _: &Rope) -> Result<Option<Value>, Error> {
    match config.all.text(&["expert_selection_fn"])? {
        None | Some("softmax") => some(3),
        Some("sigmoid") => some(2),
        Some(other) => Err(config.unsupported("expert_selection_fn", other, "softmax or sigmoid")),
    }
}

/// Rejects a sum with shared experts in place of the mean, and norms other than layer norms.
fn check_mean(config: &Config, _: &Rope) -> Result<Option<Value>, Error> {
    if let Some(eps) = config.all.get("rms_norm_eps") {
        return Err(config.unsupported("rms_norm_eps", eps, "null"));
    }
    let key = "shared_expert_combination_strategy";
    match config.all.text(&[key])? {
        None | Some("average") => Ok(None),
        Some(_) if config.all.size(&["num_shared_experts"])?.unwrap_or(0) == 0 => Ok(None),
        Some(other) => Err(config.unsupported(key, other, "average")),
    }
}

/// Which layers have a window. Those without one have no rotary embedding; GGUF has no files of a
/// model in which no layer has a window.
fn pattern(config: &Config, rope: &Rope) -> Result<Option<Value>, Error> {
    if config.layer_types()?.is_some_and(|types| !types.contains(&"sliding_attention")) {
        return Err(config.unsupported(
            "layer_types",
            "without a window",
            "some sliding_attention",
        ));
    }
    window_pattern_of_4(config, rope)
}
