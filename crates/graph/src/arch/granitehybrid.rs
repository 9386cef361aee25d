//! Granite 4 with recurrent layers, and Bamba.

use super::architecture::{Architecture, MixerRule};
use super::granite::GRANITE;

pub(super) const GRANITEHYBRID: Architecture =
    Architecture { name: "granitehybrid", mixer: MixerRule::Scan, ..GRANITE };
