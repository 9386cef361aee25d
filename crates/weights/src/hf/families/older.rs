//! GPT-2, StarCoder 1, GPT-NeoX, Falcon, BLOOM and MPT.

use crate::hf::common_keys::{four_times_hidden, rope_dims, some};
use crate::hf::config::Config;
use crate::hf::family::{Family, GELU};
use crate::hf::keys::{derived, flag, size};
use crate::hf::rope::Rope;
use crate::hf::rules::{keep, parts};
use crate::hf::transforms::{falcon_kv_heads, falcon_qkv, qkv_by_head, transposed_matrix};
use crate::{Error, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        classes: &["GPT2LMHeadModel"],
        types: &["gpt2"],
        architecture: "gpt2",
        keys: &[&[
            size("context_length", &["n_ctx", "n_positions"]),
            derived("feed_forward_length", four_times_hidden),
        ]],
        globals: &[&[
            keep("wte", "token_embd"),
            keep("wpe", "position_embd"),
            keep("ln_f", "output_norm"),
            keep("lm_head", "output"),
        ]],
        blocks: &[&[
            keep("ln_1", "attn_norm"),
            parts("attn.c_attn", "attn_qkv", transposed_matrix),
            parts("attn.c_proj", "attn_output", transposed_matrix),
            keep("ln_2", "ffn_norm"),
            parts("mlp.c_fc", "ffn_up", transposed_matrix),
            parts("mlp.c_proj", "ffn_down", transposed_matrix),
        ]],
        prefixes: &["transformer.", ""],
        block: "h.",
        activations: GELU,
        ..Family::DECODER
    },
    Family {
        classes: &["GPTNeoXForCausalLM"],
        types: &["gpt_neox"],
        architecture: "gptneox",
        keys: &[&[
            derived("rope.dimension_count", rope_dims),
            flag("use_parallel_residual", &["use_parallel_residual"]),
        ]],
        globals: &[&[
            keep("embed_in", "token_embd"),
            keep("final_layer_norm", "output_norm"),
            keep("embed_out", "output"),
            keep("lm_head", "output"),
        ]],
        blocks: &[&[
            keep("input_layernorm", "attn_norm"),
            keep("post_attention_layernorm", "ffn_norm"),
            parts("attention.query_key_value", "attn_qkv", qkv_by_head),
            keep("attention.dense", "attn_output"),
            keep("mlp.dense_h_to_4h", "ffn_up"),
            keep("mlp.dense_4h_to_h", "ffn_down"),
        ]],
        prefixes: &["gpt_neox.", ""],
        activations: GELU,
        ..Family::DECODER
    },
    Family {
        classes: &["GPTJForCausalLM"],
        types: &["gptj"],
        architecture: "gptj",
        keys: &[&[
            size("context_length", &["n_positions"]),
            derived("feed_forward_length", four_times_hidden),
            size("rope.dimension_count", &["rotary_dim"]),
        ]],
        globals: &[&[
            keep("wte", "token_embd"),
            keep("ln_f", "output_norm"),
            keep("lm_head", "output"),
        ]],
        blocks: &[&[
            keep("ln_1", "attn_norm"),
            keep("attn.q_proj", "attn_q"),
            keep("attn.k_proj", "attn_k"),
            keep("attn.v_proj", "attn_v"),
            keep("attn.out_proj", "attn_output"),
            keep("mlp.fc_in", "ffn_up"),
            keep("mlp.fc_out", "ffn_down"),
        ]],
        prefixes: &["transformer.", ""],
        block: "h.",
        activations: GELU,
        ..Family::DECODER
    },
    Family {
        classes: &["FalconForCausalLM", "RWForCausalLM"],
        types: &["falcon"],
        architecture: "falcon",
        keys: &[&[
            derived("feed_forward_length", four_times_hidden),
            derived("attention.head_count_kv", checked_kv_heads),
        ]],
        globals: &[&[
            keep("word_embeddings", "token_embd"),
            keep("ln_f", "output_norm"),
            keep("lm_head", "output"),
        ]],
        blocks: &[&[
            keep("input_layernorm", "attn_norm"),
            keep("ln_mlp", "attn_norm"),
            keep("ln_attn", "attn_norm_2"),
            parts("self_attention.query_key_value", "attn_qkv", falcon_qkv),
            keep("self_attention.dense", "attn_output"),
            keep("mlp.dense_h_to_4h", "ffn_up"),
            keep("mlp.dense_4h_to_h", "ffn_down"),
        ]],
        prefixes: &["transformer.", ""],
        block: "h.",
        activations: GELU,
        ..Family::DECODER
    },
    Family {
        classes: &["GPTBigCodeForCausalLM"],
        types: &["gpt_bigcode"],
        architecture: "starcoder",
        keys: &[&[
            size("context_length", &["n_positions"]),
            derived("feed_forward_length", four_times_hidden),
            derived("attention.head_count_kv", one_kv_head),
        ]],
        globals: &[&[
            keep("wte", "token_embd"),
            keep("wpe", "position_embd"),
            keep("ln_f", "output_norm"),
            keep("lm_head", "output"),
        ]],
        blocks: &[&[
            keep("ln_1", "attn_norm"),
            keep("attn.c_attn", "attn_qkv"),
            keep("attn.c_proj", "attn_output"),
            keep("ln_2", "ffn_norm"),
            keep("mlp.c_fc", "ffn_up"),
            keep("mlp.c_proj", "ffn_down"),
        ]],
        prefixes: &["transformer.", ""],
        block: "h.",
        activations: GELU,
        ..Family::DECODER
    },
    Family {
        classes: &["BloomForCausalLM", "BloomModel"],
        types: &["bloom"],
        architecture: "bloom",
        keys: &[&[
            size("context_length", &["seq_length"]),
            derived("feed_forward_length", four_times_hidden),
            derived("attention.head_count_kv", |config, _| some(config.heads)),
        ]],
        globals: &[&[
            keep("word_embeddings", "token_embd"),
            keep("word_embeddings_layernorm", "token_embd_norm"),
            keep("ln_f", "output_norm"),
            keep("lm_head", "output"),
        ]],
        blocks: &[&[
            keep("input_layernorm", "attn_norm"),
            parts("self_attention.query_key_value", "attn_qkv", qkv_by_head),
            keep("self_attention.dense", "attn_output"),
            keep("post_attention_layernorm", "ffn_norm"),
            keep("mlp.dense_h_to_4h", "ffn_up"),
            keep("mlp.dense_4h_to_h", "ffn_down"),
        ]],
        prefixes: &["transformer.", ""],
        block: "h.",
        activations: GELU,
        ..Family::DECODER
    },
    Family {
        classes: &["MPTForCausalLM", "MptForCausalLM"],
        types: &["mpt"],
        architecture: "mpt",
        keys: &[&[
            size("context_length", &["max_seq_len"]),
            derived("feed_forward_length", |config, rope| {
                // the width is that of the tensors
                config.all.disregard(&["expansion_ratio"]);
                four_times_hidden(config, rope)
            }),
            derived("attention.max_alibi_bias", mpt_attention),
        ]],
        globals: &[&[
            keep("wte", "token_embd"),
            keep("norm_f", "output_norm"),
            keep("lm_head", "output"),
        ]],
        blocks: &[&[
            keep("norm_1", "attn_norm"),
            keep("attn.Wqkv", "attn_qkv"),
            keep("attn.out_proj", "attn_output"),
            keep("norm_2", "ffn_norm"),
            keep("ffn.up_proj", "ffn_up"),
            keep("ffn.down_proj", "ffn_down"),
        ]],
        prefixes: &["transformer.", ""],
        block: "blocks.",
        activations: GELU,
        ..Family::DECODER
    },
];

/// The single key-value head of StarCoder 1; rejects as many as there are queries, whose rows
/// `c_attn` has in another order.
fn one_kv_head(config: &Config, _: &Rope) -> Result<Option<Value>, Error> {
    match config.all.flag(&["multi_query"])? {
        Some(false) => Err(config.unsupported("multi_query", false, "true")),
        _ => some(1),
    }
}

/// The greatest exponent of MPT's biases by distance; rejects other keys of attention that change
/// results.
fn mpt_attention(config: &Config, _: &Rope) -> Result<Option<Value>, Error> {
    const ONLY: &[(&str, &[&str])] = &[
        ("alibi", &["true"]),
        ("attn_type", &["\"multihead_attention\""]),
        ("attn_uses_sequence_id", &["false"]),
        ("clip_qkv", &["null"]),
        ("kv_n_heads", &["null"]),
        ("prefix_lm", &["false"]),
        ("qk_ln", &["false"]),
        ("softmax_scale", &["null"]),
    ];
    let expected = "an object with the keys of attention";
    let own = config.all.object("attn_config")?;
    let own = own.ok_or_else(|| config.all.missing("attn_config", expected))?;
    for (key, values) in ONLY {
        if let Some(found) = own.get(key)
            && !values.contains(&&*found.to_string())
        {
            return Err(own.invalid(key, found, &values.join(" or ")));
        }
    }
    let bias = own.number(&["alibi_bias_max"])?.unwrap_or(8.0);
    match bias > 0.0 {
        true => Ok(Some(Value::from(bias as f32))),
        false => Err(own.invalid("alibi_bias_max", bias, "a number above 0")),
    }
}

/// Number of key-value heads of Falcon; rejects ALiBi, which only models outside of the family
/// of GGUF have.
fn checked_kv_heads(config: &Config, _: &Rope) -> Result<Option<Value>, Error> {
    if config.all.flag(&["alibi"])? == Some(true) {
        return Err(config.unsupported("alibi", true, "false"));
    }
    config.all.disregard(match config.all.flag(&["new_decoder_architecture"])? {
        Some(true) => &["multi_query"],
        _ => &["num_kv_heads", "num_key_value_heads", "n_head_kv"],
    });
    match falcon_kv_heads(config) {
        Ok(heads) => some(heads),
        Err(_) => some(config.kv_heads()?),
    }
}
