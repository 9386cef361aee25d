//! nanochat: norms without factors, also of embeddings and of rotated heads.

use super::architecture::{Architecture, Embed, FeedForward, QkNorm};
use crate::Activation;

pub(super) const NANOCHAT: Architecture = Architecture {
    name: "nanochat",
    bare_norms: true,
    embed: Embed::Normed,
    qk_norm: QkNorm::BareAfterRope,
    ffn: FeedForward::Plain(Activation::ReluSquared),
    softcap: true,
    ..Architecture::BASE
};
