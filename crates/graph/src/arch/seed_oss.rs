//! Seed-OSS.

use super::architecture::Architecture;

pub(super) const SEED_OSS: Architecture =
    Architecture { name: "seed_oss", ffn_norm: "post_attention_norm", ..Architecture::BASE };
