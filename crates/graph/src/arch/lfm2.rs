//! LFM2 and LFM2.5, without and with experts. Files name the last norm as one of embeddings.

use super::architecture::{Architecture, MixerRule, Moe, Presence, QkNorm};

pub(super) const LFM2: Architecture = Architecture {
    name: "lfm2",
    qk_norm: QkNorm::Head(Presence::Required),
    mixer: MixerRule::ShortConv,
    output_norm: "token_embd_norm",
    ..Architecture::BASE
};

pub(super) const LFM2MOE: Architecture =
    Architecture { name: "lfm2moe", moe: Some(Moe::SIGMOID), ..LFM2 };
