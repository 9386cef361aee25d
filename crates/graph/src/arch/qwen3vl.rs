//! The text models of Qwen3-VL, dense and with experts.

use super::architecture::{Architecture, RopeAxes, RopeRule};
use super::qwen3::QWEN3;
use super::qwen3moe::QWEN3MOE;

const AXES: RopeRule = RopeRule { axes: RopeAxes::Interleaved, ..RopeRule::HALVES };

pub(super) const QWEN3VL: Architecture = Architecture { name: "qwen3vl", rope: AXES, ..QWEN3 };

pub(super) const QWEN3VLMOE: Architecture =
    Architecture { name: "qwen3vlmoe", rope: AXES, ..QWEN3MOE };
