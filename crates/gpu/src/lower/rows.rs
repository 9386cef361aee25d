//! The dispatches of ops on single rows.

use pelton_graph::{BufferId, Error, Gating, Norm, Pooling, Step, StridedCopy, TableRow, WeightId};

use crate::{
    device::BufferList,
    kernels::row_ops::{GluOutput, RowNorm, RowOp},
    lower::{
        buffers::Inputs,
        dispatch::{Dispatch, Grid},
        lowering::{Lowering, one, refused},
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
            let mut buffers = BufferList::of([
                ("rows", &inputs.rows),
                ("recent", &inputs.recent),
                ("pass_info", &inputs.pass),
                ("x", x),
            ]);
            buffers.extend(matrix.planes(shard, 0));
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
            let mut buffers = BufferList::of([("rows", &self.loaded.inputs.rows), ("x", x)]);
            buffers.extend(matrix.planes(shard, 0));
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
        let mut buffers = BufferList::of([("x", x)]);
        if let Some(y) = y {
            buffers.add("y", y);
        }
        for (name, id) in [("weight", weight), ("bias", bias)] {
            if let Some(id) = id {
                buffers.add(name, self.loaded.weights.vector(id)?);
            }
        }
        self.bound_row_op(&RowOp::norm(&op, heads, y.is_none()), &buffers).map(one)
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
        let (to, own) = match output {
            g if g == inputs[0] => (GluOutput::Gate, None),
            g if g == inputs[1] => (GluOutput::Up, None),
            _ => (GluOutput::Own, Some(("g", g))),
        };
        let buffers = [("gate", gate), ("up", up)].into_iter().chain(own);
        self.row_op(&RowOp::glu(width(output), gating, width(inputs[0]), to), buffers).map(one)
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
        self.row_op(&RowOp::copy(copy, width(from), width(to)), [("x", x), ("y", y)]).map(one)
    }

    /// The pooling of sequences, whose rows are all in one pass.
    pub(super) fn pool(
        &mut self,
        pooling: Pooling,
        width: usize,
        [x, y]: [&wgpu::Buffer; 2],
    ) -> Result<Vec<Dispatch>, Error> {
        let Inputs { rows, selected, .. } = self.loaded.inputs;
        let buffers = [("rows", rows), ("selected", selected), ("x", x), ("y", y)];
        self.row_op(&RowOp::pool(width, pooling), buffers).map(one)
    }

    pub(super) fn row_op<'b>(
        &mut self,
        op: &RowOp,
        buffers: impl IntoIterator<Item = (&'static str, &'b wgpu::Buffer)>,
    ) -> Result<Dispatch, Error> {
        self.bound_row_op(op, &BufferList::of(buffers))
    }

    fn bound_row_op(&mut self, op: &RowOp, buffers: &BufferList<'_>) -> Result<Dispatch, Error> {
        let grid = Grid::Rows { x: op.groups, batch: 1 };
        self.call(op.label, &op.source()?, buffers, grid)
    }
}
