//! The plan of a model: weights, buffers, caches and a flat list of steps.

use std::ops::Range;

use crate::{
    Adapters, BufferId, EffortOptions, Error, Index, KvElement, KvType, Mask, Op, Phase, Rope,
    RopeId, TableRow, Weight, WeightId,
};

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

/// The KV cache of one layer: keys `[positions, heads, key_dim]`, values
/// `[positions, heads, value_dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// KV heads: key heads, and as many value heads.
    pub heads: usize,
    /// Elements of a key.
    pub key_dim: usize,
    /// The values.
    pub values: Values,
    /// The index of its group in [`Plan::groups`].
    pub group: usize,
}

/// The values of a [`Cache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Stored next to the keys.
    Own {
        /// Elements of a value.
        dim: usize,
    },
    /// The first elements of each key (latent attention): the cache holds keys only, and a store
    /// has no values as input.
    KeyPrefix {
        /// Elements of a value.
        dim: usize,
    },
}

impl Cache {
    /// A cache whose keys and values have the same length.
    pub const fn new(heads: usize, head_dim: usize, group: usize) -> Self {
        Self { heads, key_dim: head_dim, values: Values::Own { dim: head_dim }, group }
    }

    /// Elements of a value.
    pub const fn value_dim(&self) -> usize {
        match self.values {
            Values::Own { dim } | Values::KeyPrefix { dim } => dim,
        }
    }

    /// The length of keys and values if it is the same and both are stored.
    pub fn head_dim(&self) -> Option<usize> {
        (self.values == Values::Own { dim: self.key_dim }).then_some(self.key_dim)
    }

    /// The type of the values, which may be a prefix of the keys.
    pub const fn value_type(&self, kv: KvType) -> KvElement {
        match self.values {
            Values::Own { .. } => kv.values,
            Values::KeyPrefix { .. } => kv.keys,
        }
    }

    /// Bytes of one position. Blocks do not span heads.
    pub const fn bytes_per_position(&self, kv: KvType) -> usize {
        let values = match self.values {
            Values::Own { dim } => kv.values.bytes(dim),
            Values::KeyPrefix { .. } => 0,
        };
        self.heads * (kv.keys.bytes(self.key_dim) + values)
    }

    /// Checks that keys and values are whole blocks of their types.
    ///
    /// # Errors
    ///
    /// [`Error::Kv`] naming the type and the length of the heads.
    pub fn check(&self, kv: KvType) -> Result<(), Error> {
        let sides = [(kv.keys, self.key_dim), (self.value_type(kv), self.value_dim())];
        let ragged = |(kv, dim): &(KvElement, usize)| !dim.is_multiple_of(kv.dtype().block_len());
        match sides.into_iter().find(ragged) {
            Some((kv, dim)) => Err(Error::Kv {
                kv,
                what: format!(
                    "heads of {dim} elements are no whole blocks of {}, expected f16, bf16 or f32",
                    kv.dtype().block_len()
                ),
            }),
            None => Ok(()),
        }
    }

    /// Elements that it stores for a position.
    pub const fn len_per_position(&self) -> usize {
        match self.values {
            Values::Own { dim } => self.heads * (self.key_dim + dim),
            Values::KeyPrefix { .. } => self.heads * self.key_dim,
        }
    }
}

/// The recurrent state of one layer: f32 elements of each slot. It belongs to the newest position
/// that has run in the slot; a row at position 0 starts from zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Elements of one slot.
    pub len: usize,
}

/// The embeddings that rows without a token bring ([`Input::Embedding`](crate::Input::Embedding)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injected {
    /// Slices `[hidden]` of an embedding: the first is the row's, the others are added to the
    /// residual stream after the first layers (DeepStack, arXiv 2406.04334).
    pub slices: usize,
    /// The token whose rows of tables such a row reads.
    pub token: u32,
}

/// The name of the buffers of a linear's inputs times the factor next to its matrix.
pub(crate) const SCALED: &str = "scaled";

/// The meaning of a plan's last buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputKind {
    /// Logits `[selected rows, vocab]`: tokens can be sampled from them.
    Logits,
    /// Embeddings `[selected rows, width]`.
    Embedding,
    /// Relevance scores `[selected rows, labels]`.
    Scores,
}

/// The encoder of a plan whose decoder attends to encoded windows of features (Whisper, arXiv
/// 2212.04356). A pass of [`Phase::Encode`] runs it over whole windows.
///
/// Its rows are the positions of windows, each window in a slot of its own. They have no tokens:
/// their features come with the pass. The steps end in the stores of the keys and values that the
/// decoder attends to. The page tables of a decoding slot name the pages of its window, which
/// several slots share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoder {
    /// Number of its steps, the first ones of [`Plan::steps`].
    pub steps: usize,
    /// Positions of a window.
    pub positions: usize,
    /// The buffer `[rows, width]` of the features, which
    /// [`Pass::hidden`](crate::Pass::hidden) fills.
    pub features: BufferId,
    /// The buffer `[rows, width]` that a pass can [keep](crate::Pass::keeps_hidden).
    pub kept: Option<BufferId>,
    /// The group of the caches that the decoder attends to.
    pub cross: usize,
    /// The group of the caches that only the encoder reads.
    pub own: usize,
}

/// The feed-forward network of a layer whose weights stay in the host's memory
/// ([`Backend::load_with_host`](crate::Backend::load_with_host)). It uses no cache and no state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPart {
    /// Its steps, which no step of the device fuses with.
    pub steps: Range<usize>,
    /// The buffer of all rows that it reads: nothing else that is written before it is
    /// read in it or after it.
    pub entry: BufferId,
    /// The buffer of all rows that is read after it.
    pub exit: BufferId,
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
    /// The recurrent states.
    pub states: Vec<State>,
    /// The rotary embeddings.
    pub ropes: Vec<Rope>,
    /// The steps, in the order in which they run: those of the encoder, if there is one, and then
    /// those of passes with tokens.
    pub steps: Vec<Step>,
    /// Rows of the embedding table; every token is below it.
    pub vocab: usize,
    /// The token types: 2 or more if tokens have one, else 1. The token of a row of type `t` is
    /// `t · vocab` plus its id, so that pages of different types are never shared.
    pub token_types: usize,
    /// Maximum positions of a sequence; every position is below it.
    pub context: usize,
    /// Whether all rows of a sequence have to be in one pass, because rows see later ones or are
    /// pooled.
    pub whole_sequences: bool,
    /// The scores and the ranks of marked weights, of which rows below 1 leave out parts.
    pub marks: EffortOptions,
    /// The meaning of the last buffer.
    pub output: OutputKind,
    /// The buffer of the results after the last step, the logits of a decoder. A part before the
    /// last one of a model has no results: the buffer is one of its [exit](Self::exit).
    pub logits: BufferId,
    /// The buffers of all rows that come with a pass ([`Pass::hidden`](crate::Pass::hidden)),
    /// before its steps read them: those of a part of a model after its first, and of a head.
    pub entry: Vec<BufferId>,
    /// The buffers of all rows that a pass can [keep](crate::Pass::keeps_hidden). In later repeats
    /// the steps of a head, whose entry they are, read those of the repeat before.
    pub exit: Vec<BufferId>,
    /// The embeddings of rows without a token, if rows can have any.
    pub injected: Option<Injected>,
    /// The encoder, if the plan has one.
    pub encoder: Option<Encoder>,
    /// The parts whose weights stay in the host's memory next to a device of its own, in the
    /// order of their steps.
    pub host: Vec<HostPart>,
}

impl Plan {
    /// The steps that a pass of this phase runs.
    pub fn steps_of(&self, phase: Phase) -> Range<usize> {
        let encoder = self.encoder.map_or(0, |encoder| encoder.steps);
        match phase {
            Phase::Encode => 0..encoder,
            Phase::Prompt | Phase::Decode | Phase::Mixed { .. } => encoder..self.steps.len(),
        }
    }

    /// Whether no op and no kernel spans a step and the one before it: one belongs to the encoder
    /// or to a part of the host, and the other does not.
    pub fn begins_part(&self, step: usize) -> bool {
        self.encoder.is_some_and(|encoder| encoder.steps == step)
            || self.host.iter().any(|part| part.steps.start == step || part.steps.end == step)
    }

    /// The only part of the host that reads each weight `[weights]`, as an index of
    /// [`host`](Self::host); `None` of a weight that another step reads.
    pub fn host_parts(&self) -> Vec<Option<usize>> {
        let mut readers: Vec<Option<Option<usize>>> = vec![None; self.weights.len()];
        for (i, step) in self.steps.iter().enumerate() {
            let part = self.host.iter().position(|part| part.steps.contains(&i));
            step.op.clone().visit_indices(&mut |index| {
                if let Index::Weight(id) = index {
                    let reader = readers[id.0].get_or_insert(part);
                    *reader = reader.filter(|_| *reader == part);
                }
            });
        }
        readers.into_iter().map(Option::flatten).collect()
    }

    /// The buffers that come with a pass of this phase.
    pub fn given(&self, phase: Phase) -> &[BufferId] {
        match phase {
            Phase::Encode => {
                self.encoder.as_ref().map_or(&[], |of| std::slice::from_ref(&of.features))
            }
            Phase::Prompt | Phase::Decode | Phase::Mixed { .. } => &self.entry,
        }
    }

    /// The buffers that a pass of this phase can [keep](crate::Pass::keeps_hidden).
    pub fn kept(&self, phase: Phase) -> &[BufferId] {
        match phase {
            Phase::Encode => self.encoder.as_ref().map_or(&[], |of| of.kept.as_slice()),
            Phase::Prompt | Phase::Decode | Phase::Mixed { .. } => &self.exit,
        }
    }

    /// Elements of a row in these buffers together.
    pub fn width_of(&self, buffers: &[BufferId]) -> usize {
        buffers.iter().map(|&id| self.buffer(id).width).sum()
    }

    /// Positions of an encoded window; 0 without an encoder.
    pub fn encoded_positions(&self) -> usize {
        self.encoder.map_or(0, |encoder| encoder.positions)
    }

    /// Rows that a table of positions needs at least.
    pub fn positions_of(&self, table: WeightId) -> usize {
        let adds = |step: &Step| matches!(step.op, Op::AddTable { table: of, row: TableRow::Position } if of == table);
        let [encoder, decoder] = [Phase::Encode, Phase::Decode]
            .map(|phase| self.steps[self.steps_of(phase)].iter().any(adds));
        match (encoder, decoder) {
            (true, true) => self.context.max(self.encoded_positions()),
            (true, false) => self.encoded_positions(),
            (false, _) => self.context,
        }
    }

    /// A weight by its index.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.0]
    }

    /// A buffer by its index.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0]
    }

    /// The tokens of rows, of every type, are below this.
    pub fn input_tokens(&self) -> usize {
        self.vocab.saturating_mul(self.token_types)
    }

    /// Whether rows can have results: not those of a part of a model before its last one.
    pub fn has_results(&self) -> bool {
        !self.exit.contains(&self.logits)
    }

    /// Elements of a result: the vocabulary of a decoder, the width of an embedding.
    pub fn output_width(&self) -> usize {
        self.buffer(self.logits).width
    }

    /// Elements of a row's hidden state, which passes can keep; 0 if they have none.
    pub fn hidden_width(&self) -> usize {
        self.width_of(&self.exit)
    }

    /// A rotary embedding by its index.
    pub fn rope(&self, id: RopeId) -> &Rope {
        &self.ropes[id.0]
    }

    /// Elements of an embedding of a row without a token; 0 if no row can have one.
    pub fn injected_width(&self) -> usize {
        self.injected.map_or(0, |of| of.slices.saturating_mul(self.shape.hidden))
    }

    /// The token whose rows of tables a row without a token reads.
    pub fn stand_in(&self) -> u32 {
        self.injected.map_or(0, |of| of.token)
    }

    /// Whether attention or rotations read the [places](crate::Place) of rows.
    pub fn has_places(&self) -> bool {
        let in_groups = |mask| matches!(mask, Mask::CausalOrGroup { .. } | Mask::Group);
        let sees = |step: &Step| match &step.op {
            Op::Attend(attention) | Op::RopeAttend(_, attention) => in_groups(attention.mask),
            _ => false,
        };
        self.ropes.iter().any(|rope| !rope.axes.is_empty()) || self.steps.iter().any(sees)
    }

    /// Whether a sequence can be cut back to any of its positions, as after a rejected draft. The
    /// caches keep every position, recurrent states only the newest. A plan with states is cut back
    /// to a position at which a snapshot was [saved](crate::Executable::save_states).
    pub fn can_roll_back(&self) -> bool {
        self.states.is_empty() && !self.whole_sequences
    }

    /// The LoRA adapters that its rows can have, if there are any.
    pub fn adapters(&self) -> Option<Adapters> {
        self.steps.iter().find_map(|step| match step.op {
            Op::Adapters(adapters) => Some(adapters),
            _ => None,
        })
    }

    /// The ids and weights of the adapters of one of `slots` slots, as [`Adapters::row`] has them.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the plan has no adapters, or if the slot or an adapter does not exist.
    pub fn adapters_of(
        &self,
        slots: usize,
        slot: u32,
        adapters: &[(u32, f32)],
    ) -> Result<Vec<f32>, Error> {
        match self.adapters() {
            Some(all) if (slot as usize) < slots => all.row(adapters),
            Some(_) => {
                Err(Error::Pass(format!("slot {slot} of adapters, expected one of {slots}")))
            }
            None => Err(Error::Pass(format!("adapters of slot {slot}, but the plan has none"))),
        }
    }

    /// Elements of the recurrent states of one slot.
    pub fn state_len(&self) -> usize {
        self.states.iter().map(|state| state.len).sum()
    }

    /// Elements per position in the caches of a group: keys and values of all its layers.
    pub fn cache_len_per_position(&self, group: usize) -> usize {
        let caches = self.caches.iter().filter(|cache| cache.group == group);
        caches.map(Cache::len_per_position).sum()
    }

    /// The kind of rows that a step computes: that of the buffer that it writes. A step that writes
    /// none has the kind of the buffer that it reads.
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
