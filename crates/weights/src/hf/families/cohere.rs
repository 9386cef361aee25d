//! Command R and Command R7B.

use crate::hf::common_keys::{UNSCALED, whole_heads, window_pattern_of_4};
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::keys::{derived, number, size};
use crate::hf::names::{ATTENTION, ENDS, GATED, QK_NORMS};
use crate::hf::rope::Rope;
use crate::hf::rules::{Rule, keep};
use crate::{Error, Value};

const NORM: &[Rule] = &[keep("input_layernorm", "attn_norm")];

const COHERE: Family = Family {
    classes: &["CohereForCausalLM"],
    types: &["cohere"],
    architecture: "command-r",
    keys: &[
        // `max_position_embeddings` is the length of a part of the training in published files.
        size("context_length", &["model_max_length", "max_position_embeddings"]),
        number("logit_scale", &["logit_scale"]),
        UNSCALED,
    ],
    globals: &[ENDS],
    blocks: &[ATTENTION, QK_NORMS, GATED, NORM],
    ..Family::DECODER
};

pub(super) const FAMILIES: &[Family] = &[
    COHERE,
    Family {
        classes: &["Cohere2ForCausalLM"],
        types: &["cohere2"],
        architecture: "cohere2",
        keys: &[
            number("logit_scale", &["logit_scale"]),
            size("attention.sliding_window", &["sliding_window"]),
            derived("attention.sliding_window_pattern", pattern),
            size("vocab_size", &["vocab_size"]),
            derived("rope.dimension_count", whole_heads),
            UNSCALED,
        ],
        ..COHERE
    },
];

/// Which layers have a window. Those without one have no rotary embedding; GGUF has no files of a
/// model in which no layer has a window.
fn pattern(config: &Config, rope: &Rope) -> Result<Option<Value>, Error> {
    if config.layer_types()?.is_some_and(|types| !types.contains(&"sliding_attention")) {
        return Err(config.unsupported(
            "layer_types",
            "without a window",
            "some sliding_attention",
        ));
    }
    window_pattern_of_4(config, rope)
}
