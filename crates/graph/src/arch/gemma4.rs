//! Gemma 4, text. GGUF files do not tell whether the rows of a picture see each other: those of the
//! two smallest models do not.

use super::architecture::{Architecture, AttentionScale, Moe, PictureMask};
use super::gemma3::GEMMA3;

pub(super) const GEMMA4: Architecture = Architecture {
    name: "gemma4",
    value_norm: true,
    scale: AttentionScale::One,
    pictures: PictureMask::WholeInWindows([1536, 2560]),
    moe: Some(Moe { with_dense: true, ..Moe::NORMALIZED }),
    gemma_extras: true,
    ..GEMMA3
};
