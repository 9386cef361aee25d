//! Decoders with layer norm or plain feed-forward networks.

use crate::hf::common_keys::{
    WINDOW, WINDOWED, four_times_hidden, half_rope_dims, kv_heads, rope_dims, whole_heads,
};
use crate::hf::family::{Family, GELU};
use crate::hf::keys::{derived, flag, number, size};
use crate::hf::names::{ATTENTION, ENDS, GATED, PLAIN, PRE_NORMS, QK_NORMS};
use crate::hf::rope::Scaling;
use crate::hf::rules::{How, change, expert, keep, parts};
use crate::hf::transforms::swapped_halves;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        classes: &["PhiForCausalLM"],
        types: &["phi"],
        architecture: "phi2",
        keys: &[&[
            derived("feed_forward_length", four_times_hidden),
            derived("attention.head_count_kv", kv_heads),
            derived("rope.dimension_count", half_rope_dims),
        ]],
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
        keys: &[&[WINDOW, WINDOWED]],
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
        keys: &[&[
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
        ]],
        globals: &[ENDS],
        blocks: &[ATTENTION, PRE_NORMS, PLAIN],
        minus_one: "norm.weight",
        activations: &["relu2"],
        ..Family::DECODER
    },
    Family {
        classes: &["StableLmForCausalLM", "StableLMEpochForCausalLM"],
        types: &["stablelm", "stablelm_epoch"],
        architecture: "stablelm",
        keys: &[&[
            derived("rope.dimension_count", rope_dims),
            flag("use_parallel_residual", &["use_parallel_residual"]).optional(),
            number("attention.layer_norm_epsilon", &["layer_norm_eps", "norm_eps"]),
        ]],
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
        keys: &[&[derived("rope.dimension_count", whole_heads)]],
        globals: &[ENDS],
        blocks: &[ATTENTION, PRE_NORMS, PLAIN],
        activations: &["relu2"],
        ..Family::DECODER
    },
    Family {
        classes: &["ApertusForCausalLM"],
        types: &["apertus"],
        architecture: "apertus",
        keys: &[&[
            size("vocab_size", &["vocab_size"]),
            derived("rope.dimension_count", whole_heads),
        ]],
        globals: &[ENDS],
        blocks: &[
            ATTENTION,
            QK_NORMS,
            PLAIN,
            &[
                keep("attention_layernorm", "attn_norm"),
                keep("feedforward_layernorm", "ffn_norm"),
                keep("mlp.act_fn.alpha_p", "ffn_act.alpha_p.weight"),
                keep("mlp.act_fn.alpha_n", "ffn_act.alpha_n.weight"),
                // `beta`, whose name is that of a bias in old files
                change("mlp.act_fn.bias", "ffn_act.beta.weight", How::Squeeze),
                change("mlp.act_fn.eps", "ffn_act.eps.weight", How::Squeeze),
            ],
        ],
        activations: &["xielu"],
        ..Family::DECODER
    },
    Family {
        classes: &["NanoChatForCausalLM"],
        types: &["nanochat"],
        architecture: "nanochat",
        keys: &[&[
            derived("rope.dimension_count", whole_heads),
            number("final_logit_softcapping", &["final_logit_softcapping"]).optional(),
        ]],
        globals: &[ENDS],
        blocks: &[
            // pairs rotate backwards: the halves of a head change places
            &[
                parts("self_attn.q_proj", "attn_q", swapped_halves),
                parts("self_attn.k_proj", "attn_k", swapped_halves),
            ],
            ATTENTION,
            &[keep("mlp.fc1", "ffn_up"), keep("mlp.fc2", "ffn_down")],
        ],
        activations: &["relu2"],
        ..Family::DECODER
    },
    Family {
        classes: &["GlmForCausalLM"],
        types: &["glm"],
        architecture: "chatglm",
        keys: &[&[derived("rope.dimension_count", half_rope_dims)]],
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
        keys: &[&[derived("rope.dimension_count", half_rope_dims)]],
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
