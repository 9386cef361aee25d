//! Gemma 3. The 27B model, of 62 layers, divides scores by the root of `hidden / heads`.

use super::architecture::{
    Architecture, AttentionScale, PictureMask, Presence, QkNorm, RopeRule, Window,
};
use super::gemma2::GEMMA2;

pub(super) const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    qk_norm: QkNorm::Head(Presence::Required),
    rope: RopeRule::LOCAL,
    window: Window::period(6),
    pictures: PictureMask::Whole,
    scale: AttentionScale::HiddenOverHeadsAt(62),
    ..GEMMA2
};
