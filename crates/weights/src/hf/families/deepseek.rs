//! DeepSeek V2 and V3, with latent attention.

use super::llama::MINICPM;
use crate::hf::common_keys::some;
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::keys::{Key, check, derived, fixed_size, number, size};
use crate::hf::names::{
    ATTENTION, ENDS, EXPERTS, GATED, PLAIN, PRE_NORMS, SELECTION_BIAS, SHARED_EXPERT,
};
use crate::hf::rope::{Rope, Scaling};
use crate::hf::rules::{Rule, keep, parts};
use crate::hf::transforms::latent_kv;
use crate::{Error, Value};

type Computed = Result<Option<Value>, Error>;

const LATENT: &[Rule] = &[
    keep("self_attn.q_a_proj", "attn_q_a"),
    keep("self_attn.q_a_layernorm", "attn_q_a_norm"),
    keep("self_attn.q_b_proj", "attn_q_b"),
    keep("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"),
    keep("self_attn.kv_a_layernorm", "attn_kv_a_norm"),
    parts("self_attn.kv_b_proj.weight", "", latent_kv),
];

/// The factor of queries and keys by YaRN.
const MAGNITUDE: Key = derived("rope.scaling.yarn_log_multiplier", |_, rope| match &rope.scaling {
    // A tenth of the key of other architectures, as llama.cpp's converter writes it.
    Scaling::Yarn(yarn) => Ok(yarn.mscale_all_dim.map(|m| Value::from((0.1 * m) as f32))),
    _ => Ok(None),
});

/// Keys of models without experts.
const LATENT_ALONE: &[Key] = &[
    fixed_size("attention.head_count_kv", 1),
    size("vocab_size", &["vocab_size"]),
    size("attention.q_lora_rank", &["q_lora_rank"]).optional(),
    size("attention.kv_lora_rank", &["kv_lora_rank"]),
    derived("attention.key_length_mla", key_length),
    derived("attention.value_length_mla", |config, _| {
        some(config.all.size(&["v_head_dim"])?.unwrap_or(config.hidden / config.heads))
    }),
    size("rope.dimension_count", &["qk_rope_head_dim"]),
    check(check_kv_heads),
    check(check_rotated),
    MAGNITUDE,
];

const DEEPSEEK: Family = Family {
    classes: &[
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "KimiK25ForConditionalGeneration",
        "Kimi_K25ForConditionalGeneration",
        "YoutuForCausalLM",
        "SarvamMLAForCausalLM",
    ],
    types: &["deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "youtu", "sarvam_mla"],
    architecture: "deepseek2",
    keys: &[&[
        // Absorbed latent attention has one key head.
        fixed_size("attention.head_count_kv", 1),
        derived("leading_dense_block_count", dense_layers),
        size("vocab_size", &["vocab_size"]),
        size("attention.q_lora_rank", &["q_lora_rank"]).optional(),
        size("attention.kv_lora_rank", &["kv_lora_rank"]),
        derived("attention.key_length", |config, _| {
            sum(config, "kv_lora_rank", "qk_rope_head_dim")
        }),
        size("attention.value_length", &["kv_lora_rank"]),
        derived("attention.key_length_mla", key_length),
        size("attention.value_length_mla", &["v_head_dim"]),
        size("expert_feed_forward_length", &["moe_intermediate_size", "intermediate_size"]),
        derived("expert_shared_count", |config, _| {
            some(config.all.size(&["n_shared_experts"])?.unwrap_or(0))
        }),
        number("expert_weights_scale", &["routed_scaling_factor"]).optional(),
        derived("expert_weights_norm", normalised),
        check(check_kv_heads),
        derived("expert_gating_func", gating),
        derived("expert_group_count", groups),
        derived("expert_group_used_count", groups),
        size("rope.dimension_count", &["qk_rope_head_dim"]),
        MAGNITUDE,
        derived("attention.temperature_scale", temperature),
        check(check_rotated),
    ]],
    globals: &[ENDS],
    blocks: &[ATTENTION, LATENT, PRE_NORMS, GATED, SELECTION_BIAS, EXPERTS, SHARED_EXPERT],
    ..Family::DECODER
};

pub(super) const FAMILIES: &[Family] = &[
    DEEPSEEK,
    Family {
        classes: &["AXK1ForCausalLM"],
        types: &["axk1"],
        architecture: "axk1",
        blocks: &[
            ATTENTION,
            LATENT,
            PRE_NORMS,
            GATED,
            SELECTION_BIAS,
            EXPERTS,
            SHARED_EXPERT,
            &[
                keep("post_mlp_layernorm", "post_ffw_norm"),
                keep("mlp.post_mlp_layernorm", "post_ffw_norm"),
            ],
        ],
        ..DEEPSEEK
    },
    Family {
        classes: &["PLMForCausalLM"],
        types: &["plm"],
        architecture: "plm",
        keys: &[LATENT_ALONE],
        blocks: &[ATTENTION, LATENT, PRE_NORMS, PLAIN],
        activations: &["relu2"],
        ..DEEPSEEK
    },
    Family {
        classes: &["MiniCPM3ForCausalLM"],
        types: &["minicpm3"],
        architecture: "minicpm3",
        keys: &[LATENT_ALONE, MINICPM],
        blocks: &[ATTENTION, LATENT, PRE_NORMS, GATED],
        ..DEEPSEEK
    },
    Family {
        classes: &["Mistral4ForCausalLM", "Mistral3ForConditionalGeneration"],
        types: &["mistral4"],
        needs: "kv_lora_rank",
        architecture: "mistral4",
        blocks: &[
            &[keep("mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight")],
            ATTENTION,
            LATENT,
            PRE_NORMS,
            GATED,
            EXPERTS,
            SHARED_EXPERT,
        ],
        ..DEEPSEEK
    },
];

/// Layers without experts, which come first.
fn dense_layers(config: &Config, _: &Rope) -> Computed {
    if let Some(stated) = config.all.size(&["first_k_dense_replace"])? {
        return some(stated);
    }
    if let Some(types) = config.all.list("mlp_layer_types")? {
        return some(types.iter().take_while(|kind| *kind == "dense").count());
    }
    let sparse = config.all.get("n_routed_experts").is_some();
    // all layers but the first of GLM-4.7-Flash have experts
    let default = usize::from(config.model_type == "glm4_moe_lite");
    some(if sparse { default } else { config.layers })
}

/// Whether the weights of the chosen experts are divided by their sum, which transformers never
/// does in V2.
fn normalised(config: &Config, _: &Rope) -> Computed {
    match config.all.flag(&["norm_topk_prob"])? {
        Some(true) if config.model_type == "deepseek_v2" => {
            Err(config.unsupported("norm_topk_prob", true, "false in V2"))
        }
        stated => Ok(stated.map(Value::from)),
    }
}

/// Rejects other numbers of key-value heads than of heads, which latent attention does not have.
fn check_kv_heads(config: &Config, _: &Rope) -> Computed {
    match config.all.size(&["num_key_value_heads"])? {
        Some(found) if config.all.contains("num_key_value_heads") && found != config.heads => {
            let expected = format!("{}, the number of heads", config.heads);
            Err(config.unsupported("num_key_value_heads", found, &expected))
        }
        _ => Ok(None),
    }
}

fn key_length(config: &Config, _: &Rope) -> Computed {
    let expected = config.all.required_size(&["qk_nope_head_dim"])?
        + config.all.required_size(&["qk_rope_head_dim"])?;
    match config.all.size(&["qk_head_dim"])? {
        Some(found) if found != expected => {
            let expected = format!("{expected}, the sum of qk_nope_head_dim and qk_rope_head_dim");
            Err(config.unsupported("qk_head_dim", found, &expected))
        }
        _ => some(expected),
    }
}

fn sum(config: &Config, first: &str, second: &str) -> Computed {
    some(config.all.required_size(&[first])? + config.all.required_size(&[second])?)
}

/// The growth of queries, which Mistral Small 4 has alone.
fn temperature(config: &Config, rope: &Rope) -> Computed {
    match &rope.scaling {
        Scaling::Yarn(yarn) if config.model_type == "mistral4" => {
            Ok(yarn.temperature.map(|beta| Value::from(beta as f32)))
        }
        _ => Ok(None),
    }
}

/// Rejects another part of a key that rotates than `qk_rope_head_dim`. Mistral Small 4 states it
/// twice, and the length of a key too.
fn check_rotated(config: &Config, rope: &Rope) -> Computed {
    if config.model_type == "mistral4"
        && let Some(found) = config.all.size(&["head_dim"])?
    {
        let whole = config.all.required_size(&["qk_nope_head_dim"])?
            + config.all.required_size(&["qk_rope_head_dim"])?;
        if found != whole {
            let expected = format!("{whole}, the sum of qk_nope_head_dim and qk_rope_head_dim");
            return Err(config.unsupported("head_dim", found, &expected));
        }
    }
    let Some(partial) = rope.partial else { return Ok(None) };
    let rotated = config.all.required_size(&["qk_rope_head_dim"])?;
    let whole = match config.model_type.as_str() {
        "mistral4" => rotated + config.all.required_size(&["qk_nope_head_dim"])?,
        _ => rotated,
    };
    if (partial * whole as f64) as usize == rotated {
        return Ok(None);
    }
    let expected = format!("{}, by qk_rope_head_dim", rotated as f64 / whole as f64);
    Err(config.unsupported("partial_rotary_factor", partial, &expected))
}

/// 1 where V2 chooses experts without groups, whatever their number.
fn groups(config: &Config, _: &Rope) -> Computed {
    if config.model_type == "mistral4"
        && let Some(count @ 2..) = config.all.size(&["n_group"])?
    {
        return Err(config.unsupported("n_group", count, "1 in Mistral Small 4"));
    }
    match config.all.text(&["topk_method"])? {
        None | Some("greedy") if config.model_type == "deepseek_v2" => {
            Ok(config.all.size(&["n_group"])?.map(|_| 1u32.into()))
        }
        None | Some("greedy") => Ok(None),
        Some("group_limited_greedy") if config.model_type == "deepseek_v2" => Ok(None),
        Some("noaux_tc") if config.model_type != "deepseek_v2" => Ok(None),
        Some(other) => {
            let expected = "greedy or group_limited_greedy in V2, noaux_tc in V3";
            Err(config.unsupported("topk_method", other, expected))
        }
    }
}

/// The router's function: sigmoid in V3, whose configurations in transformers' own format do not
/// say so.
fn gating(config: &Config, _: &Rope) -> Computed {
    match config.all.text(&["scoring_func"])? {
        Some("sigmoid") => some(2),
        Some("softmax") => some(1),
        Some(other) => Err(config.unsupported("scoring_func", other, "softmax or sigmoid")),
        None if ["deepseek_v3", "kimi_k2", "glm4_moe_lite", "sarvam_mla", "axk1"]
            .contains(&&*config.model_type) =>
        {
            some(2)
        }
        None => Ok(None),
    }
}
