//! nomic-embed-text 2: every second layer has experts.

use super::architecture::{Architecture, Moe, RopeRule};
use super::bert::BERT;

pub(super) const NOMIC_BERT_MOE: Architecture = Architecture {
    name: "nomic-bert-moe",
    rope: RopeRule::HALVES,
    moe: Some(Moe::SOFTMAX),
    ..BERT
};
