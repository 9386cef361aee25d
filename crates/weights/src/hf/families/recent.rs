//! Models of 2025 and 2026.

use super::llama::{LLAMA, ROPE_DIMS, VOCAB, exaone4_pattern};
use crate::hf::common_keys::{
    EXPERT_WIDTH, NORMALISED, UNSCALED, WHOLE_HEADS, WINDOW, WINDOWED, half_rope_dims, rope_dims,
    some,
};
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::keys::{Key, check, derived, fixed_flag, fixed_size, number, size};
use crate::hf::names::{
    ATTENTION, ENDS, EXPERTS, GATED, MIXTRAL, PLAIN, PRE_NORMS, PRE_NORMS_BY_PLACE, QK_NORMS,
    SELECTION_BIAS, SHARED_EXPERT,
};
use crate::hf::rope::Rope;
use crate::hf::rules::{How, Rule, change, keep, parts};
use crate::hf::transforms::qkv_rows;
use crate::{Error, Value};

type Computed = Result<Option<Value>, Error>;

/// Norms of queries and keys of Hunyuan 1.
const LAYER_NORMS: &[Rule] = &[
    keep("self_attn.query_layernorm", "attn_q_norm"),
    keep("self_attn.key_layernorm", "attn_k_norm"),
];

pub(super) const SIGMOID: Key = fixed_size("expert_gating_func", 2);
pub(super) const SCALE: Key = number("expert_weights_scale", &["routed_scaling_factor"]);

/// Names of Ling and Sarvam.
const LING: &[Rule] = &[
    keep("attention.query_key_value", "attn_qkv"),
    keep("attention.dense", "attn_output"),
    keep("attention.query_layernorm", "attn_q_norm"),
    keep("attention.key_layernorm", "attn_k_norm"),
    keep("mlp.gate.expert_bias", "exp_probs_b.bias"),
];
const EMBEDDINGS: &[Rule] = &[keep("word_embeddings", "token_embd")];

const BAILINGMOE2: Family = Family {
    classes: &["BailingMoeV2ForCausalLM", "SarvamMoEForCausalLM"],
    types: &["sarvam_moe"],
    architecture: "bailingmoe2",
    keys: &[&[
        VOCAB,
        derived("rope.dimension_count", half_rope_dims),
        EXPERT_WIDTH,
        size("expert_shared_count", &["num_shared_experts", "n_shared_experts"]).optional(),
        derived("expert_shared_feed_forward_length", shared_width),
        size("leading_dense_block_count", &["first_k_dense_replace"]).optional(),
        SCALE,
        NORMALISED,
        SIGMOID,
    ]],
    globals: &[ENDS, EMBEDDINGS],
    blocks: &[LING, PRE_NORMS, GATED, EXPERTS, SHARED_EXPERT],
    ..LLAMA
};

pub(super) const FAMILIES: &[Family] = &[
    BAILINGMOE2,
    Family {
        classes: &["BailingMoeForCausalLM"],
        types: &[],
        architecture: "bailingmoe",
        keys: &[&[
            VOCAB,
            ROPE_DIMS,
            EXPERT_WIDTH,
            size("expert_shared_count", &["num_shared_experts"]).optional(),
            size("leading_dense_block_count", &["first_k_dense_replace"]).optional(),
            derived("expert_weights_scale", |_, _| Ok(Some(1.0f32.into()))),
            NORMALISED,
            check(check_plain_head),
        ]],
        blocks: &[
            &[parts("attention.query_key_value.weight", "", qkv_rows)],
            LING,
            PRE_NORMS,
            GATED,
            EXPERTS,
            SHARED_EXPERT,
        ],
        ..BAILINGMOE2
    },
    Family {
        classes: &["SeedOssForCausalLM"],
        types: &["seed_oss"],
        architecture: "seed_oss",
        keys: &[&[WHOLE_HEADS]],
        blocks: &[ATTENTION, GATED, PRE_NORMS_BY_PLACE],
        ..LLAMA
    },
    Family {
        classes: &["ArceeForCausalLM"],
        types: &["arcee"],
        architecture: "arcee",
        blocks: &[ATTENTION, PLAIN, PRE_NORMS],
        activations: &["relu2"],
        ..LLAMA
    },
    Family {
        classes: &["Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"],
        types: &["ernie4_5"],
        architecture: "ernie4_5",
        keys: &[&[WHOLE_HEADS]],
        ..LLAMA
    },
    Family {
        classes: &["Ernie4_5_MoeForCausalLM"],
        types: &["ernie4_5_moe"],
        architecture: "ernie4_5-moe",
        keys: &[&[
            WHOLE_HEADS,
            size("expert_count", &["moe_num_experts", "num_experts"]),
            size("expert_used_count", &["moe_k", "num_experts_per_tok"]),
            EXPERT_WIDTH,
            size("expert_shared_count", &["moe_num_shared_experts"]).optional(),
            derived("expert_shared_feed_forward_length", shared_width),
            size("leading_dense_block_count", &["moe_layer_start_index"]).optional(),
            size("interleave_moe_layer_step", &["moe_layer_interval"]).optional(),
            fixed_size("expert_gating_func", 1),
            check(check_last_experts),
        ]],
        blocks: &[
            ATTENTION,
            PRE_NORMS,
            GATED,
            EXPERTS,
            SHARED_EXPERT,
            &[change("mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", How::Squeeze)],
        ],
        unused: &["mtp_"],
        ..LLAMA
    },
    Family {
        classes: &["HunYuanDenseV1ForCausalLM"],
        types: &["hunyuan_v1_dense"],
        architecture: "hunyuan-dense",
        keys: &[&[WHOLE_HEADS]],
        blocks: &[ATTENTION, LAYER_NORMS, GATED, PRE_NORMS],
        ..LLAMA
    },
    Family {
        classes: &["HunYuanMoEV1ForCausalLM"],
        types: &["hunyuan_v1_moe"],
        architecture: "hunyuan-moe",
        keys: &[&[
            WHOLE_HEADS,
            derived("expert_count", |config, _| one_for_all(config, "num_experts")),
            derived("expert_used_count", |config, _| one_for_all(config, "moe_topk")),
            size("expert_feed_forward_length", &["intermediate_size"]),
            size("expert_shared_feed_forward_length", &["intermediate_size"]),
            fixed_size("expert_shared_count", 1),
        ]],
        blocks: &[
            ATTENTION,
            LAYER_NORMS,
            PRE_NORMS,
            EXPERTS,
            &[
                keep("mlp.gate.wg", "ffn_gate_inp"),
                keep("mlp.shared_mlp.gate_proj", "ffn_gate_shexp"),
                keep("mlp.shared_mlp.up_proj", "ffn_up_shexp"),
                keep("mlp.shared_mlp.down_proj", "ffn_down_shexp"),
            ],
        ],
        ..LLAMA
    },
    Family {
        classes: &["HYV3ForCausalLM"],
        types: &["hy_v3"],
        architecture: "hy_v3",
        keys: &[&[
            WHOLE_HEADS,
            EXPERT_WIDTH,
            size("expert_shared_count", &["num_shared_experts"]).optional(),
            derived("expert_shared_feed_forward_length", shared_width),
            number("expert_weights_scale", &["router_scaling_factor"]),
            fixed_flag("expert_weights_norm", true),
            SIGMOID,
        ]],
        blocks: &[
            ATTENTION,
            QK_NORMS,
            GATED,
            PRE_NORMS,
            EXPERTS,
            SHARED_EXPERT,
            &[
                keep("mlp.router.gate", "ffn_gate_inp"),
                keep("mlp.expert_bias", "exp_probs_b"),
                keep("mlp.e_score_correction_bias", "exp_probs_b"),
                keep("mlp.shared_mlp.gate_proj", "ffn_gate_shexp"),
                keep("mlp.shared_mlp.up_proj", "ffn_up_shexp"),
                keep("mlp.shared_mlp.down_proj", "ffn_down_shexp"),
            ],
        ],
        ..LLAMA
    },
    Family {
        classes: &["Dots1ForCausalLM"],
        types: &["dots1"],
        architecture: "dots1",
        keys: &[&[
            WHOLE_HEADS,
            WINDOW,
            WINDOWED,
            EXPERT_WIDTH,
            size("expert_shared_count", &["n_shared_experts"]).optional(),
            size("leading_dense_block_count", &["first_k_dense_replace"]),
            SIGMOID,
            SCALE,
            NORMALISED,
        ]],
        blocks: &[ATTENTION, QK_NORMS, GATED, PRE_NORMS, SELECTION_BIAS, EXPERTS, SHARED_EXPERT],
        ..LLAMA
    },
    Family {
        classes: &["MiniMaxM2ForCausalLM"],
        types: &["minimax_m2"],
        architecture: "minimax-m2",
        keys: &[&[
            derived("rope.dimension_count", rotary_dim),
            size("expert_feed_forward_length", &["intermediate_size"]),
            SIGMOID,
        ]],
        blocks: &[
            ATTENTION,
            QK_NORMS,
            PRE_NORMS,
            MIXTRAL,
            &[
                keep("block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"),
                keep("mlp.e_score_correction_bias", "exp_probs_b.bias"),
            ],
        ],
        ..LLAMA
    },
    Family {
        classes: &["ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"],
        types: &["exaone_moe"],
        architecture: "exaone-moe",
        keys: &[&[
            WHOLE_HEADS,
            VOCAB,
            UNSCALED,
            size("attention.sliding_window", &["sliding_window"]).optional(),
            derived("attention.sliding_window_pattern", exaone4_pattern),
            EXPERT_WIDTH,
            size("expert_shared_count", &["num_shared_experts"]).optional(),
            derived("expert_shared_feed_forward_length", shared_width),
            size("leading_dense_block_count", &["first_k_dense_replace"]).optional(),
            SIGMOID,
            SCALE,
            NORMALISED,
        ]],
        blocks: &[
            ATTENTION,
            QK_NORMS,
            GATED,
            PRE_NORMS,
            SELECTION_BIAS,
            EXPERTS,
            SHARED_EXPERT,
            &[keep("mlp.e_score_correction_bias", "exp_probs_b.bias")],
        ],
        unused: &["mtp."],
        ..LLAMA
    },
];

/// Width of the shared experts together.
pub(super) fn shared_width(config: &Config, _: &Rope) -> Computed {
    let names = &["moe_num_shared_experts", "num_shared_experts", "n_shared_experts"];
    let Some(count) = config.all.size(names)?.filter(|&count| count > 0) else { return Ok(None) };
    let width = config.all.required_size(&["moe_intermediate_size", "intermediate_size"])?;
    match u32::try_from(count.saturating_mul(width)) {
        Ok(width) => Ok(Some(width.into())),
        Err(_) => Err(config.unsupported("moe_intermediate_size", width, "a smaller width")),
    }
}

/// Rejects dense layers after the first layer with experts: the tensors show each layer's kind.
fn check_last_experts(config: &Config, _: &Rope) -> Computed {
    let key = "moe_layer_end_index";
    let Some(last) = config.all.get(key).and_then(serde_json::Value::as_i64) else {
        return Ok(None);
    };
    if last == -1 || usize::try_from(last).is_ok_and(|last| last + 1 >= config.layers) {
        return Ok(None);
    }
    Err(config.unsupported(
        key,
        last,
        &format!("-1 or at least {}, the last layer", config.layers - 1),
    ))
}

/// Rejects an output layer with normed rows.
fn check_plain_head(config: &Config, _: &Rope) -> Computed {
    match config.all.flag(&["norm_head"])? {
        Some(true) => Err(config.unsupported("norm_head", true, "false")),
        _ => Ok(None),
    }
}

/// An integer that a configuration states once or for each layer.
fn one_for_all(config: &Config, key: &str) -> Computed {
    let expected = "an integer, or a list of equal ones";
    let Some(found) = config.all.get(key) else { return Err(config.all.missing(key, expected)) };
    let one = match found.as_array().map(Vec::as_slice) {
        Some([first, rest @ ..]) if rest.iter().all(|other| other == first) => first,
        Some(_) => return Err(config.unsupported(key, found, expected)),
        None => found,
    };
    match one.as_u64().and_then(|one| u32::try_from(one).ok()) {
        Some(one) if one > 0 => Ok(Some(one.into())),
        _ => Err(config.unsupported(key, found, expected)),
    }
}

/// The rotated dimensions of a head, which published files of MiniMax state as a number.
fn rotary_dim(config: &Config, rope: &Rope) -> Computed {
    match (config.all.size(&["rotary_dim"])?, rope.partial) {
        (Some(dims), None) => some(dims),
        _ => rope_dims(config, rope),
    }
}
