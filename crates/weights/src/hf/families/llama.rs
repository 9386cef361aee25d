//! Llama and its relatives: RMS norm before each branch, gated feed-forward, rotary embedding.

use crate::hf::common_keys::{
    RANK, WHOLE_HEADS, WINDOW, WINDOWED, head_dim, original_context, rope_dims, some, whole_heads,
    window_pattern, window_pattern_of_4,
};
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::keys::{Key, check, derived, flags, number, size};
use crate::hf::names::{ATTENTION, ENDS, GATED, MIXTRAL, POST_NORMS, PRE_NORMS, QK_NORMS};
use crate::hf::rope::{Rope, Scaling};
use crate::hf::rules::{keep, parts};
use crate::hf::transforms::internlm_qkv;
use crate::{Error, Value};

pub(super) const VOCAB: Key = size("vocab_size", &["vocab_size"]);
pub(super) const ROPE_DIMS: Key = derived("rope.dimension_count", head_dim);

pub(super) const LLAMA: Family = Family {
    classes: &[
        "LlamaForCausalLM",
        "LLaMAForCausalLM",
        "MistralForCausalLM",
        "MinistralForCausalLM",
        "LlamaModel",
        "MistralModel",
        "InternLM3ForCausalLM",
        "IQuestCoderForCausalLM",
    ],
    types: &["llama", "mistral", "ministral", "internlm3", "iquestcoder"],
    architecture: "llama",
    keys: &[&[VOCAB, ROPE_DIMS, WINDOW, WINDOWED]],
    globals: &[ENDS],
    blocks: &[ATTENTION, GATED, PRE_NORMS],
    // Idefics3 and SmolVLM have the second part
    prefixes: &["model.text_model.", "model.", ""],
    ..Family::DECODER
};

/// The factors of MiniCPM.
pub(super) const MINICPM: &[Key] = &[
    number("embedding_scale", &["scale_emb"]),
    derived("residual_scale", |config, _| {
        let depth = config.all.required_number(&["scale_depth"])?;
        Ok(Some(Value::from((depth / (config.layers as f64).sqrt()) as f32)))
    }),
    derived("logit_scale", |config, _| {
        let base = config.all.required_size(&["dim_model_base"])?;
        Ok(Some(Value::from((config.hidden as f64 / base as f64) as f32)))
    }),
];

pub(super) const FAMILIES: &[Family] = &[
    LLAMA,
    Family {
        classes: &["MixtralForCausalLM"],
        types: &["mixtral"],
        blocks: &[ATTENTION, MIXTRAL, PRE_NORMS],
        ..LLAMA
    },
    Family {
        classes: &["Mistral3ForConditionalGeneration", "Ministral3ForCausalLM"],
        types: &["ministral3"],
        architecture: "mistral3",
        keys: &[&[
            VOCAB,
            ROPE_DIMS,
            WINDOW,
            WINDOWED,
            derived("rope.scaling.yarn_log_multiplier", |_, rope| match &rope.scaling {
                Scaling::Yarn(yarn) => Ok(yarn.mscale_all_dim.map(|m| Value::from(m as f32))),
                _ => Ok(None),
            }),
            derived("attention.temperature_scale", |_, rope| match &rope.scaling {
                Scaling::Yarn(yarn) => Ok(yarn.temperature.map(|beta| Value::from(beta as f32))),
                _ => Ok(None),
            }),
        ]],
        ..LLAMA
    },
    Family {
        classes: &["CwmForCausalLM"],
        types: &["cwm"],
        keys: &[&[
            VOCAB,
            ROPE_DIMS,
            size("attention.sliding_window", &["sliding_window"]).optional(),
            derived("attention.sliding_window_pattern", cwm_pattern),
        ]],
        ..LLAMA
    },
    Family {
        classes: &["SmolLM3ForCausalLM"],
        types: &["smollm3"],
        architecture: "smollm3",
        keys: &[&[VOCAB, ROPE_DIMS, WINDOW, WINDOWED, check(check_every_fourth_without_rope)]],
        ..LLAMA
    },
    Family {
        classes: &["MiniCPMForCausalLM"],
        types: &["minicpm"],
        architecture: "minicpm",
        keys: &[&[WHOLE_HEADS], MINICPM],
        ..LLAMA
    },
    Family {
        classes: &["InternLM2ForCausalLM"],
        types: &["internlm2"],
        architecture: "internlm2",
        keys: &[&[WHOLE_HEADS]],
        globals: &[&[
            keep("tok_embeddings", "token_embd"),
            keep("norm", "output_norm"),
            keep("output", "output"),
        ]],
        blocks: &[&[
            parts("attention.wqkv.weight", "", internlm_qkv),
            keep("attention.wo", "attn_output"),
            keep("attention_norm", "attn_norm"),
            keep("ffn_norm", "ffn_norm"),
            keep("feed_forward.w1", "ffn_gate"),
            keep("feed_forward.w2", "ffn_down"),
            keep("feed_forward.w3", "ffn_up"),
        ]],
        ..LLAMA
    },
    Family {
        classes: &["XverseForCausalLM"],
        types: &["xverse"],
        architecture: "xverse",
        keys: &[&[WHOLE_HEADS, ROPE_DIMS]],
        ..LLAMA
    },
    Family {
        classes: &["OrionForCausalLM"],
        types: &["orion"],
        architecture: "orion",
        // The norm is layer norm, whatever the key's name.
        keys: &[&[WHOLE_HEADS, number("attention.layer_norm_epsilon", &["rms_norm_eps"])]],
        ..LLAMA
    },
    Family {
        classes: &["Qwen2ForCausalLM", "Qwen2Model"],
        types: &["qwen2"],
        architecture: "qwen2",
        keys: &[&[WINDOW, WINDOWED]],
        ..LLAMA
    },
    Family {
        classes: &["Qwen3ForCausalLM", "Qwen3Model", "Qwen3ForSequenceClassification"],
        types: &["qwen3"],
        architecture: "qwen3",
        keys: &[&[WINDOW, WINDOWED, RANK]],
        globals: &[ENDS, &[keep("score", "cls.output")]],
        blocks: &[ATTENTION, QK_NORMS, GATED, PRE_NORMS],
        ..LLAMA
    },
    Family {
        classes: &["Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"],
        types: &["qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"],
        architecture: "qwen2vl",
        keys: &[&[WINDOW, WINDOWED]],
        ..LLAMA
    },
    Family {
        classes: &["Qwen3VLForConditionalGeneration"],
        types: &["qwen3_vl_text"],
        architecture: "qwen3vl",
        keys: &[&[WINDOW, WINDOWED]],
        blocks: &[ATTENTION, QK_NORMS, GATED, PRE_NORMS],
        ..LLAMA
    },
    Family {
        classes: &["OlmoForCausalLM"],
        types: &["olmo"],
        architecture: "olmo",
        keys: &[&[
            VOCAB,
            ROPE_DIMS,
            derived("attention.layer_norm_epsilon", |_, _| Ok(Some(1e-5f32.into()))),
            number("attention.clamp_kqv", &["clip_qkv"]).optional(),
        ]],
        blocks: &[ATTENTION, GATED],
        ..LLAMA
    },
    Family {
        classes: &["Olmo2ForCausalLM", "Olmo3ForCausalLM"],
        types: &["olmo2", "olmo3"],
        architecture: "olmo2",
        keys: &[&[
            size("attention.sliding_window", &["sliding_window"]).optional(),
            derived("attention.sliding_window_pattern", |config, rope| {
                let windowed = config.all.get("sliding_window").is_some();
                if windowed { window_pattern_of_4(config, rope) } else { Ok(None) }
            }),
        ]],
        blocks: &[ATTENTION, QK_NORMS, GATED, POST_NORMS],
        ..LLAMA
    },
    Family {
        classes: &["ExaoneForCausalLM"],
        types: &["exaone"],
        architecture: "exaone",
        keys: &[&[
            derived("rope.dimension_count", whole_heads),
            // The norm is RMS norm, whatever the key's name.
            number("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon"]),
        ]],
        globals: &[&[
            keep("wte", "token_embd"),
            keep("ln_f", "output_norm"),
            keep("lm_head", "output"),
        ]],
        blocks: &[&[
            keep("attn.attention.q_proj", "attn_q"),
            keep("attn.attention.k_proj", "attn_k"),
            keep("attn.attention.v_proj", "attn_v"),
            keep("attn.attention.out_proj", "attn_output"),
            keep("ln_1", "attn_norm"),
            keep("ln_2", "ffn_norm"),
            keep("mlp.c_fc_0", "ffn_gate"),
            keep("mlp.c_fc_1", "ffn_up"),
            keep("mlp.c_proj", "ffn_down"),
        ]],
        prefixes: &["transformer.", ""],
        block: "h.",
        ..LLAMA
    },
    Family {
        classes: &["Exaone4ForCausalLM", "Exaone4_5_ForConditionalGeneration"],
        types: &["exaone4"],
        architecture: "exaone4",
        keys: &[&[
            VOCAB,
            size("attention.sliding_window", &["sliding_window"]).optional(),
            derived("attention.sliding_window_pattern", exaone4_pattern),
        ]],
        blocks: &[ATTENTION, QK_NORMS, GATED, POST_NORMS],
        ..LLAMA
    },
    Family {
        classes: &["Phi3ForCausalLM"],
        types: &["phi3"],
        architecture: "phi3",
        keys: &[&[
            derived("rope.scaling.original_context_length", |config, rope| {
                some(original_context(config, rope)?)
            }),
            derived("rope.dimension_count", rope_dims),
            derived("attention.sliding_window", |config, _| {
                some(config.all.size(&["sliding_window"])?.unwrap_or(0))
            }),
        ]],
        blocks: &[
            &[
                keep("self_attn.qkv_proj", "attn_qkv"),
                keep("self_attn.o_proj", "attn_output"),
                keep("mlp.gate_up_proj", "ffn_up"),
                keep("mlp.down_proj", "ffn_down"),
            ],
            PRE_NORMS,
        ],
        ..LLAMA
    },
];

/// Rejects a pattern of layers without rotary embedding other than every fourth, which has no
/// GGUF key.
pub(super) fn check_every_fourth_without_rope(
    config: &Config,
    _: &Rope,
) -> Result<Option<Value>, Error> {
    let Some(layers) = config.all.list("no_rope_layers")? else { return Ok(None) };
    let expected = |layer: usize| u64::from(!(layer + 1).is_multiple_of(4));
    let fits = layers.iter().enumerate().all(|(layer, v)| v.as_u64() == Some(expected(layer)));
    if fits {
        config.all.disregard(&["no_rope_layer_interval"]);
        return Ok(None);
    }
    Err(config.unsupported("no_rope_layers", "another list", "0 for every fourth layer only"))
}

/// Which layers have a window: by `layer_types`, or all but the first of each four.
fn cwm_pattern(config: &Config, rope: &Rope) -> Result<Option<Value>, Error> {
    if config.all.get("sliding_window").is_none() {
        config.all.disregard(&["layer_types"]);
        return Ok(None);
    }
    match window_pattern(config, rope)? {
        Some(pattern) => Ok(Some(pattern)),
        None => Ok(Some(flags((0..config.layers).map(|layer| !layer.is_multiple_of(4))))),
    }
}

/// Which layers have a window: by `layer_types`, or by letters ("LLLG") or a period.
pub(super) fn exaone4_pattern(config: &Config, rope: &Rope) -> Result<Option<Value>, Error> {
    // Layers without a window then have no rotary embedding, all of them.
    let has_window = |types: Vec<&str>| types.contains(&"sliding_attention");
    if config.all.get("sliding_window").is_some() && !config.layer_types()?.is_none_or(has_window) {
        return Err(config.unsupported(
            "layer_types",
            "without a window",
            "some sliding_attention",
        ));
    }
    let key = "sliding_window_pattern";
    if config.all.get("sliding_window").is_none() {
        config.all.disregard(&[key]);
        return Ok(None);
    }
    config.all.disregard(&[key]);
    let (false, Some(pattern)) = (config.all.contains("layer_types"), config.all.get(key)) else {
        return window_pattern_of_4(config, rope);
    };
    match pattern.as_str() {
        Some(letters) if !letters.is_empty() => {
            let letters = letters.as_bytes();
            let windowed = letters.iter().cycle().take(config.layers).map(|letter| *letter == b'L');
            Ok(Some(flags(windowed)))
        }
        _ => {
            let period = config.all.required_size(&[key])?;
            Ok(Some(flags((1..=config.layers).map(|layer| !layer.is_multiple_of(period)))))
        }
    }
}
