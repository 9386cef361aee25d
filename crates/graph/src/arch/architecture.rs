//! The differences between architectures, as data.

use crate::{Activation, RopeStyle};

/// Whether a checkpoint has the tensors of an optional component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The architecture does not have the component.
    Never,
    /// The component exists if its tensors do.
    IfPresent,
    /// A checkpoint without its tensors is refused.
    Required,
}

/// The properties in which decoders differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Its `general.architecture`.
    pub name: &'static str,
    /// The pairing of the elements of query and key heads.
    pub rope: RopeStyle,
    /// Biases of the query, key and value linears.
    pub qkv_bias: Presence,
    /// Norms of each query and key head.
    pub qk_norm: Presence,
    /// The activation function of the feed-forward network.
    pub activation: Activation,
}
