//! Keys of `config.json` that nothing has looked up: they change no result, or the directory is
//! refused.
//!
//! A key is unread at this point because no rule of the family asked for it. It passes if
//!
//! 1. it is in a list of this file: bookkeeping, training, other modalities, token ids that the
//!    tokenizer's files state;
//! 2. it says which tensors there are, and they are there or not as it says;
//! 3. it is null, an empty list, or the default of transformers' class, which the tests compare
//!    with;
//! 4. it is one of the keys of [`ONLY`] with a value that is computed;
//! 5. transformers' class does not have it either: then a log line names it.

use serde_json::Value;

use super::config::Config;
use super::json::{Object, shown};
use crate::gguf::TensorEntry;
use crate::{Error, Problem};

/// Keys without influence on results.
const INERT: &[&str] = &[
    // Bookkeeping.
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "auto_map",
    "cache_implementation",
    "custom_pipelines",
    "dtype",
    "finetuning_task",
    "model_type",
    "name_or_path",
    "tokenizer_class",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_unsloth_gc",
    "vocab_size",
    // The results of a call of transformers, and its computation: memory, speed, last bits.
    "attention_softmax_in_fp32",
    "chunk_size_feed_forward",
    "deterministic_flash_attn",
    "fp32_residual_connection",
    "chunk_size",
    "mamba_chunk_size",
    "num_logits_to_keep",
    "residual_in_fp32",
    "use_mamba_kernels",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pretraining_tp",
    "reference_compile",
    "reorder_and_upcast_attn",
    "repad_logits_with_grad",
    "return_dict",
    "scale_attention_softmax_in_fp32",
    "slow_but_exact",
    "tie_encoder_decoder",
    "torchscript",
    "use_bfloat16",
    "use_cache",
    "use_flash_attn",
    // Training.
    "aux_loss_alpha",
    "ep_size",
    "gradient_checkpointing",
    "embedding_fraction",
    "embedding_initializer_range",
    "enable_moe_fp32_combine",
    "init_device",
    "initializer_cutoff_factor",
    "initializer_factor",
    "initializer_range",
    "load_balance_coeff",
    "mamba_ssm_cache_dtype",
    "mamba_ssm_dtype",
    "moe_shared_expert_overlap",
    "mtp_layers_block_type",
    "rescale_prenorm_residual",
    "time_step_floor",
    "time_step_max",
    "mtp_num_hidden_layers",
    "mtp_use_dedicated_embeddings",
    "num_mtp_layers",
    "num_nextn_predict_layers",
    "pruned_heads",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "seq_aux",
    "sparse_pred_ignore_index",
    "sparse_prediction",
    // Generation, which generation_config.json and requests set.
    "bad_words_ids",
    "begin_suppress_tokens",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_scores",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict_in_generate",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    // Tasks other than those that are computed.
    "decoder_bias",
    "id2label",
    "label2id",
    "num_labels",
    "prefix",
    "problem_type",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    // Other modalities.
    "audio_config",
    "boa_token_index",
    "boi_token_index",
    "eoa_token_index",
    "eoi_token_index",
    "image_seq_length",
    "image_token_index",
    "mm_tokens_per_image",
    "multimodal_projector_bias",
    "projector_hidden_act",
    "spatial_merge_size",
    "vision_config",
    "vision_feature_layer",
    "vision_feature_select_strategy",
    // The sizes of tensors are compared with the graph's, and the tensors of a layer show its kind.
    "classifier_bias",
    "mlp_layer_types",
    "moe_layers",
    // A table of positions, if a file has one.
    "learned_pos_emb",
    "no_bias",
    "sinusoidal_pos_embds",
    "type_vocab_size",
    "vocab_size_per_layer_input",
];

/// Keys that transformers' classes no longer have or never had, and their values that are computed.
const ONLY: &[(&str, &[&str])] = &[
    ("moe_layer_freq", &["1"]),
    ("apply_residual_connection_post_layernorm", &["false"]),
    ("position_embedding_type", &["\"absolute\"", "\"rope\"", "\"rope_gptj\""]),
    ("use_gated_activation", &["true"]),
    ("use_parallel_block", &["true"]),
    ("use_mrope", &["false"]),
];

/// Ends of keys without influence: dropout is for training, and ids of tokens are in the
/// tokenizer's files.
const INERT_ENDS: &[&str] = &["dropout", "dropout_prob", "_pdrop", "_token_id", "_token_ids"];

/// Keys that say which tensors there are. A row has the architecture or "" for all others, the key,
/// its value for their presence, and tensors of which some block has one then. Keys without such a
/// value change nothing.
const SHOWN: &[(&str, &str, &str, &[&str])] = &[
    ("", "attention_bias", "true", ATTENTION_BIASES),
    ("", "bias", "true", ATTENTION_BIASES),
    ("", "qkv_bias", "true", ATTENTION_BIASES),
    ("", "use_qkv_bias", "true", ATTENTION_BIASES),
    ("seed_oss", "attention_out_bias", "true", &["attn_output.bias"]),
    ("", "mlp_bias", "true", MLP_BIASES),
    ("", "use_bias", "true", MLP_BIASES),
    ("", "mlp_fc1_bias", "true", &["ffn_up.bias"]),
    ("", "mlp_fc2_bias", "true", &["ffn_down.bias"]),
    ("", "qkv_proj_bias", "true", &["attn_qkv.bias"]),
    ("", "qk_layernorm", "true", QK_NORMS),
    ("command-r", "use_qk_norm", "true", QK_NORMS),
    ("glm4moe", "use_qk_norm", "true", QK_NORMS),
    ("falcon", "num_ln_in_parallel_attn", "2", &["attn_norm_2.weight"]),
    ("", "conv_bias", "true", &["shortconv.in_proj.bias"]),
    ("falcon-h1", "mamba_conv_bias", "true", &["ssm_conv1d.bias"]),
    ("falcon-h1", "mamba_proj_bias", "true", &["ssm_in.bias"]),
    ("falcon-h1", "projectors_bias", "true", &["ssm_out.bias"]),
    ("falcon-h1", "mamba_rms_norm", "true", &["ssm_norm.weight"]),
    ("granitehybrid", "mamba_conv_bias", "true", &["ssm_conv1d.bias"]),
    ("nemotron_h", "attention_bias", "", &[]),
    ("nemotron_h_moe", "attention_bias", "", &[]),
    ("nemotron_h", "use_conv_bias", "true", &["ssm_conv1d.bias"]),
    ("nemotron_h", "use_bias", "true", &["ssm_in.bias"]),
    ("nemotron_h_moe", "use_conv_bias", "true", &["ssm_conv1d.bias"]),
    ("nemotron_h_moe", "use_bias", "true", &["ssm_in.bias"]),
    ("granitehybrid", "mamba_proj_bias", "true", &["ssm_in.bias"]),
    ("gemma4", "enable_moe_block", "true", &["ffn_gate_inp.weight"]),
    ("stablelm", "use_parallel_residual", "false", &["ffn_norm.weight"]),
];
const ATTENTION_BIASES: &[&str] =
    &["attn_q.bias", "attn_qkv.bias", "attn_q_a.bias", "attn_kv_a_mqa.bias"];
const MLP_BIASES: &[&str] = &["ffn_up.bias", "ffn_gate.bias", "ffn_up_shexp.bias"];
const QK_NORMS: &[&str] = &["attn_q_norm.weight"];

/// Keys of objects in `config.json` that are checked one by one.
const OBJECTS: &[&str] = &["rope_parameters", "rope_scaling"];

/// Parameters of all kinds of rotary embedding, which `rope.rs` reads as far as the kind has them.
const ROPE: &[&str] = &[
    "alpha",
    "attention_factor",
    "attn_factor",
    "beta_fast",
    "beta_slow",
    "extrapolation_factor",
    "factor",
    "finetuned",
    "high_freq_factor",
    "llama_4_scaling_beta",
    "long_factor",
    "long_mscale",
    "low_freq_factor",
    "max_position_embeddings",
    "mrope_interleaved",
    "mrope_section",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_theta",
    "rope_type",
    "short_factor",
    "short_mscale",
    "truncate",
    "type",
];

/// Checks the keys that say which tensors there are, and those that nothing has looked up.
pub(super) fn check(
    config: &Config,
    architecture: &str,
    tensors: &[TensorEntry],
) -> Result<(), Error> {
    check_shown(config, architecture, tensors)?;
    check_keys(&config.all, |key| config.default_of(key))
}

/// Checks the keys that nothing has looked up; `default_of` gives those that transformers' class
/// has.
pub(super) fn check_keys(
    all: &Object,
    default_of: impl Fn(&str) -> Option<Value>,
) -> Result<(), Error> {
    let mut unknown = Vec::new();
    for (path, value) in all.unread(OBJECTS) {
        let key = path.strip_prefix(all.path()).unwrap_or(&path);
        if OBJECTS.iter().any(|object| key.strip_prefix(object).is_some_and(|k| k.starts_with('.')))
        {
            if !ROPE.contains(&key.rsplit('.').next().unwrap_or(key)) {
                unknown.push(path);
            }
            continue;
        }
        let inert = INERT.contains(&key) || INERT_ENDS.iter().any(|end| key.ends_with(end));
        if inert || is_nothing(&value) {
            continue;
        }
        if let Some((_, values)) = ONLY.iter().find(|(name, _)| *name == key) {
            if values.contains(&value.to_string().as_str()) {
                continue;
            }
            let expected = values.join(" or ");
            return Err(all.invalid(key, shown(&value), &expected));
        }
        let Some(default) = default_of(key) else {
            unknown.push(path);
            continue;
        };
        if !same(&value, &default) && !is_full_attention(key, &value) {
            return Err(refused(all, key, &value, &default));
        }
    }
    if !unknown.is_empty() {
        let keys = unknown.join(", ");
        tracing::warn!(keys, "config.json has keys that are unknown and change nothing");
    }
    Ok(())
}

fn refused(all: &Object, key: &str, value: &Value, default: &Value) -> Error {
    let expected = match default {
        Value::Null => "null, as no other value is computed".to_owned(),
        other => format!("{}, as no other value is computed", shown(other)),
    };
    all.error(Problem::ConfigValue { key: key.to_owned(), found: shown(value), expected })
}

/// Whether a value switches nothing on.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

/// Rejects keys that say otherwise than the tensors which are there.
fn check_shown(config: &Config, architecture: &str, tensors: &[TensorEntry]) -> Result<(), Error> {
    let count = |end| tensors.iter().filter(|tensor| tensor.name.ends_with(end)).count();
    let shares_values = count(".attn_v.weight") < count(".attn_k.weight");
    let own = |key: &str| SHOWN.iter().any(|(of, other, ..)| *of == architecture && *other == key);
    let rows = SHOWN.iter().filter(|(of, key, ..)| match of.is_empty() {
        true => !own(key),
        false => *of == architecture,
    });
    let rows = rows.map(|(_, key, set, ends)| {
        let in_block = |tensor: &TensorEntry| {
            let part = tensor.name.strip_prefix("blk.").and_then(|name| name.split_once('.'));
            part.is_some_and(|(_, name)| ends.contains(&name))
        };
        (*key, *set, tensors.iter().any(in_block))
    });
    for (key, set, has) in rows.chain([("attention_k_eq_v", "true", shares_values)]) {
        let Some(value) = config.all.get(key) else { continue };
        let found = value.to_string();
        if (found == set) != has {
            let not = if has { "" } else { "not " };
            let expected = format!("{not}{set}, as the tensors show");
            return Err(config.all.invalid(key, shown(value), &expected));
        }
    }
    Ok(())
}

fn is_full_attention(key: &str, value: &Value) -> bool {
    let all = |items: &Vec<Value>| items.iter().all(|item| item == "full_attention");
    key == "layer_types" && value.as_array().is_some_and(all)
}

/// Equality of JSON values in which 1 is 1.0.
fn same(value: &Value, other: &Value) -> bool {
    match (value.as_f64(), other.as_f64()) {
        (Some(value), Some(other)) => value == other,
        _ => value == other,
    }
}
