//! Decoders with layer norm or plain feed-forward networks.

use crate::hf::common_keys::{
    WINDOW, WINDOWED, four_times_hidden, half_rope_dims, kv_heads, rope_dims, whole_heads,
};
use crate::hf::family::{Family, GELU};
use crate::hf::keys::{derived, flag, number, size};
use crate::hf::names::{ATTENTION, ENDS, GATED, PLAIN, PRE_NORMS};
use crate::hf::rope::Scaling;
use crate::hf::rules::{expert, keep};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        classes: &["PhiForCausalLM"],
        types: &["phi"],
        architecture: "phi2",
        keys: &[
            derived("feed_forward_length", four_times_hidden),
            derived("attention.head_count_kv", kv_heads),
            derived("rope.dimension_count", half_rope_dims),
        ],
        globals: &[ENDS, &[keep("final_layernorm", "output_norm")]],
        blocks: &[
            ATTENTION,
            &[
                keep("self_attn.dense", "attn_output"),
                keep("mlp.fc1", "ffn_up"),
                keep("mlp.fc2", "ffn_down"),
                keep("input_layernorm", "attn_norm"),
            ],
        ],
        activations: GELU,
        ..Family::DECODER
    },
    Family {
        classes: &["Starcoder2ForCausalLM"],
        types: &["starcoder2"],
        architecture: "starcoder2",
        keys: &[WINDOW, WINDOWED],
        globals: &[ENDS],
        blocks: &[
            ATTENTION,
            PRE_NORMS,
            &[keep("mlp.c_fc", "ffn_up"), keep("mlp.c_proj", "ffn_down")],
        ],
        activations: GELU,
        ..Family::DECODER
    },
    Family {
        classes: &["NemotronForCausalLM"],
        types: &["nemotron"],
        architecture: "nemotron",
        keys: &[
            size("vocab_size", &["vocab_size"]),
            number("attention.layer_norm_epsilon", &["norm_eps", "layer_norm_eps"]),
            derived("rope.dimension_count", half_rope_dims),
            derived("rope.scaling.type", |config, rope| match &rope.scaling {
                Scaling::Linear { .. } => Ok(Some("linear".into())),
                Scaling::Yarn(_) | Scaling::Long { .. } => {
                    Err(config.unsupported("rope_type", "another one", "default or linear"))
                }
                _ => Ok(Some("none".into())),
            }),
        ],
        globals: &[ENDS],
        blocks: &[ATTENTION, PRE_NORMS, PLAIN],
        norms_minus_one: true,
        activations: &["relu2"],
        ..Family::DECODER
    },
    Family {
        classes: &["StableLmForCausalLM", "StableLMEpochForCausalLM"],
        types: &["stablelm", "stablelm_epoch"],
        architecture: "stablelm",
        keys: &[
            derived("rope.dimension_count", rope_dims),
            flag("use_parallel_residual", &["use_parallel_residual"]).optional(),
            number("attention.layer_norm_epsilon", &["layer_norm_eps", "norm_eps"]),
        ],
        globals: &[ENDS],
        blocks: &[
            ATTENTION,
            GATED,
            PRE_NORMS,
            &[
                expert("self_attn.q_layernorm.norms.*", "attn_q_norm"),
                expert("self_attn.k_layernorm.norms.*", "attn_k_norm"),
            ],
        ],
        ..Family::DECODER
    },
    Family {
        classes: &["Jais2ForCausalLM"],
        types: &["jais2"],
        architecture: "jais2",
        keys: &[derived("rope.dimension_count", whole_heads)],
        globals: &[ENDS],
        blocks: &[ATTENTION, PRE_NORMS, PLAIN],
        activations: &["relu2"],
        ..Family::DECODER
    },
    Family {
        classes: &["GlmForCausalLM"],
        types: &["glm"],
        architecture: "chatglm",
        keys: &[derived("rope.dimension_count", half_rope_dims)],
        globals: &[ENDS],
        blocks: &[
            ATTENTION,
            PRE_NORMS,
            &[keep("mlp.gate_up_proj", "ffn_up"), keep("mlp.down_proj", "ffn_down")],
        ],
        ..Family::DECODER
    },
    Family {
        classes: &["Glm4ForCausalLM"],
        types: &["glm4"],
        architecture: "glm4",
        keys: &[derived("rope.dimension_count", half_rope_dims)],
        globals: &[ENDS],
        blocks: &[
            ATTENTION,
            PRE_NORMS,
            &[
                keep("mlp.gate_up_proj", "ffn_up"),
                keep("mlp.down_proj", "ffn_down"),
                keep("post_self_attn_layernorm", "post_attention_norm"),
                keep("post_mlp_layernorm", "post_ffw_norm"),
            ],
        ],
        ..Family::DECODER
    },
];
