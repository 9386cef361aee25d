//! The text models of Qwen2-VL and Qwen2.5-VL.

use super::architecture::{Architecture, RopeAxes, RopeRule};
use super::qwen2::QWEN2;

pub(super) const QWEN2VL: Architecture = Architecture {
    name: "qwen2vl",
    rope: RopeRule { axes: RopeAxes::Blocked, ..RopeRule::HALVES },
    ..QWEN2
};
