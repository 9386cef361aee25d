//! GPT-2, GPT-NeoX and Falcon.

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
        keys: &[
            size("context_length", &["n_ctx", "n_positions"]),
            derived("feed_forward_length", four_times_hidden),
        ],
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
        keys: &[
            derived("rope.dimension_count", rope_dims),
            flag("use_parallel_residual", &["use_parallel_residual"]),
        ],
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
        classes: &["FalconForCausalLM", "RWForCausalLM"],
        types: &["falcon"],
        architecture: "falcon",
        keys: &[
            derived("feed_forward_length", four_times_hidden),
            derived("attention.head_count_kv", checked_kv_heads),
        ],
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
];

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
