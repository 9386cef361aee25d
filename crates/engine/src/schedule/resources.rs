//! A loaded plan with its caches.

use pelton_graph::{Limits, Plan};

use super::runner::Runner;
use crate::{kv::PageCache, vision::Eyes};

/// The executable and its caches, with the sizes that they were loaded for.
pub(crate) struct Resources {
    pub(crate) runner: Runner,
    pub(crate) kv: PageCache,
    pub(crate) limits: Limits,
    pub(crate) plan: Plan,
    /// Whether the plan reads the places of rows.
    pub(crate) reads_places: bool,
    /// The vision tower, if the model has one.
    pub(crate) eyes: Option<Eyes>,
    /// The LoRA adapters of sequences that name none.
    pub(crate) loras: Vec<(u32, f32)>,
}
