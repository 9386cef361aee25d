//! ERNIE 4.5, dense and with experts. The choice of experts has a bias next to a softmax.

use super::architecture::{Architecture, Moe, RopeRule};
use crate::Scores;

pub(super) const ERNIE4_5: Architecture =
    Architecture { name: "ernie4_5", rope: RopeRule::INTERLEAVED, ..Architecture::BASE };

pub(super) const ERNIE4_5_MOE: Architecture = Architecture {
    name: "ernie4_5-moe",
    moe: Some(Moe { biased_scores: Scores::Softmax, ..Moe::NORMALIZED }),
    ..ERNIE4_5
};
