//! Hunyuan 1, dense and with experts: norms of queries and keys follow the rotation.

use super::architecture::{Architecture, Moe, QkNorm};

pub(super) const HUNYUAN_DENSE: Architecture =
    Architecture { name: "hunyuan-dense", qk_norm: QkNorm::HeadAfterRope, ..Architecture::BASE };

pub(super) const HUNYUAN_MOE: Architecture =
    Architecture { name: "hunyuan-moe", moe: Some(Moe::NORMALIZED), ..HUNYUAN_DENSE };
