//! The plan of a model: weights, buffers, caches and a flat list of steps.

use pelton_quant::DType;

use crate::{BufferId, Op, Rope, RopeId, WeightId};

/// The use of a weight, which decides how a backend keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightKind {
    /// A norm or a bias `[row_len]`: decoded to f32 at load.
    Vector,
    /// A linear or an embedding table `[rows, row_len]`: kept in its stored format.
    Matrix,
}

/// A tensor of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The tensor's name in the checkpoint.
    pub name: String,
    /// The stored format.
    pub dtype: DType,
    /// Its use.
    pub kind: WeightKind,
    /// Outputs of a linear, tokens of an embedding table; 1 for a vector.
    pub rows: usize,
    /// Elements of a row.
    pub row_len: usize,
}

impl Weight {
    /// The shape in the checkpoint, the innermost dimension first.
    pub fn dims(&self) -> Vec<usize> {
        match self.kind {
            WeightKind::Vector => vec![self.row_len],
            WeightKind::Matrix => vec![self.row_len, self.rows],
        }
    }
}

/// The rows of a pass that a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All rows.
    All,
    /// The rows that have a [`Want`](crate::Want).
    Selected,
}

/// An f32 value `[rows, width]` between steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The name that a printed plan shows.
    pub name: &'static str,
    /// Elements of a row.
    pub width: usize,
    /// Its rows.
    pub rows: Rows,
}

/// The layers that have the same page tables, because their queries see the same positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheGroup {
    /// Number of positions that a query sees, its own included; `None` for all. Pages that lie
    /// wholly before the window of every later query can be freed.
    pub window: Option<usize>,
}

/// The KV cache of one layer: keys and values `[positions, heads, head_dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// KV heads: key heads, and as many value heads.
    pub heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// The index of its group in [`Plan::groups`].
    pub group: usize,
}

/// An op and the buffers that it reads and writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The op.
    pub op: Op,
    /// The buffers that it reads, in the order that the op's documentation gives.
    pub inputs: Vec<BufferId>,
    /// The buffers that it writes; one that is also an input is updated in place.
    pub outputs: Vec<BufferId>,
    /// The index of its layer, if any: for printed plans, messages and profiles.
    pub layer: Option<usize>,
}

/// The model's dimensions, for printed plans and tools; no backend computes with them.
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
    /// KV heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Width of the feed-forward network.
    pub ffn: usize,
    /// Whether the output matrix is the embedding table.
    pub tied: bool,
}

/// A model's forward pass over any number of rows, as data.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The model's dimensions.
    pub shape: Shape,
    /// The tensors that it reads.
    pub weights: Vec<Weight>,
    /// The buffers of the values between steps.
    pub buffers: Vec<Buffer>,
    /// The KV caches, one for each layer with attention.
    pub caches: Vec<Cache>,
    /// The cache groups: caches of one group have the same page tables.
    pub groups: Vec<CacheGroup>,
    /// The rotary embeddings.
    pub ropes: Vec<Rope>,
    /// The steps, in the order in which they run.
    pub steps: Vec<Step>,
    /// Rows of the embedding table and width of the logits; every token is below it.
    pub vocab: usize,
    /// Maximum positions of a sequence; every position is below it.
    pub context: usize,
    /// The buffer of the logits `[selected rows, vocab]` after the last step.
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

    /// A rotary embedding by its index.
    pub fn rope(&self, id: RopeId) -> &Rope {
        &self.ropes[id.0]
    }

    /// Elements per position in the caches of a group: keys and values of all its layers.
    pub fn cache_len_per_position(&self, group: usize) -> usize {
        let caches = self.caches.iter().filter(|cache| cache.group == group);
        caches.map(|cache| 2 * cache.heads * cache.head_dim).sum()
    }

    /// The kind of rows that a step computes: that of the buffer that it writes, or if there is
    /// none, that of the buffer that it reads.
    pub fn step_rows(&self, step: &Step) -> Rows {
        let buffer = step.outputs.first().or(step.inputs.first());
        buffer.map_or(Rows::All, |&id| self.buffer(id).rows)
    }

    /// Number of rows that a step computes in a pass of `rows` rows of which `selected` are
    /// selected.
    pub fn rows_of(&self, step: &Step, rows: usize, selected: usize) -> usize {
        match self.step_rows(step) {
            Rows::All => rows,
            Rows::Selected => selected,
        }
    }
}
