//! The plan: weights, buffers and a flat list of steps.

use pelton_quant::DType;

use crate::{Op, Rope};

/// An index into [`Plan::weights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightId(pub usize);

/// An index into [`Plan::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub usize);

/// An index into [`Plan::ropes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RopeId(pub usize);

/// A tensor of the checkpoint: `rows` rows of `row_len` numbers (one row for a vector).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The tensor's name in the checkpoint.
    pub name: String,
    /// How it is stored.
    pub dtype: DType,
    /// Outputs of a linear, tokens of an embedding; 1 for a norm or a bias.
    pub rows: usize,
    /// Numbers in a row.
    pub row_len: usize,
}

/// Which rows of a batch a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All of them.
    All,
    /// Those whose logits are asked for.
    Selected,
}

/// An f32 value between steps: `width` numbers for each of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The name that a printed plan shows.
    pub name: &'static str,
    /// Numbers in a row.
    pub width: usize,
    /// Which rows it has.
    pub rows: Rows,
}

/// The keys and values of one layer: for each position `heads` times `head_dim` numbers of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Key heads, and as many value heads.
    pub heads: usize,
    /// Numbers in a head.
    pub head_dim: usize,
}

/// One operation on named buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is done.
    pub op: Op,
    /// The buffers that it reads, in the order that the op's documentation gives.
    pub inputs: Vec<BufferId>,
    /// The buffers that it writes; one that is also an input is updated in place.
    pub outputs: Vec<BufferId>,
    /// The layer it belongs to, if any: for printing and profiles.
    pub layer: Option<usize>,
}

/// The model's dimensions, for people: no backend computes with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The architecture's name.
    pub architecture: String,
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Numbers in a head.
    pub head_dim: usize,
    /// Width of the feed-forward network.
    pub ffn: usize,
    /// Whether the embedding table is the output matrix too.
    pub tied: bool,
}

/// One forward pass over R rows, as data.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The model's dimensions, for people.
    pub shape: Shape,
    /// The tensors it reads.
    pub weights: Vec<Weight>,
    /// The values between steps.
    pub buffers: Vec<Buffer>,
    /// The caches of keys and values, one for each layer that attends.
    pub caches: Vec<Cache>,
    /// The rotations.
    pub ropes: Vec<Rope>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// Tokens: a row's token is below it, and it is the width of the logits.
    pub vocab: usize,
    /// Positions that the model was made for: a row's position is below it.
    pub context: usize,
    /// Where the logits are after the last step.
    pub logits: BufferId,
}

impl Plan {
    /// A weight by its index.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.0]
    }

    /// A buffer by its index.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0]
    }

    /// A rotation by its index.
    pub fn rope(&self, id: RopeId) -> &Rope {
        &self.ropes[id.0]
    }

    /// Numbers that the caches hold for one position, keys and values of all layers together.
    pub fn cache_len_per_position(&self) -> usize {
        self.caches.iter().map(|cache| 2 * cache.heads * cache.head_dim).sum()
    }
}
