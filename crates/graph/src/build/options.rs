//! The choices of a plan that a file leaves open.

#[cfg(doc)]
use crate::Plan;

/// The choices that a file leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// The most positions of a sequence; `None` for the model's whole context. A model with two
    /// tables of rotary frequencies (LongRoPE) has that of short contexts if it suffices, and the
    /// plan's context ends where it does.
    pub context: Option<usize>,
    /// The pooling of embeddings in place of the file's, or of a language model's logits; `None`
    /// for what the file says.
    pub pooling: Option<PoolingType>,
    /// The embeddings of pictures that rows can have, of a language model with a vision tower.
    pub pictures: Option<PictureRows>,
    /// Whether passes can keep the hidden states of their rows ([`Plan::exit`]), of a language
    /// model.
    pub hidden: bool,
}

/// The embeddings that a vision tower gives to the rows of a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureRows {
    /// Slices of each, one more than layers that have one of their own.
    pub slices: usize,
    /// The token whose rows of other tables such a row reads.
    pub token: u32,
}

/// The kind of a model's results: the key `pooling_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolingType {
    /// The embedding of each row.
    None,
    /// The embedding of a text: the mean of all rows.
    Mean,
    /// The embedding of a text: its first row.
    First,
    /// The embedding of a text: its last row.
    Last,
    /// Scores by a classifier.
    Rank,
}
