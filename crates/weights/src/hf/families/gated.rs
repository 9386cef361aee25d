//! Models whose attention has a gate of its own, and MiMo-V2, whose layers differ like theirs.

use super::llama::{LLAMA, VOCAB};
use super::recent::{SCALE, SIGMOID, shared_width};
use crate::hf::common_keys::{
    EXPERT_WIDTH, WHOLE_HEADS, head_dim, rope_dims, some, window_pattern,
};
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::keys::{Key, check, derived, fixed_flag, flag, flags, number, size, sizes};
use crate::hf::names::{
    ATTENTION, EXPERTS, GATED, PRE_NORMS, QK_NORMS, SANDWICH_NORMS, SELECTION_BIAS, SHARED_EXPERT,
};
use crate::hf::rope::Rope;
use crate::hf::rules::keep;
use crate::{Error, Value};

type Computed = Result<Option<Value>, Error>;

const NORMALISED: Key = fixed_flag("expert_weights_norm", true);
const DENSE: Key = derived("leading_dense_block_count", dense_layers);

pub(super) const FAMILIES: &[Family] = &[
    Family {
        classes: &["AfmoeForCausalLM"],
        types: &["afmoe"],
        architecture: "afmoe",
        keys: &[&[
            WHOLE_HEADS,
            VOCAB,
            check(check_scaled_embeddings),
            size("attention.sliding_window", &["sliding_window"]),
            derived("attention.sliding_window_pattern", afmoe_pattern),
            EXPERT_WIDTH,
            size("expert_shared_count", &["num_shared_experts"]),
            derived("expert_shared_feed_forward_length", shared_width),
            size("leading_dense_block_count", &["num_dense_layers"]),
            number("expert_weights_scale", &["route_scale"]),
            NORMALISED,
            SIGMOID,
        ]],
        blocks: &[
            ATTENTION,
            QK_NORMS,
            GATED,
            EXPERTS,
            SHARED_EXPERT,
            &[
                keep("self_attn.gate_proj", "attn_gate"),
                keep("input_layernorm", "attn_norm"),
                keep("post_attention_layernorm", "post_attention_norm"),
                keep("pre_mlp_layernorm", "ffn_norm"),
                keep("post_mlp_layernorm", "post_ffw_norm"),
                keep("mlp.router.gate", "ffn_gate_inp"),
                keep("mlp.expert_bias", "exp_probs_b.bias"),
            ],
        ],
        ..LLAMA
    },
    Family {
        classes: &["MuseGlimmerForConditionalGeneration"],
        types: &["muse_glimmer_text"],
        architecture: "muse-glimmer",
        keys: &[&[
            WHOLE_HEADS,
            VOCAB,
            derived("attention.scale", query_scale),
            number("attention.post_norm_rms_epsilon", &["post_norm_eps"]),
            number("logit_scale", &["output_multiplier"]),
            number("final_logit_softcapping", &["final_logit_softcapping"]),
            size("attention.sliding_window", &["sliding_window"]),
            derived("attention.sliding_window_pattern", muse_pattern),
            check(check_thetas),
        ]],
        blocks: &[ATTENTION, GATED, SANDWICH_NORMS, &[keep("self_attn.gate_proj", "attn_gate")]],
        prefixes: &["model.", ""],
        unused: &["vision_adapter.", "vision_projection."],
        minus_one: "layernorm.weight",
        ..LLAMA
    },
    Family {
        classes: &["LagunaForCausalLM"],
        types: &["laguna"],
        architecture: "laguna",
        keys: &[&[
            VOCAB,
            derived("attention.head_count", laguna_heads),
            derived("attention.gate_per_head", gate_per_head),
            derived("attention.sliding_window", laguna_window),
            derived("attention.sliding_window_pattern", window_pattern),
            derived("rope.dimension_count", rope_dims),
            derived("rope.dimension_count_swa", local_rope_dims),
            EXPERT_WIDTH,
            size("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
            DENSE,
            number("expert_weights_scale", &["moe_routed_scaling_factor"]),
            NORMALISED,
            SIGMOID,
        ]],
        blocks: &[
            ATTENTION,
            QK_NORMS,
            GATED,
            PRE_NORMS,
            EXPERTS,
            SELECTION_BIAS,
            SHARED_EXPERT,
            &[
                keep("self_attn.g_proj", "attn_gate"),
                keep("mlp.experts.e_score_correction_bias", "exp_probs_b.bias"),
            ],
        ],
        ..LLAMA
    },
    Family {
        classes: &["MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"],
        types: &["mimo_v2_flash"],
        architecture: "mimo2",
        keys: &[&[
            VOCAB,
            number("attention.layer_norm_rms_epsilon", &["layernorm_epsilon", "rms_norm_eps"]),
            derived("attention.head_count_kv", mimo_kv_heads),
            derived("attention.key_length", head_dim),
            size("attention.value_length", &["v_head_dim"]),
            derived("attention.value_scale", value_scale),
            derived("attention.sliding_window", mimo_window),
            derived("attention.sliding_window_pattern", |config, _| {
                Ok(Some(flags(mimo_windowed(config)?)))
            }),
            derived("rope.dimension_count", rope_dims),
            derived("rope.dimension_count_swa", local_rope_dims),
            EXPERT_WIDTH,
            DENSE,
            SCALE.optional(),
            flag("expert_weights_norm", &["norm_topk_prob"]).optional(),
            SIGMOID,
        ]],
        blocks: &[
            ATTENTION,
            GATED,
            PRE_NORMS,
            EXPERTS,
            SELECTION_BIAS,
            &[
                keep("self_attn.sinks", "attn_sinks.weight"),
                keep("self_attn.attention_sink_bias", "attn_sinks.weight"),
            ],
        ],
        ..LLAMA
    },
];

/// Rejects models without the factor of embeddings, which GGUF's graph always has.
fn check_scaled_embeddings(config: &Config, _: &Rope) -> Computed {
    match config.all.flag(&["mup_enabled"])? {
        Some(true) => Ok(None),
        _ => Err(config.unsupported("mup_enabled", false, "true")),
    }
}

fn afmoe_pattern(config: &Config, rope: &Rope) -> Computed {
    if let Some(pattern) = window_pattern(config, rope)? {
        config.all.disregard(&["global_attn_every_n_layers"]);
        return Ok(Some(pattern));
    }
    let period = config.all.required_size(&["global_attn_every_n_layers"])?;
    Ok(Some(flags((1..=config.layers).map(|layer| !layer.is_multiple_of(period)))))
}

/// The factor of scores: that of queries after their norm, over the root of a head's length.
fn query_scale(config: &Config, _: &Rope) -> Computed {
    let factor = config.all.required_number(&["qk_scale_factor"])?;
    Ok(Some(Value::from((factor / (config.head_dim as f64).sqrt()) as f32)))
}

fn muse_windowed(config: &Config) -> Result<Vec<bool>, Error> {
    Ok(match config.layer_types()? {
        Some(types) => types.into_iter().map(|kind| kind == "sliding_attention").collect(),
        // every fourth layer has none, the last one included
        None => (1..=config.layers).rev().map(|from_end| (from_end - 1) % 4 != 0).collect(),
    })
}

fn muse_pattern(config: &Config, _: &Rope) -> Computed {
    Ok(Some(flags(muse_windowed(config)?)))
}

/// Rejects bases of layers other than the common one with a window, and none without it.
fn check_thetas(config: &Config, _: &Rope) -> Computed {
    let Some(thetas) = config.all.list("layer_rope_theta")? else {
        let by_place: Vec<bool> = (0..config.layers)
            .map(|layer| !(config.layers - 1 - layer).is_multiple_of(4))
            .collect();
        if muse_windowed(config)? == by_place {
            return Ok(None);
        }
        let expected = "full_attention in every fourth layer up to the last";
        return Err(config.unsupported("layer_types", "another list", expected));
    };
    let rotates: Vec<bool> = thetas.iter().map(|theta| theta.as_f64() != Some(0.0)).collect();
    if rotates == muse_windowed(config)? {
        return Ok(None);
    }
    let expected = "0 in layers without a window, and a base in the others";
    Err(config.unsupported("layer_rope_theta", "another list", expected))
}

/// The number of query heads, of each layer where a list states them.
fn laguna_heads(config: &Config, _: &Rope) -> Computed {
    let key = "num_attention_heads_per_layer";
    let expected = format!("a list of {} numbers", config.layers);
    let Some(list) = config.all.list(key)? else { return some(config.heads) };
    let heads: Option<Vec<usize>> = list
        .iter()
        .map(|value| value.as_u64().and_then(|heads| usize::try_from(heads).ok()))
        .collect();
    match heads {
        Some(heads) if heads.len() == config.layers => Ok(Some(sizes(heads))),
        _ => Err(config.unsupported(key, "another list", &expected)),
    }
}

/// Whether a gate holds for a head; otherwise for an element.
fn gate_per_head(config: &Config, _: &Rope) -> Computed {
    let key = "gating";
    let expected = "true, \"per-head\" or \"per-element\"";
    let Some(found) = config.all.get(key) else { return Ok(Some(true.into())) };
    match (found.as_bool(), found.as_str()) {
        (Some(true), _) | (_, Some("per-head")) => Ok(Some(true.into())),
        (_, Some("per-element")) => Ok(Some(false.into())),
        _ => Err(config.unsupported(key, found, expected)),
    }
}

/// The window, if a layer has it.
fn laguna_window(config: &Config, _: &Rope) -> Computed {
    match config.layer_types()? {
        Some(types) if types.contains(&"sliding_attention") => {
            some(config.all.required_size(&["sliding_window"])?)
        }
        _ if config.all.contains("sliding_window")
            && config.all.get("sliding_window").is_none() =>
        {
            Err(config.unsupported("sliding_window", "null", "an integer"))
        }
        _ => Ok(None),
    }
}

/// The rotated dimensions of a head in layers with a window.
fn local_rope_dims(config: &Config, rope: &Rope) -> Computed {
    let partial = rope.local_partial.or(rope.partial.filter(|_| rope.local_theta.is_none()));
    let partial = partial.unwrap_or(match config.model_type.as_str() {
        "mimo_v2_flash" => rope.partial.unwrap_or(1.0),
        _ => 1.0,
    });
    some((partial * config.head_dim as f64) as usize)
}

/// The layers with dense networks, which come first.
fn dense_layers(config: &Config, _: &Rope) -> Computed {
    let key = "mlp_layer_types";
    let Some(types) = config.all.list(key)? else { return some(1) };
    let dense = types.iter().take_while(|kind| *kind == "dense").count();
    match types[dense..].iter().all(|kind| *kind == "sparse") {
        true => some(dense),
        false => Err(config.unsupported(key, "another list", "dense layers before sparse ones")),
    }
}

/// The layers with a window: by names, by 1 in the list of published files, or all but the first
/// and every sixth.
fn mimo_windowed(config: &Config) -> Result<Vec<bool>, Error> {
    if let Some(types) = config.layer_types()? {
        return Ok(types.into_iter().map(|kind| kind == "sliding_attention").collect());
    }
    if let Some(list) = config.all.list("hybrid_layer_pattern")? {
        return Ok(list.iter().take(config.layers).map(|value| *value == 1).collect());
    }
    Ok((1..=config.layers).map(|layer| layer > 1 && !layer.is_multiple_of(6)).collect())
}

/// The key-value heads of each layer; those with a window have twice as many.
fn mimo_kv_heads(config: &Config, _: &Rope) -> Computed {
    let full = config.kv_heads()?;
    let stated = config.all.size(&["swa_num_key_value_heads"])?;
    let local = stated.unwrap_or(full.saturating_mul(2));
    let of = |windowed: bool| if windowed { local } else { full };
    Ok(Some(sizes(mimo_windowed(config)?.into_iter().map(of))))
}

/// The window, which counts the row itself.
fn mimo_window(config: &Config, _: &Rope) -> Computed {
    match config.all.size(&["sliding_window_size"])? {
        Some(before) => some(before.saturating_add(1)),
        None => some(config.all.required_size(&["sliding_window"])?),
    }
}

/// The factor of values.
fn value_scale(config: &Config, _: &Rope) -> Computed {
    let factor = config.all.number(&["attention_value_scale"])?;
    Ok(factor.map(|factor| Value::from(factor as f32)))
}
