//! Orion.

use super::architecture::Architecture;
use crate::NormKind;

pub(super) const ORION: Architecture =
    Architecture { name: "orion", norm: NormKind::Layer, ..Architecture::BASE };
