//! A plan with its weights and buffers on a GPU.

use pelton_graph::{KvType, Plan, Rows, WeightId};

use crate::{
    device::Device,
    lower::{
        buffers::{Cache, Inputs, Scratch},
        dispatch::RowClass,
        handoff::MatrixOnCores,
        operand::Operand,
        site::Site,
    },
    weights::Weights,
};

/// A plan with its weights and buffers on a GPU: the operands of dispatches.
#[derive(Clone, Copy)]
pub(crate) struct Loaded<'a> {
    pub(crate) device: &'a Device,
    pub(crate) plan: &'a Plan,
    pub(crate) weights: &'a Weights,
    /// The plan's buffers.
    pub(crate) buffers: &'a [wgpu::Buffer],
    pub(crate) inputs: &'a Inputs,
    pub(crate) scratch: &'a Scratch,
    /// The caches of the layers, and the type of their elements.
    pub(crate) caches: &'a [Cache],
    pub(crate) kv: KvType,
    /// The recurrent states `[states]`, each `[slots, len]` f32.
    pub(crate) states: &'a [wgpu::Buffer],
    /// The rotation steps of each rope.
    pub(crate) turns: &'a [wgpu::Buffer],
    /// The most rows of a pass, and of a decoding pass.
    pub(crate) rows: usize,
    pub(crate) decode_rows: usize,
}

impl Loaded<'_> {
    /// A matrix that decoding passes of many rows multiply on matrix cores.
    pub(super) fn on_cores(&self, id: WeightId) -> Option<MatrixOnCores> {
        let matrix = self.weights.matrix(id).ok()?;
        let operand = Operand::of(matrix, RowClass::Many, &self.device.capabilities);
        let found = MatrixOnCores { layout: matrix.layout, shards: matrix.shards.len() };
        (operand == Operand::F16).then_some(found)
    }

    /// The index of a step's number of rows among the row counts of the pass.
    pub(super) fn count_at(&self, site: Site<'_>) -> usize {
        usize::from(self.plan.buffer(site.step.outputs[0]).rows == Rows::Selected)
    }
}
