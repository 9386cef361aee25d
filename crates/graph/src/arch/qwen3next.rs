//! Qwen3-Next.

use super::architecture::{Architecture, MixerRule};
use super::qwen35moe::QWEN35MOE;

pub(super) const QWEN3NEXT: Architecture =
    Architecture { name: "qwen3next", mixer: MixerRule::Delta { tiled: false }, ..QWEN35MOE };
