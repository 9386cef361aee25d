//! Mixtures of experts with plain attention.

use super::granite::{ATTENTION_ALONE, FINETUNED, GRANITE, SINKS, SWA};
use super::llama::check_every_fourth_without_rope;
use crate::hf::common_keys::{
    EXPERT_WIDTH, NORMALISED, WINDOW, WINDOWED, half_rope_dims, head_dim, rope_dims, some,
    window_pattern,
};
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::json::Object;
use crate::hf::keys::{Key, check, derived, fixed_size, flag, flags, number, size};
use crate::hf::names::{
    ATTENTION, ENDS, EXPERTS, GATED, POST_NORMS, PRE_NORMS, PRE_NORMS_BY_PLACE, QK_NORMS,
    SELECTION_BIAS, SHARED_EXPERT,
};
use crate::hf::rope::Rope;
use crate::hf::rules::{How, Pieces, Rule, change, keep, parts};
use crate::hf::transforms::{
    alternating_biases, alternating_experts, dbrx_down, dbrx_up, gate_up, gate_up_experts,
    gate_up_shared, qwen3_vl_down, qwen3_vl_gate_up, transposed_experts,
    transposed_gate_up_experts,
};
use crate::{Error, Value};

const QWEN2MOE: Family = Family {
    classes: &["Qwen2MoeForCausalLM"],
    types: &["qwen2_moe"],
    architecture: "qwen2moe",
    keys: &[&[
        EXPERT_WIDTH,
        size("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
        NORMALISED,
        WINDOW,
        WINDOWED,
    ]],
    globals: &[ENDS],
    blocks: &[ATTENTION, PRE_NORMS, EXPERTS, SHARED_EXPERT],
    ..Family::DECODER
};

/// Keys of the experts of GLM 4.5 and later.
const GLM_EXPERTS: &[Key] = &[
    size("expert_count", &["n_routed_experts"]),
    EXPERT_WIDTH,
    size("expert_shared_count", &["n_shared_experts"]),
    fixed_size("expert_gating_func", 2),
    number("expert_weights_scale", &["routed_scaling_factor"]),
    NORMALISED,
];

const GLM4MOE: Family = Family {
    classes: &["Glm4MoeForCausalLM"],
    types: &["glm4_moe"],
    architecture: "glm4moe",
    keys: &[
        GLM_EXPERTS,
        &[
            derived("rope.dimension_count", half_rope_dims),
            size("leading_dense_block_count", &["first_k_dense_replace"]),
        ],
    ],
    blocks: &[
        ATTENTION,
        QK_NORMS,
        GATED,
        PRE_NORMS_BY_PLACE,
        SELECTION_BIAS,
        EXPERTS,
        SHARED_EXPERT,
    ],
    ..QWEN2MOE
};

pub(super) const FAMILIES: &[Family] = &[
    QWEN2MOE,
    Family {
        classes: &["Qwen3MoeForCausalLM"],
        types: &["qwen3_moe"],
        architecture: "qwen3moe",
        keys: &[&[EXPERT_WIDTH, NORMALISED, WINDOW, WINDOWED]],
        blocks: &[ATTENTION, QK_NORMS, PRE_NORMS, EXPERTS],
        ..QWEN2MOE
    },
    Family {
        classes: &["Qwen3VLMoeForConditionalGeneration"],
        types: &["qwen3_vl_moe_text"],
        architecture: "qwen3vlmoe",
        keys: &[&[EXPERT_WIDTH, NORMALISED, WINDOW, WINDOWED]],
        blocks: &[
            &[
                parts("mlp.experts.gate_up_proj", "", qwen3_vl_gate_up),
                parts("mlp.experts.down_proj", "ffn_down_exps.weight", qwen3_vl_down),
            ],
            ATTENTION,
            QK_NORMS,
            PRE_NORMS,
            EXPERTS,
            GATED,
        ],
        ..QWEN2MOE
    },
    Family {
        classes: &["FlexOlmoForCausalLM"],
        types: &["flex_olmo"],
        architecture: "flex_olmo",
        keys: &[&[NORMALISED]],
        blocks: &[ATTENTION, QK_NORMS, POST_NORMS, EXPERTS],
        ..QWEN2MOE
    },
    Family {
        classes: &["FlintForCausalLM"],
        types: &["flint"],
        architecture: "flint",
        keys: &[&[
            EXPERT_WIDTH,
            size("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]),
            NORMALISED,
            fixed_size("expert_gating_func", 2),
            size("attention.sliding_window", &["sliding_window"]),
            derived("attention.sliding_window_pattern", flint_pattern),
            check(|config, _| {
                // the tensors show the layers without experts
                config.all.disregard(&["decoder_sparse_step", "mlp_only_layers"]);
                Ok(None)
            }),
        ]],
        blocks: &[
            ATTENTION,
            QK_NORMS,
            SINKS,
            &[keep("self_attn.softmax_offset", "attn_sinks.weight")],
            PRE_NORMS,
            GATED,
            EXPERTS,
            SHARED_EXPERT,
        ],
        ..QWEN2MOE
    },
    Family {
        classes: &["DbrxForCausalLM"],
        types: &["dbrx"],
        architecture: "dbrx",
        keys: &[&[
            derived("attention.layer_norm_epsilon", |_, _| Ok(Some(1e-5f32.into()))),
            derived("attention.head_count_kv", |config, _| {
                some(dbrx(config, "attn_config")?.required_size(&["kv_n_heads"])?)
            }),
            derived("attention.clamp_kqv", |config, _| {
                let bound = dbrx(config, "attn_config")?.number(&["clip_qkv"])?;
                Ok(bound.map(|bound| Value::from(bound as f32)))
            }),
            derived("rope.freq_base", dbrx_base),
            derived("feed_forward_length", dbrx_width),
            derived("expert_feed_forward_length", dbrx_width),
            derived("expert_count", |config, _| {
                some(dbrx(config, "ffn_config")?.required_size(&["moe_num_experts"])?)
            }),
            derived("expert_used_count", |config, _| {
                some(dbrx(config, "ffn_config")?.required_size(&["moe_top_k"])?)
            }),
            check(check_dbrx),
        ]],
        globals: &[&[
            keep("wte", "token_embd"),
            keep("norm_f", "output_norm"),
            keep("lm_head", "output"),
        ]],
        blocks: &[&[
            keep("norm_attn_norm.norm_1", "attn_norm"),
            keep("norm_attn_norm.norm_2", "attn_output_norm"),
            keep("norm_attn_norm.attn.Wqkv", "attn_qkv"),
            keep("norm_attn_norm.attn.out_proj", "attn_output"),
            keep("ffn.router.layer", "ffn_gate_inp"),
            parts("ffn.experts.mlp.w1", "ffn_gate_exps.weight", dbrx_up),
            parts("ffn.experts.mlp.v1", "ffn_up_exps.weight", dbrx_up),
            parts("ffn.experts.mlp.w2", "ffn_down_exps.weight", dbrx_down),
        ]],
        prefixes: &["transformer.", ""],
        block: "blocks.",
        ..QWEN2MOE
    },
    Family {
        classes: &["OlmoeForCausalLM"],
        types: &["olmoe"],
        architecture: "olmoe",
        keys: &[&[NORMALISED]],
        blocks: &[ATTENTION, QK_NORMS, PRE_NORMS, EXPERTS],
        ..QWEN2MOE
    },
    Family {
        classes: &["GptOssForCausalLM"],
        types: &["gpt_oss"],
        architecture: "gpt-oss",
        keys: &[&[
            size("attention.sliding_window", &["sliding_window"]),
            derived("attention.sliding_window_pattern", window_pattern),
            size("expert_feed_forward_length", &["intermediate_size"]),
        ]],
        blocks: &[
            ATTENTION,
            PRE_NORMS_BY_PLACE,
            &[
                keep("self_attn.sinks", "attn_sinks.weight"),
                keep("mlp.router", "ffn_gate_inp"),
                parts("mlp.experts.gate_up_proj", "", alternating_experts),
                parts("mlp.experts.gate_up_proj_bias", "", alternating_biases),
                parts("mlp.experts.down_proj", "ffn_down_exps.weight", transposed_experts),
                keep("mlp.experts.down_proj_bias", "ffn_down_exps.bias"),
                change(
                    "mlp.experts.gate_up_proj_blocks",
                    "",
                    How::Mxfp4Blocks(Pieces::EvenOdd("ffn_gate_exps.weight", "ffn_up_exps.weight")),
                ),
                change("mlp.experts.gate_up_proj_scales", "", How::Mxfp4Scales),
                change(
                    "mlp.experts.down_proj_blocks",
                    "",
                    How::Mxfp4Blocks(Pieces::One("ffn_down_exps.weight")),
                ),
                change("mlp.experts.down_proj_scales", "", How::Mxfp4Scales),
            ],
        ],
        ..QWEN2MOE
    },
    GLM4MOE,
    Family {
        classes: &["SolarOpenForCausalLM"],
        types: &["solar_open"],
        keys: &[
            GLM_EXPERTS,
            &[
                derived("rope.dimension_count", rope_dims),
                fixed_size("leading_dense_block_count", 0),
            ],
        ],
        ..GLM4MOE
    },
    Family {
        classes: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
        types: &["granitemoe", "granitemoeshared"],
        architecture: "granitemoe",
        keys: &[GRANITE, &[SHARED_MLP_WIDTH]],
        blocks: &[ATTENTION, PRE_NORMS, GRANITE_EXPERTS],
        ..QWEN2MOE
    },
    Family {
        classes: &["GraniteMoeSWAForCausalLM"],
        types: &["granitemoe_swa"],
        architecture: "granite_swa",
        keys: &[GRANITE, &[SHARED_MLP_WIDTH], SWA],
        blocks: &[ATTENTION, SINKS, PRE_NORMS, FUSED_EXPERTS],
        ..QWEN2MOE
    },
    Family {
        classes: &["GraniteMoeHybridForCausalLM"],
        types: &["granitemoehybrid"],
        needs: "num_local_experts",
        architecture: "granitemoe",
        keys: &[GRANITE, &[SHARED_MLP_WIDTH, ATTENTION_ALONE, FINETUNED]],
        blocks: &[ATTENTION, PRE_NORMS, GRANITE_EXPERTS],
        ..QWEN2MOE
    },
    Family {
        classes: &["MellumForCausalLM"],
        types: &["mellum"],
        architecture: "mellum",
        keys: &[&[
            EXPERT_WIDTH,
            NORMALISED,
            derived("attention.sliding_window", mellum_window),
            derived("attention.sliding_window_pattern", window_pattern),
        ]],
        blocks: &[ATTENTION, QK_NORMS, PRE_NORMS, GATED, EXPERTS],
        ..QWEN2MOE
    },
    Family {
        classes: &["Llama4ForCausalLM", "Llama4ForConditionalGeneration"],
        types: &["llama4_text"],
        architecture: "llama4",
        keys: &[&[
            size("vocab_size", &["vocab_size"]),
            derived("rope.dimension_count", head_dim),
            size("interleave_moe_layer_step", &["interleave_moe_layer_step"]),
            size("expert_feed_forward_length", &["intermediate_size"]),
            size("feed_forward_length", &["intermediate_size_mlp"]),
            derived("attention.sliding_window", chunk),
            check(check_every_fourth_without_rope),
            flag("attention.qk_norm", &["use_qk_norm"]).optional(),
            derived("attention.temperature_scale", temperature),
            size("attention.temperature_length", &["floor_scale"]).optional(),
        ]],
        blocks: &[
            ATTENTION,
            PRE_NORMS,
            &[
                keep("feed_forward.router", "ffn_gate_inp"),
                parts("feed_forward.experts.gate_up_proj", "", transposed_gate_up_experts),
                parts("feed_forward.experts.down_proj", "ffn_down_exps.weight", transposed_experts),
                keep("feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"),
                keep("feed_forward.shared_expert.up_proj", "ffn_up_shexp"),
                keep("feed_forward.shared_expert.down_proj", "ffn_down_shexp"),
                keep("feed_forward.gate_proj", "ffn_gate"),
                keep("feed_forward.up_proj", "ffn_up"),
                keep("feed_forward.down_proj", "ffn_down"),
            ],
        ],
        ..QWEN2MOE
    },
];

pub(super) const GRANITE_EXPERTS: &[Rule] = &[
    keep("block_sparse_moe.router.layer", "ffn_gate_inp"),
    parts("block_sparse_moe.input_linear.weight", "", gate_up_experts),
    keep("block_sparse_moe.output_linear", "ffn_down_exps"),
    parts("shared_mlp.input_linear.weight", "", gate_up_shared),
    keep("shared_mlp.output_linear", "ffn_down_shexp"),
    parts("mlp.gate_up_proj.weight", "", gate_up),
];

/// Experts whose gate and up linears GGUF has in one tensor.
const FUSED_EXPERTS: &[Rule] = &[
    keep("block_sparse_moe.router.layer", "ffn_gate_inp"),
    keep("block_sparse_moe.router", "ffn_gate_inp"),
    keep("block_sparse_moe.input_linear", "ffn_gate_up_exps"),
    keep("block_sparse_moe.output_linear", "ffn_down_exps"),
    keep("block_sparse_moe.experts.gate_up_proj", "ffn_gate_up_exps.weight"),
    keep("block_sparse_moe.experts.down_proj", "ffn_down_exps.weight"),
    keep("shared_mlp.input_linear", "ffn_up_shexp"),
    keep("shared_mlp.output_linear", "ffn_down_shexp"),
];

/// The width of the network that all tokens have beside experts.
pub(super) const SHARED_MLP_WIDTH: Key =
    derived("expert_shared_feed_forward_length", |config, _| {
        match config.all.size(&["shared_intermediate_size"])? {
            None | Some(0) => Ok(None),
            Some(width) => some(width),
        }
    });

/// The layers with a window: by `layer_types`, or all but the first two, every fourth and the last.
fn flint_pattern(config: &Config, rope: &Rope) -> Result<Option<Value>, Error> {
    if let Some(pattern) = window_pattern(config, rope)? {
        return Ok(Some(pattern));
    }
    let last = config.layers - 1;
    let windowed = |layer: usize| !(layer < 2 || layer % 4 == 1 || layer == last);
    Ok(Some(flags((0..config.layers).map(windowed))))
}

/// An object of DBRX's configuration.
fn dbrx(config: &Config, key: &str) -> Result<Object, Error> {
    let object = config.all.object(key)?;
    object.ok_or_else(|| config.all.missing(key, "an object with the keys of a part"))
}

/// DBRX's base of rotations, which published files have among the keys of attention.
fn dbrx_base(config: &Config, rope: &Rope) -> Result<Option<Value>, Error> {
    let stated = match config.all.contains("rope_parameters") {
        true => rope.theta,
        false => dbrx(config, "attn_config")?.number(&["rope_theta"])?,
    };
    Ok(stated.map(|theta| Value::from(theta as f32)))
}

fn dbrx_width(config: &Config, _: &Rope) -> Result<Option<Value>, Error> {
    some(dbrx(config, "ffn_config")?.required_size(&["ffn_hidden_size"])?)
}

/// Rejects a tied output, another activation, and other sums than 1 of the weights of experts.
fn check_dbrx(config: &Config, _: &Rope) -> Result<Option<Value>, Error> {
    if config.tied {
        return Err(config.unsupported("tie_word_embeddings", true, "false"));
    }
    let own = dbrx(config, "ffn_config")?;
    let order = own.number(&["moe_normalize_expert_weights"])?;
    if order.is_some_and(|order| order != 1.0) {
        let key = "moe_normalize_expert_weights";
        return Err(own.invalid(key, order.unwrap_or_default(), "1"));
    }
    let activation = own.object("ffn_act_fn")?;
    let name = activation.as_ref().map(|own| own.text(&["name"])).transpose()?.flatten();
    match name {
        None | Some("silu") => Ok(None),
        Some(other) => Err(own.invalid("ffn_act_fn", other, "silu")),
    }
}

/// The window, if layers have it by `layer_types`.
fn mellum_window(config: &Config, _: &Rope) -> Result<Option<Value>, Error> {
    match config.layer_types()? {
        Some(types) if types.contains(&"sliding_attention") => {
            some(config.all.required_size(&["sliding_window"])?)
        }
        _ => {
            config.all.disregard(&["sliding_window"]);
            Ok(None)
        }
    }
}

/// Length of Llama 4's chunks of attention in all layers but each fourth; that of the context if
/// all layers see all keys.
fn chunk(config: &Config, _: &Rope) -> Result<Option<Value>, Error> {
    let length = config.all.required_size(&["attention_chunk_size"])?;
    let Some(types) = config.layer_types()? else { return some(length) };
    if types.iter().all(|name| *name == "full_attention") {
        return some(config.all.required_size(&["max_position_embeddings"])?);
    }
    let is_usual = |(layer, name): (usize, &&str)| {
        let chunked = !(layer + 1).is_multiple_of(4);
        *name == if chunked { "chunked_attention" } else { "full_attention" }
    };
    if types.iter().enumerate().all(is_usual) {
        return some(length);
    }
    let expected = "chunked_attention in all layers but each fourth, or full_attention in all";
    Err(config.unsupported("layer_types", "another list", expected))
}

/// Factor of the growth of queries; 0 if it is switched off.
fn temperature(config: &Config, _: &Rope) -> Result<Option<Value>, Error> {
    if config.all.flag(&["attn_temperature_tuning"])? == Some(false) {
        return Ok(Some(Value::from(0.0f32)));
    }
    let scale = config.all.number(&["attn_scale"])?;
    Ok(scale.map(|scale| Value::from(scale as f32)))
}
