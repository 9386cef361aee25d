//! Models whose published code transformers does not have: Qwen 1, Baichuan 1, DeepSeek 1,
//! CodeShell, openPangu, Maincoder, DeciLM and Jais 1.

use super::llama::{LLAMA, ROPE_DIMS, VOCAB};
use crate::hf::common_keys::{EXPERT_WIDTH, NORMALISED, four_times_hidden, head_dim, whole_heads};
use crate::hf::config::Config;
use crate::hf::family::{Family, GELU};
use crate::hf::keys::{Key, check, derived, number, size, sizes};
use crate::hf::names::{ATTENTION, EXPERTS, GATED, PRE_NORMS, QK_NORMS, SHARED_EXPERT};
use crate::hf::rope::Rope;
use crate::hf::rules::{Rule, keep, parts};
use crate::hf::transforms::{qkv_rows, transposed_matrix};
use crate::{Error, Value};

type Computed = Result<Option<Value>, Error>;

/// The ends of models with the names of GPT-2.
const GPT_ENDS: &[Rule] =
    &[keep("wte", "token_embd"), keep("ln_f", "output_norm"), keep("lm_head", "output")];

/// Names of GPT-2 that these models share.
const GPT: &[Rule] = &[
    keep("ln_1", "attn_norm"),
    keep("attn.c_attn", "attn_qkv"),
    keep("attn.c_proj", "attn_output"),
    keep("ln_2", "ffn_norm"),
    keep("mlp.c_fc", "ffn_up"),
    keep("mlp.c_proj", "ffn_down"),
];

const GPT_LIKE: Family = Family {
    globals: &[GPT_ENDS],
    blocks: &[GPT],
    prefixes: &["transformer.", ""],
    block: "h.",
    ..Family::DECODER
};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        classes: &["QWenLMHeadModel"],
        types: &["qwen"],
        architecture: "qwen",
        keys: &[&[
            // attention changes with the length of the text beyond it
            size("context_length", &["seq_length"]),
            number("attention.layer_norm_rms_epsilon", &["layer_norm_epsilon"]),
            derived("rope.dimension_count", whole_heads),
            check(check_qwen),
        ]],
        blocks: &[GPT, &[keep("mlp.w1", "ffn_up"), keep("mlp.w2", "ffn_gate")]],
        ..GPT_LIKE
    },
    Family {
        classes: &["BaichuanForCausalLM", "BaiChuanForCausalLM"],
        types: &["baichuan"],
        architecture: "baichuan",
        keys: &[&[
            size("context_length", &["model_max_length", "max_position_embeddings"]),
            ROPE_DIMS,
            check(check_baichuan),
        ]],
        blocks: &[&[parts("self_attn.W_pack.weight", "", qkv_rows)], ATTENTION, GATED, PRE_NORMS],
        ..LLAMA
    },
    Family {
        classes: &["DeepseekForCausalLM"],
        types: &["deepseek"],
        architecture: "deepseek",
        keys: &[&[
            VOCAB,
            ROPE_DIMS,
            EXPERT_WIDTH,
            size("expert_shared_count", &["n_shared_experts"]),
            size("leading_dense_block_count", &["first_k_dense_replace"]),
            NORMALISED,
            check(check_softmax),
        ]],
        blocks: &[ATTENTION, GATED, PRE_NORMS, EXPERTS, SHARED_EXPERT],
        ..LLAMA
    },
    Family {
        classes: &["CodeShellForCausalLM"],
        types: &["codeshell"],
        architecture: "codeshell",
        keys: &[&[
            derived("feed_forward_length", four_times_hidden),
            size("attention.head_count_kv", &["num_query_groups"]),
            derived("rope.dimension_count", whole_heads),
            check(check_codeshell),
        ]],
        activations: GELU,
        ..GPT_LIKE
    },
    Family {
        classes: &["PanguEmbeddedForCausalLM"],
        types: &["PanguEmbedded"],
        architecture: "pangu-embedded",
        ..LLAMA
    },
    Family {
        classes: &["MaincoderForCausalLM"],
        types: &["maincoder"],
        architecture: "maincoder",
        blocks: &[ATTENTION, QK_NORMS, GATED, PRE_NORMS],
        ..LLAMA
    },
    Family {
        classes: &["DeciLMForCausalLM"],
        types: &["deci", "nemotron-nas"],
        architecture: "deci",
        keys: &[&[
            VOCAB,
            ROPE_DIMS,
            derived("attention.head_count", |config, _| deci(config, |layer| layer.heads)),
            derived("attention.head_count_kv", |config, _| deci(config, |layer| layer.kv_heads)),
            derived("feed_forward_length", |config, _| deci(config, |layer| layer.width)),
            derived("attention.key_length", head_dim),
            derived("attention.value_length", head_dim),
        ]],
        blocks: &[ATTENTION, &[keep("self_attn.linear_attn", "attn_output")], GATED, PRE_NORMS],
        ..LLAMA
    },
    Family {
        classes: &["JAISLMHeadModel"],
        types: &["jais"],
        architecture: "jais",
        keys: &[&[
            size("context_length", &["n_positions"]),
            size("feed_forward_length", &["n_inner"]),
            derived("attention.max_alibi_bias", |_, _| Ok(Some(8.0f32.into()))),
            number("embedding_scale", &["mup_embeddings_scale", "embeddings_scale"]),
            LOGITS,
            check(check_jais),
        ]],
        blocks: &[&[
            keep("ln_1", "attn_norm"),
            parts("attn.c_attn", "attn_qkv", transposed_matrix),
            parts("attn.c_proj", "attn_output", transposed_matrix),
            keep("ln_2", "ffn_norm"),
            parts("mlp.c_fc", "ffn_up", transposed_matrix),
            parts("mlp.c_fc2", "ffn_gate", transposed_matrix),
            parts("mlp.c_proj", "ffn_down", transposed_matrix),
        ]],
        unused: &["relative_pe."],
        activations: &["swiglu"],
        ..GPT_LIKE
    },
];

/// The factor of logits.
const LOGITS: Key = derived("logit_scale", |config, _| {
    let factor = match config.all.number(&["mup_output_alpha"])? {
        Some(alpha) => alpha * config.all.required_number(&["mup_width_scale"])?,
        None => config.all.required_number(&["width_scale"])?,
    };
    Ok(Some(Value::from(factor as f32)))
});

/// Rejects other keys of a model than these values.
fn only(config: &Config, expected: &[(&str, &[&str])]) -> Computed {
    for (key, values) in expected {
        let found = config.all.get(key).map(ToString::to_string);
        let found = found.or(config.all.contains(key).then(|| "null".to_owned()));
        if let Some(found) = found
            && !values.contains(&found.as_str())
        {
            return Err(config.unsupported(key, found, &values.join(" or ")));
        }
    }
    Ok(None)
}

fn check_qwen(config: &Config, _: &Rope) -> Computed {
    // the logarithm and the stretched base hold beyond the length of the training
    config.all.disregard(&["use_dynamic_ntk", "use_logn_attn", "max_position_embeddings"]);
    let width = config.all.size(&["kv_channels"])?.unwrap_or(config.head_dim);
    if width != config.head_dim {
        return Err(config.unsupported("kv_channels", width, &config.head_dim.to_string()));
    }
    only(config, &[("no_bias", &["true"]), ("scale_attn_weights", &["true"])])
}

/// Rejects Baichuan 2, whose output layer has normed rows, and sizes that do not tell whether a
/// model has rotations. Those with biases by distance have 40 layers, and no
/// `max_position_embeddings`.
fn check_baichuan(config: &Config, _: &Rope) -> Computed {
    if let Some(found) = config.all.get("z_loss_weight") {
        return Err(config.unsupported("z_loss_weight", found, "none, as in Baichuan 1"));
    }
    let rotates = config.all.get("max_position_embeddings").is_some();
    match rotates == (config.layers != 40) {
        true => Ok(None),
        false if rotates => Err(config.unsupported("num_hidden_layers", 40, "another number")),
        false => Err(config.unsupported("num_hidden_layers", config.layers, "40")),
    }
}

fn check_softmax(config: &Config, _: &Rope) -> Computed {
    only(config, &[("scoring_func", &["\"softmax\""]), ("topk_method", &["\"greedy\""])])
}

fn check_codeshell(config: &Config, _: &Rope) -> Computed {
    only(
        config,
        &[
            ("position_embedding_type", &["\"rope\""]),
            ("group_query_attention", &["true"]),
            ("scale_attn_weights", &["true"]),
        ],
    )
}

fn check_jais(config: &Config, _: &Rope) -> Computed {
    only(
        config,
        &[
            ("position_embedding_type", &["\"alibi\""]),
            ("scale_qk_dot_by_d", &["true"]),
            ("mup_scale_qk_dot_by_d", &["true"]),
            ("scale_attn_weights", &["true"]),
            ("scale_attn_by_inverse_layer_idx", &["false"]),
            ("alibi_scaling", &["null"]),
        ],
    )?;
    let scaled = ["scale_qk_dot_by_d", "mup_scale_qk_dot_by_d"];
    if scaled.iter().any(|key| config.all.get(key).is_some()) {
        return Ok(None);
    }
    Err(config.all.missing(scaled[1], "true"))
}

/// The sizes of a layer of DeciLM: 0 for a part that it lacks, and no key-value heads for a linear
/// in place of attention.
struct DeciLayer {
    heads: usize,
    kv_heads: usize,
    width: usize,
}

/// A number of each layer of DeciLM, by `block_configs`.
fn deci(config: &Config, of: fn(&DeciLayer) -> usize) -> Computed {
    let key = "block_configs";
    let expected = "a list of objects with `attention` and `ffn`, one of each layer";
    let list = config.all.list(key)?.ok_or_else(|| config.all.missing(key, expected))?;
    let layers: Option<Vec<_>> = list.iter().map(|block| deci_layer(config, block)).collect();
    match layers {
        Some(layers) if layers.len() == config.layers => Ok(Some(sizes(layers.iter().map(of)))),
        _ => Err(config.unsupported(key, "another list", expected)),
    }
}

fn deci_layer(config: &Config, block: &serde_json::Value) -> Option<DeciLayer> {
    let (attention, network) = (block["attention"].as_object()?, block["ffn"].as_object()?);
    let is_true = |value: Option<&serde_json::Value>| value == Some(&serde_json::Value::Bool(true));
    let (heads, kv_heads) = match attention.get("n_heads_in_group").and_then(|size| size.as_u64()) {
        Some(group) => {
            let group = usize::try_from(group).ok().filter(|&group| group > 0)?;
            (config.heads, config.heads / group)
        }
        None if is_true(attention.get("replace_with_linear")) => (config.heads, 0),
        None => (0, 0),
    };
    // the published rule: two thirds of the multiple, up to a multiple of 256
    let width = match network.get("ffn_mult").and_then(|factor| factor.as_f64()) {
        Some(factor) if (0.0..1e6).contains(&factor) => {
            let width = (2.0 * factor * config.hidden as f64 / 3.0) as usize;
            width.next_multiple_of(256)
        }
        Some(_) => return None,
        None => 0,
    };
    Some(DeciLayer { heads, kv_heads, width })
}
