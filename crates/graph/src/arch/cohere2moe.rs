//! North and other models of Cohere with experts: dense layers rotate whatever they see.

use super::architecture::{Architecture, Moe, RopeOff, RopeRule};
use super::cohere2::COHERE2;

pub(super) const COHERE2MOE: Architecture = Architecture {
    name: "cohere2moe",
    rope: RopeRule { off: RopeOff::UnwindowedExperts, ..RopeRule::INTERLEAVED },
    moe: Some(Moe { normalize: false, mean_of_shared: true, ..Moe::SIGMOID }),
    ..COHERE2
};
