//! The dispatches of ops on single rows.

use pelton_graph::{BufferId, Error, Gating, Norm, Pooling, Step, StridedCopy, TableRow, WeightId};

use crate::{
    kernels::row_ops::{Product, RowNorm, RowOp},
    lower::{
        dispatch::{Dispatch, Grid},
        lowering::{Lowering, one, refused, whole},
    },
};

impl<'a> Lowering<'a> {
    pub(super) fn embed(
        &mut self,
        table: WeightId,
        x: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>, Error> {
        let matrix = self.loaded.weights.matrix(table)?;
        let mut calls = Vec::with_capacity(matrix.shards.len());
        for shard in &matrix.shards {
            let (first, rows) = (shard.rows.start, shard.rows.len());
            let types = (self.loaded.plan.token_types > 1).then_some(self.loaded.plan.vocab);
            let op = RowOp::embed(&matrix.layout, matrix.row_len, [first, rows], types);
            let inputs = self.loaded.inputs;
            let mut buffers = whole(&[&inputs.rows, &inputs.recent, &inputs.pass, x]);
            buffers.extend(shard.bindings());
            calls.push(self.bound_row_op(&op, &buffers)?);
        }
        Ok(calls)
    }

    /// The sum with a row of a table, in place.
    pub(super) fn add_table(
        &mut self,
        table: WeightId,
        row: TableRow,
        x: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>, Error> {
        // as the kernel has it
        let row = match row {
            TableRow::Position => "rows[id.y].y".to_owned(),
            TableRow::Fixed(row) => format!("{row}u"),
            TableRow::TokenType => format!("rows[id.y].x / {}u", self.loaded.plan.vocab),
        };
        let matrix = self.loaded.weights.matrix(table)?;
        let mut calls = Vec::with_capacity(matrix.shards.len());
        for shard in &matrix.shards {
            let rows = [shard.rows.start, shard.rows.len()];
            let op = RowOp::add_table(&matrix.layout, matrix.row_len, rows, &row);
            let mut buffers = whole(&[&self.loaded.inputs.rows, x]);
            buffers.extend(shard.bindings());
            calls.push(self.bound_row_op(&op, &buffers)?);
        }
        Ok(calls)
    }

    /// The norm of each of `heads` parts of a row: from x to y, or of x in place.
    pub(super) fn norm(
        &mut self,
        norm: &Norm,
        heads: usize,
        width: usize,
        x: &wgpu::Buffer,
        y: Option<&wgpu::Buffer>,
    ) -> Result<Vec<Dispatch>, Error> {
        let &Norm { kind, weight, bias, eps } = norm;
        let length = width / heads;
        let heads_of = |id: Option<WeightId>| match id {
            Some(id) if self.loaded.plan.weight(id).row_len == length => 1,
            Some(_) => heads,
            None => 0,
        };
        let (weight_heads, bias_heads) = (heads_of(weight), heads_of(bias));
        let op = RowNorm { kind, length, eps, weight_heads, bias_heads };
        let mut buffers = vec![x];
        buffers.extend(y);
        for id in [weight, bias].into_iter().flatten() {
            buffers.push(self.loaded.weights.vector(id)?);
        }
        self.row_op(&RowOp::norm(&op, heads, y.is_none()), &buffers).map(one)
    }

    /// A gated product, whose buffer may be that of the gate or of the value.
    pub(super) fn glu(
        &mut self,
        gating: &Gating,
        step: &Step,
        [gate, up, g]: [&wgpu::Buffer; 3],
    ) -> Result<Vec<Dispatch>, Error> {
        let width = |id: BufferId| self.loaded.plan.buffer(id).width;
        let (inputs, output) = (&step.inputs, step.outputs[0]);
        let one_gate = width(inputs[0]) == 1 && width(output) > 1;
        let (to, buffers) = match output {
            g if g == inputs[0] => (Product::Gate, vec![gate, up]),
            g if g == inputs[1] => (Product::Up, vec![gate, up]),
            _ => (Product::Own, vec![gate, up, g]),
        };
        self.row_op(&RowOp::glu(width(output), gating, one_gate, to), &buffers).map(one)
    }

    /// A strided copy between rows of two buffers.
    pub(super) fn copy(
        &mut self,
        copy: &StridedCopy,
        step: &Step,
        [x, y]: [&wgpu::Buffer; 2],
    ) -> Result<Vec<Dispatch>, Error> {
        let [from, to] = [step.inputs[0], step.outputs[0]];
        if from == to {
            return Err(refused("a copy within one buffer"));
        }
        let width = |id: BufferId| self.loaded.plan.buffer(id).width;
        self.row_op(&RowOp::copy(copy, width(from), width(to)), &[x, y]).map(one)
    }

    /// The pooling of sequences, whose rows are all in one pass.
    pub(super) fn pool(
        &mut self,
        pooling: Pooling,
        width: usize,
        [x, y]: [&wgpu::Buffer; 2],
    ) -> Result<Vec<Dispatch>, Error> {
        let buffers = [&self.loaded.inputs.rows, &self.loaded.inputs.selected, x, y];
        self.row_op(&RowOp::pool(width, pooling), &buffers).map(one)
    }

    pub(super) fn row_op(
        &mut self,
        op: &RowOp,
        buffers: &[&wgpu::Buffer],
    ) -> Result<Dispatch, Error> {
        self.bound_row_op(op, &whole(buffers))
    }

    fn bound_row_op(
        &mut self,
        op: &RowOp,
        buffers: &[wgpu::BufferBinding<'_>],
    ) -> Result<Dispatch, Error> {
        let grid = Grid::Rows { x: op.groups, batch: 1 };
        self.call(&op.source()?, op.bindings(), op.label, buffers, grid)
    }
}
