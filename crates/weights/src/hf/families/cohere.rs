//! Command R and Command R7B.

use crate::hf::common_keys::{UNSCALED, rope_dims, window_pattern_of_4};
use crate::hf::family::Family;
use crate::hf::keys::{derived, number, size};
use crate::hf::names::{ATTENTION, ENDS, GATED, QK_NORMS};
use crate::hf::rules::{Rule, keep};

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
            derived("attention.sliding_window_pattern", window_pattern_of_4),
            size("vocab_size", &["vocab_size"]),
            derived("rope.dimension_count", rope_dims),
            UNSCALED,
        ],
        ..COHERE
    },
];
