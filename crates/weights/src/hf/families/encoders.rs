//! Encoders: BERT, RoBERTa, DistilBERT, Nomic BERT, ModernBERT, EuroBERT and Llama without a causal
//! mask.

use super::llama::{ROPE_DIMS, VOCAB};
use crate::hf::common_keys::{LABELS, RANK, UNSCALED, WHOLE_HEADS, some, window_pattern};
use crate::hf::config::Config;
use crate::hf::family::{Family, GELU};
use crate::hf::keys::{Key, check, derived, fixed_flag, flag, number, size, text};
use crate::hf::names::{ATTENTION, ENDS, GATED, PRE_NORMS};
use crate::hf::rope::Rope;
use crate::hf::rules::{Rule, keep, parts};
use crate::hf::transforms::{nomic_down, nomic_up, positions_after_padding};
use crate::{Error, Value};

type Computed = Result<Option<Value>, Error>;

const NOT_CAUSAL: Key = fixed_flag("attention.causal", false);

const EMBEDDINGS: &[Rule] = &[
    keep("embeddings.word_embeddings", "token_embd"),
    keep("embeddings.token_type_embeddings", "token_types"),
    keep("embeddings.LayerNorm", "token_embd_norm"),
];

/// The head of RoBERTa; its weights are those of transformers' `RobertaClassificationHead`.
const ROBERTA_HEAD: &[Rule] =
    &[keep("classifier.dense", "cls"), keep("classifier.out_proj", "cls.output")];

/// BERT's head: the pooler (a linear layer and tanh on the first token), then the classifier.
const BERT_HEAD: &[Rule] = &[keep("pooler.dense", "cls"), keep("classifier", "cls.output")];

const BERT_BLOCK: &[Rule] = &[
    keep("attention.self.query", "attn_q"),
    keep("attention.self.key", "attn_k"),
    keep("attention.self.value", "attn_v"),
    keep("attention.output.dense", "attn_output"),
    keep("attention.output.LayerNorm", "attn_output_norm"),
    keep("intermediate.dense", "ffn_up"),
    keep("output.dense", "ffn_down"),
    keep("output.LayerNorm", "layer_output_norm"),
];

const BERT: Family = Family {
    classes: &["BertModel", "BertForMaskedLM"],
    types: &["bert"],
    architecture: "bert",
    keys: &[&[NOT_CAUSAL]],
    globals: &[EMBEDDINGS, &[keep("embeddings.position_embeddings", "position_embd")]],
    blocks: &[BERT_BLOCK],
    prefixes: &["bert.", "roberta.", ""],
    block: "encoder.layer.",
    unused: &["pooler.", "cls.", "lm_head.", "embeddings.position_ids"],
    activations: GELU,
    ..Family::DECODER
};

const ROBERTA: Family = Family {
    classes: &["RobertaModel", "XLMRobertaModel", "CamembertModel", "XLMRobertaForMaskedLM"],
    types: &["roberta", "xlm-roberta", "camembert"],
    keys: &[&[NOT_CAUSAL, derived("context_length", context_after_padding)]],
    globals: &[
        EMBEDDINGS,
        &[parts("embeddings.position_embeddings", "position_embd", positions_after_padding)],
    ],
    ..BERT
};

const NOMIC_BLOCK: &[Rule] = &[
    keep("attn.Wqkv", "attn_qkv"),
    keep("attn.out_proj", "attn_output"),
    keep("norm1", "attn_output_norm"),
    keep("norm2", "layer_output_norm"),
    keep("mlp.fc11", "ffn_up"),
    keep("mlp.fc12", "ffn_gate"),
    keep("mlp.fc2", "ffn_down"),
];

/// nomic-embed-text 2: layers with a plain feed-forward network or with stacked experts, whose sum
/// has one bias. GGUF has no name of that; llama.cpp leaves it out.
const NOMIC_EXPERTS: &[Rule] = &[
    keep("mlp.fc1", "ffn_up"),
    keep("mlp.router.layer", "ffn_gate_inp"),
    parts("mlp.experts.mlp.w1", "ffn_up_exps.weight", nomic_up),
    parts("mlp.experts.mlp.w2", "ffn_down_exps.weight", nomic_down),
    keep("mlp.experts.bias", "ffn_exps_sum.bias"),
];

const MODERN: Family = Family {
    classes: &["ModernBertModel", "ModernBertForMaskedLM"],
    types: &["modernbert"],
    architecture: "modern-bert",
    keys: &[MODERN_KEYS],
    globals: &[&[
        keep("embeddings.tok_embeddings", "token_embd"),
        keep("embeddings.norm", "token_embd_norm"),
        keep("final_norm", "output_norm"),
    ]],
    blocks: &[&[
        keep("attn_norm", "attn_norm"),
        keep("attn.Wqkv", "attn_qkv"),
        keep("attn.Wo", "attn_output"),
        keep("mlp_norm", "ffn_norm"),
        keep("mlp.Wi", "ffn_up"),
        keep("mlp.Wo", "ffn_down"),
    ]],
    unused: &["head.", "decoder.", "classifier."],
    activations: &[],
    ..Family::DECODER
};

const MODERN_KEYS: &[Key] = &[
    NOT_CAUSAL,
    RANK,
    LABELS,
    derived("classifier.pooling_type", classifier_pooling),
    number("attention.layer_norm_epsilon", &["layer_norm_eps", "norm_eps"]),
    size("attention.sliding_window", &["local_attention"]),
    derived("attention.sliding_window_pattern", modern_pattern),
    UNSCALED,
    size("vocab_size", &["vocab_size"]),
    text("hidden_activation", &["hidden_activation"]),
    derived("classifier.activation", head_activation),
];

pub(super) const FAMILIES: &[Family] = &[
    BERT,
    Family {
        classes: &["BertForSequenceClassification"],
        types: &[],
        keys: &[&[NOT_CAUSAL, RANK, LABELS]],
        globals: &[
            EMBEDDINGS,
            &[keep("embeddings.position_embeddings", "position_embd")],
            BERT_HEAD,
        ],
        unused: &["cls.", "lm_head.", "embeddings.position_ids"],
        ..BERT
    },
    ROBERTA,
    Family {
        classes: &["RobertaForSequenceClassification", "XLMRobertaForSequenceClassification"],
        types: &[],
        keys: &[&[NOT_CAUSAL, RANK, LABELS, derived("context_length", context_after_padding)]],
        globals: &[
            EMBEDDINGS,
            &[parts("embeddings.position_embeddings", "position_embd", positions_after_padding)],
            ROBERTA_HEAD,
        ],
        ..ROBERTA
    },
    Family {
        classes: &["NomicBertModel"],
        types: &["nomic_bert"],
        needs: "moe_every_n_layers",
        architecture: "nomic-bert-moe",
        keys: &[&[
            NOT_CAUSAL,
            derived("context_length", nomic_context),
            check(check_nomic),
            size("moe_every_n_layers", &["moe_every_n_layers"]),
            size("expert_used_count", &["moe_top_k"]),
            flag("expert_weights_norm", &["moe_normalize_expert_weights"]).optional(),
        ]],
        globals: &[EMBEDDINGS, &[keep("emb_ln", "token_embd_norm")]],
        blocks: &[NOMIC_BLOCK, NOMIC_EXPERTS],
        block: "encoder.layers.",
        activations: GELU,
        ..BERT
    },
    Family {
        classes: &["NomicBertModel"],
        types: &["nomic_bert"],
        architecture: "nomic-bert",
        keys: &[&[NOT_CAUSAL, derived("context_length", nomic_context), check(check_nomic)]],
        globals: &[EMBEDDINGS, &[keep("emb_ln", "token_embd_norm")]],
        blocks: &[NOMIC_BLOCK],
        block: "encoder.layers.",
        activations: &["swiglu", "silu"],
        ..BERT
    },
    Family {
        classes: &["DistilBertModel", "DistilBertForMaskedLM"],
        types: &["distilbert"],
        keys: &[&[
            NOT_CAUSAL,
            derived("attention.layer_norm_epsilon", |_, _| Ok(Some(1e-12f32.into()))),
        ]],
        blocks: &[&[
            keep("attention.q_lin", "attn_q"),
            keep("attention.k_lin", "attn_k"),
            keep("attention.v_lin", "attn_v"),
            keep("attention.out_lin", "attn_output"),
            keep("sa_layer_norm", "attn_output_norm"),
            keep("ffn.lin1", "ffn_up"),
            keep("ffn.lin2", "ffn_down"),
            keep("output_layer_norm", "layer_output_norm"),
        ]],
        prefixes: &["distilbert.", ""],
        block: "transformer.layer.",
        unused: &["vocab_"],
        ..BERT
    },
    Family {
        classes: &["EuroBertModel", "EuroBertForMaskedLM"],
        types: &["eurobert"],
        architecture: "eurobert",
        keys: &[&[
            NOT_CAUSAL,
            UNSCALED,
            WHOLE_HEADS,
            check(|config, _| {
                // only a classifier has it
                config.all.disregard(&["classifier_pooling"]);
                Ok(None)
            }),
        ]],
        globals: &[ENDS],
        blocks: &[ATTENTION, GATED, PRE_NORMS],
        unused: &["lm_head."],
        ..Family::DECODER
    },
    Family {
        classes: &["LlamaBidirectionalModel"],
        types: &["llama_bidirec"],
        architecture: "llama-embed",
        keys: &[&[NOT_CAUSAL, VOCAB, ROPE_DIMS]],
        globals: &[ENDS],
        blocks: &[ATTENTION, GATED, PRE_NORMS],
        ..Family::DECODER
    },
    MODERN,
    Family {
        classes: &["ModernBertForSequenceClassification"],
        types: &[],
        globals: &[&[
            keep("embeddings.tok_embeddings", "token_embd"),
            keep("embeddings.norm", "token_embd_norm"),
            keep("final_norm", "output_norm"),
            keep("head.dense", "cls"),
            keep("head.norm", "cls.norm"),
            keep("classifier", "cls.output"),
        ]],
        unused: &["decoder."],
        ..MODERN
    },
];

/// RoBERTa's positions begin after the padding token's id.
fn context_after_padding(config: &Config, _: &Rope) -> Computed {
    let rows = config.all.required_size(&["max_position_embeddings"])?;
    let unused = config.all.size(&["pad_token_id"])?.map_or(0, |id| id + 1);
    match rows.checked_sub(unused) {
        None | Some(0) => {
            let expected = format!("more than the {unused} rows up to pad_token_id");
            Err(config.unsupported("max_position_embeddings", rows, &expected))
        }
        Some(context) => some(context),
    }
}

/// Context length of Nomic's training, which is below the configuration's `n_positions`.
fn nomic_context(config: &Config, _: &Rope) -> Computed {
    // transformers' own format has the context length itself.
    let Some(stated) = config.all.size(&["n_positions"])? else {
        return some(config.all.required_size(&["max_position_embeddings"])?);
    };
    let trained = config.all.size(&["max_trained_positions"])?.unwrap_or(2048);
    match (stated, trained) {
        (8192, 2048) => some(2048),
        (2048, 2048) => some(512),
        _ => some(stated.min(trained)),
    }
}

/// The activation of a classifier's head, which has a default in transformers' class; without a
/// classifier the key changes nothing.
fn head_activation(config: &Config, _: &Rope) -> Computed {
    let key = "classifier_activation";
    if !config.class.ends_with("ForSequenceClassification") {
        config.all.disregard(&[key]);
        return Ok(None);
    }
    match config.all.text(&[key])? {
        Some(name) => Ok(Some(name.into())),
        None => {
            let default = config.default_of(key);
            Ok(default.as_ref().and_then(|name| name.as_str()).map(Value::from))
        }
    }
}

/// Rejects variants of Nomic BERT that the graph does not compute.
fn check_nomic(config: &Config, _: &Rope) -> Computed {
    let switches = [
        ("prenorm", false),
        ("causal", false),
        ("rotary_emb_interleaved", false),
        ("parallel_block", false),
        ("use_rms_norm", false),
        ("expert_choice_router", false),
        ("scale_attn_by_inverse_layer_idx", false),
        ("scale_attn_weights", true),
    ];
    for (key, expected) in switches {
        if config.all.flag(&[key])?.is_some_and(|found| found != expected) {
            return Err(config.unsupported(key, !expected, &expected.to_string()));
        }
    }
    if let Some(found) = config.all.size(&["num_shared_experts"])?.filter(|found| *found > 0) {
        return Err(config.unsupported("num_shared_experts", found, "0"));
    }
    if let Some(found) = config.all.get("rotary_emb_scale_base") {
        return Err(config.unsupported("rotary_emb_scale_base", found, "null"));
    }
    // it changes texts that are longer than the training's, which the context length excludes
    config.all.disregard(&["rotary_scaling_factor"]);
    if config.all.number(&["rotary_emb_fraction"])?.is_some_and(|fraction| fraction != 1.0) {
        return Err(config.unsupported("rotary_emb_fraction", "another number", "1"));
    }
    Ok(None)
}

/// Which layers see all positions: the period of the first layer that does, or a list of flags.
fn modern_pattern(config: &Config, rope: &Rope) -> Computed {
    const DEFAULT: usize = 3;
    let period = config.all.size(&["global_attn_every_n_layers"])?;
    let Some(types) = config.layer_types()? else { return some(period.unwrap_or(DEFAULT)) };
    let is_default = |(layer, name): (usize, &&str)| {
        (*name == "full_attention") == layer.is_multiple_of(DEFAULT)
    };
    if types.iter().enumerate().all(is_default) {
        return some(DEFAULT);
    }
    window_pattern(config, rope)
}

/// The input of the classifier: 1 the mean over a text, 2 its first token.
fn classifier_pooling(config: &Config, _: &Rope) -> Computed {
    match config.all.text(&["classifier_pooling"])? {
        None => Ok(None),
        Some("mean") => some(1),
        Some("cls") => some(2),
        Some(other) => Err(config.unsupported("classifier_pooling", other, "mean or cls")),
    }
}
