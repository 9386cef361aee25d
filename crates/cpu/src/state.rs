//! What both paths work on: the plan, its weights, the buffers between steps and the caches.

use std::sync::Arc;

use pelton_graph::{Batch, Error, Limits, Plan, Rows, Step, WeightId};
use pelton_weights::Checkpoint;

use crate::{
    cache::{KvCache, caches},
    lines::Lines,
};

/// Everything that a plan runs on; allocated once.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) plan: Plan,
    pub(crate) weights: Weights,
    /// One for each of the plan's buffers: as many rows as the limits allow.
    pub(crate) buffers: Vec<Lines>,
    /// One for each of the plan's caches.
    pub(crate) caches: Vec<KvCache>,
    pub(crate) limits: Limits,
}

impl State {
    pub(crate) fn new(
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let rows = |rows| match rows {
            Rows::All => limits.rows,
            Rows::Selected => limits.selected,
        };
        let buffers = plan.buffers.iter().map(|b| Lines::zeroed(rows(b.rows), b.width));
        let buffers = buffers.collect::<Result<_, _>>()?;
        Ok(Self {
            weights: Weights::new(&plan, checkpoint)?,
            buffers,
            caches: caches(&plan.caches, limits.kv, limits.pages)?,
            plan,
            limits,
        })
    }

    /// How many rows a step computes: those of what it writes, or else of what it reads.
    pub(crate) fn rows(&self, step: &Step, batch: &Batch<'_>) -> usize {
        let selected = |id| self.plan.buffer(id).rows == Rows::Selected;
        match step.outputs.first().or(step.inputs.first()) {
            Some(&id) if selected(id) => batch.selected.len(),
            _ => batch.rows.len(),
        }
    }

    /// The logits that the last pass left, of `rows` rows.
    pub(crate) fn logits(&self, rows: usize) -> &[f32] {
        &self.buffers[self.plan.logits.0][..rows * self.plan.vocab]
    }
}

/// The plan's tensors: vectors decoded to f32, matrices as they lie in the file.
#[derive(Debug)]
pub(crate) struct Weights {
    checkpoint: Arc<Checkpoint>,
    all: Vec<Weight>,
}

#[derive(Debug)]
enum Weight {
    Vector(Vec<f32>),
    /// The tensor's index in the checkpoint.
    Matrix(usize),
}

impl Weights {
    fn new(plan: &Plan, checkpoint: Arc<Checkpoint>) -> Result<Self, Error> {
        let mut all = Vec::with_capacity(plan.weights.len());
        for weight in &plan.weights {
            let shape = [weight.row_len, weight.rows];
            let dims = if weight.rows == 1 { 1 } else { 2 };
            let tensor = checkpoint.require(&weight.name, &shape[..dims])?;
            all.push(match (dims, checkpoint.tensor_index(&weight.name)) {
                (2, Some(index)) => Weight::Matrix(index),
                _ => Weight::Vector(tensor.decode()),
            });
        }
        Ok(Self { checkpoint, all })
    }

    /// The numbers of a norm or a bias.
    pub(crate) fn vector(&self, id: WeightId) -> &[f32] {
        match &self.all[id.0] {
            Weight::Vector(values) => values,
            Weight::Matrix(_) => &[],
        }
    }

    /// The blocks of a matrix, row after row.
    pub(crate) fn matrix(&self, id: WeightId) -> &[u8] {
        match &self.all[id.0] {
            Weight::Matrix(index) => self.checkpoint.tensor_at(*index).bytes,
            Weight::Vector(_) => &[],
        }
    }

    /// Decodes one row of a matrix.
    pub(crate) fn decode_row(&self, id: WeightId, row: usize, y: &mut [f32]) -> Result<(), Error> {
        let Weight::Matrix(index) = self.all[id.0] else {
            y.copy_from_slice(self.vector(id));
            return Ok(());
        };
        let tensor = self.checkpoint.tensor_at(index);
        let bytes = tensor.dtype.bytes_of(y.len()).unwrap_or(0);
        let blocks = &tensor.bytes[row * bytes..(row + 1) * bytes];
        Ok(pelton_quant::decode(tensor.dtype, blocks, y)?)
    }
}
