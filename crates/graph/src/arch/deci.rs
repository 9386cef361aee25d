//! DeciLM and Nemotron of Llama 3: layers may lack attention or a network, or have a linear in
//! place of attention.

use super::architecture::{Architecture, RopeRule};

pub(super) const DECI: Architecture = Architecture {
    name: "deci",
    sparse_layers: true,
    rope: RopeRule::INTERLEAVED,
    ..Architecture::BASE
};
