//! DBRX: queries, keys and values are bounded.

use super::architecture::{Architecture, Moe};
use crate::NormKind;

pub(super) const DBRX: Architecture = Architecture {
    name: "dbrx",
    norm: NormKind::Layer,
    ffn_norm: "attn_output_norm",
    moe: Some(Moe::NORMALIZED),
    ..Architecture::BASE
};
