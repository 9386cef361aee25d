//! The architectures: one small table of differences each.
//!
//! To add one that is built of the same parts, add a file with its table and name it in
//! [`architectures`]. If it needs a part that is not here, add an op first (see CONTRIBUTING.md).

mod llama;
mod qwen2;
mod qwen3;

use crate::{Activation, RopeStyle};

/// Whether the tensors of a part are in the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The part does not exist.
    Never,
    /// The checkpoint decides.
    IfPresent,
    /// Without it the checkpoint is broken.
    Required,
}

/// In what a decoder differs from its relatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Its `general.architecture`.
    pub name: &'static str,
    /// How query and key heads are turned.
    pub rope: RopeStyle,
    /// Biases of the query, key and value linears.
    pub qkv_bias: Presence,
    /// Norms over each query and key head.
    pub qk_norm: Presence,
    /// The function in the feed-forward network.
    pub activation: Activation,
}

/// All architectures that have a plan.
pub const fn architectures() -> &'static [Architecture] {
    &[llama::LLAMA, qwen2::QWEN2, qwen3::QWEN3]
}
