//! Products on matrix cores: of the rows of prompts, and of decoding passes of many rows.
//!
//! A decoding pass has too few rows to fill a GPU with tiles. So K is split, products of the same
//! activations run in one dispatch, and the step after a product in the plan completes its partial
//! sums. This saves dispatches, each of which waits for the one before.

use pelton_graph::{Error, Gating, Linear, Norm, Op, Rows, Step};

use crate::{
    kernels::{
        matmul::{DECODE, DECODE_FEW, Matmul, Tile, decode_splits},
        matvec::FusedMatrix,
        sum_splits::{Output, SumSplits},
        to_f16::{Partial, ToF16, padded},
    },
    lower::{
        dispatch::{Dispatch, Grid, RowBucket},
        lowering::{Lowering, whole},
        products::Operand,
    },
    weights::Matrix,
};

impl<'a> Lowering<'a> {
    /// The tile of a decoding pass, and its rows at most; `None` for prompts.
    fn decode_tile(&self, bucket: RowBucket) -> Option<(Tile, usize)> {
        match bucket {
            RowBucket::ThirtyTwo => Some((self.on_cores(DECODE_FEW), DECODE_FEW.batch)),
            RowBucket::Many => Some((self.on_cores(DECODE), self.decode_rows)),
            _ => None,
        }
    }

    fn on_cores(&self, tile: Tile) -> Tile {
        tile.on(&self.device.capabilities)
    }

    /// A product of activations in 16 bits.
    pub(super) fn matmul(
        &mut self,
        linear: &Linear,
        y: &wgpu::Buffer,
        step: &Step,
        add: bool,
        bucket: RowBucket,
    ) -> Result<Vec<Dispatch>, Error> {
        let Some((tile, rows)) = self.decode_tile(bucket) else {
            return self.prompt_matmul(&[*linear], &[y], step, add);
        };
        let matrix = self.weights.matrix(linear.weight)?;
        let outputs = self.plan.weight(linear.weight).rows;
        let selected = self.plan.buffer(step.outputs[0]).rows == Rows::Selected;
        let splits = decode_splits(&tile, matrix.row_len, outputs, rows);
        let completed_later = self.following(step).is_some_and(|next| self.completes(next, bucket));
        let whole_k = splits == 1 && !completed_later;
        let mut calls = Vec::with_capacity(matrix.shards.len() + 1);
        for shard in &matrix.shards {
            let matmul = Matmul {
                layout: matrix.layout,
                k: matrix.row_len,
                rows: shard.rows.len(),
                offset: shard.rows.start,
                stride: outputs,
                bias: linear.bias.is_some() && whole_k,
                add: add && whole_k,
                count_at: usize::from(selected),
                splits,
                slab_rows: self.decode_rows,
                experts: None,
                fused_with: [None; 2],
                own_y: false,
            };
            let to = if whole_k { y } else { &self.scratch.partial };
            let mut buffers = whole(&[&self.scratch.halves, to, &self.inputs.pass]);
            if let Some(bias) = linear.bias.filter(|_| whole_k) {
                buffers.push(self.weights.vector(bias)?.as_entire_buffer_binding());
            }
            buffers.extend(shard.bindings());
            let grid = Grid::Tiles(tile, matmul.rows, splits);
            let source = matmul.source(&tile)?;
            calls.push(self.call(&source, &matmul.bindings(), "matmul", &buffers, grid)?);
        }
        if !whole_k && !completed_later {
            let output = Output { rows: outputs, bias: linear.bias.is_some() };
            let sum = self.sum(splits, vec![output], add);
            let mut buffers = whole(&[&self.scratch.partial, y]);
            if let Some(bias) = linear.bias {
                buffers.push(self.weights.vector(bias)?.as_entire_buffer_binding());
            }
            calls.push(self.sum_call(&sum, &buffers)?);
        }
        Ok(calls)
    }

    pub(super) const fn sum(&self, splits: usize, outputs: Vec<Output>, add: bool) -> SumSplits {
        let slab_rows = self.decode_rows;
        SumSplits { splits, slab_rows, outputs, add, glu: None, halves: false }
    }

    pub(super) fn sum_call(
        &mut self,
        sum: &SumSplits,
        buffers: &[wgpu::BufferBinding<'_>],
    ) -> Result<Dispatch, Error> {
        let grid = Grid::Rows { x: sum.groups(), batch: 1 };
        self.call(&sum.source()?, &sum.bindings(), "sum_splits", buffers, grid)
    }

    /// Whether products of the same activations run in one dispatch.
    pub(super) fn fuses_on_cores(
        &self,
        linears: &[Linear],
        bucket: RowBucket,
    ) -> Result<bool, Error> {
        if self.decode_tile(bucket).is_none() || !(2..=3).contains(&linears.len()) {
            return Ok(false);
        }
        let first = self.weights.matrix(linears[0].weight)?;
        for linear in linears {
            let matrix = self.weights.matrix(linear.weight)?;
            let suits =
                matrix.layout == first.layout || (matrix.layout.blocks() && first.layout.blocks());
            let cores = self.operand(matrix, bucket) == Operand::F16;
            if !suits || !cores || matrix.shards.len() != 1 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a gate and its value run in one dispatch.
    pub(super) fn gates_on_cores(
        &self,
        [gate, up]: [&Linear; 2],
        bucket: RowBucket,
    ) -> Result<bool, Error> {
        let plain = gate.bias.is_none() && up.bias.is_none();
        Ok(plain && self.fuses_on_cores(&[*gate, *up], bucket)?)
    }

    /// Products of the same activations in one dispatch, with a gating their gated product.
    #[allow(clippy::too_many_arguments, reason = "each is what differs between ops")]
    pub(super) fn fused_matmul(
        &mut self,
        norm: &Norm,
        linears: &[Linear],
        x: &wgpu::Buffer,
        outputs: &[&wgpu::Buffer],
        step: &Step,
        gating: Option<&Gating>,
        bucket: RowBucket,
    ) -> Result<Vec<Dispatch>, Error> {
        let matrices: Vec<&Matrix> = linears
            .iter()
            .map(|linear| self.weights.matrix(linear.weight))
            .collect::<Result<_, Error>>()?;
        let Some((tile, rows)) = self.decode_tile(bucket) else {
            return Err(super::lowering::refused("a fused product of a prompt"));
        };
        let k = matrices[0].row_len;
        let part = |linear: &Linear| Output {
            rows: self.plan.weight(linear.weight).rows,
            bias: linear.bias.is_some(),
        };
        let parts: Vec<Output> = linears.iter().map(part).collect();
        let total: usize = parts.iter().map(|part| part.rows).sum();
        let splits = decode_splits(&tile, k, total, rows);
        let selected = self.plan.buffer(step.outputs[0]).rows == Rows::Selected;
        let fused = |i: usize| {
            let matrix = matrices.get(i)?;
            Some(FusedMatrix { layout: matrix.layout, rows: parts[i].rows })
        };
        let matmul = Matmul {
            layout: matrices[0].layout,
            k,
            rows: parts[0].rows,
            offset: 0,
            stride: total,
            bias: false,
            add: false,
            count_at: usize::from(selected),
            splits,
            slab_rows: self.decode_rows,
            experts: None,
            fused_with: [fused(1), fused(2)],
            own_y: false,
        };
        let mut calls = self.complete(norm, x, k, step, bucket)?;
        let scratch = self.scratch;
        let mut buffers = whole(&[&scratch.halves, &scratch.partial, &self.inputs.pass]);
        for matrix in &matrices {
            buffers.extend(matrix.shards.iter().flat_map(|shard| shard.bindings()));
        }
        let grid = Grid::Tiles(tile, matmul.tiled_rows(&tile), splits);
        let source = matmul.source(&tile)?;
        calls.push(self.call(&source, &matmul.bindings(), "matmul", &buffers, grid)?);

        let halves = self.following(step).is_some_and(|next| self.halves_ready(next, bucket));
        let sum = SumSplits { glu: gating.copied(), halves, ..self.sum(splits, parts, false) };
        let mut buffers = whole(&[&scratch.partial]);
        for (linear, y) in linears.iter().zip(outputs) {
            let to = if halves { &scratch.halves } else { *y };
            buffers.push(to.as_entire_buffer_binding());
            if let Some(bias) = linear.bias {
                buffers.push(self.weights.vector(bias)?.as_entire_buffer_binding());
            }
        }
        calls.push(self.sum_call(&sum, &buffers)?);
        Ok(calls)
    }

    /// Brings the norm of x to f16; where the product before left partial sums, x is completed from
    /// them first.
    pub(super) fn complete(
        &mut self,
        norm: &Norm,
        x: &wgpu::Buffer,
        k: usize,
        step: &Step,
        bucket: RowBucket,
    ) -> Result<Vec<Dispatch>, Error> {
        let before = self.preceding(step).filter(|_| self.completes(step, bucket));
        let (Some(Step { op: Op::LinearAdd(linear), .. }), Some((tile, rows))) =
            (before, self.decode_tile(bucket))
        else {
            return self.prepare(Operand::F16, Some(norm), x, k, 1);
        };
        let row_len = self.weights.matrix(linear.weight)?.row_len;
        let partial = Partial {
            splits: decode_splits(&tile, row_len, k, rows),
            slab_rows: self.decode_rows,
            bias: linear.bias.is_some(),
        };
        let op = ToF16 { k, per_row: 1, norm: Some(norm.eps), partial: Some(partial) };
        let mut buffers = whole(&[x, &self.scratch.halves, self.rms_weight(norm)?]);
        buffers.push(self.scratch.partial.as_entire_buffer_binding());
        if let Some(bias) = linear.bias {
            buffers.push(self.weights.vector(bias)?.as_entire_buffer_binding());
        }
        let call = self.call(
            &op.source(&self.device.capabilities)?,
            &op.bindings(),
            "to_f16",
            &buffers,
            Grid::Row,
        )?;
        Ok(vec![call])
    }

    /// Whether a step begins with the norm of what the product before it adds to, on matrix cores in
    /// the same rows: then the step completes the product's partial sums.
    fn completes(&self, step: &Step, bucket: RowBucket) -> bool {
        let first = match &step.op {
            Op::NormLinear { norm: _, linears } => linears.first(),
            Op::NormGlu { norm: _, gate, up: _, gating: _ } => Some(gate),
            _ => None,
        };
        let Some(first) = first.filter(|_| self.decode_tile(bucket).is_some()) else {
            return false;
        };
        let Some(before) = self.preceding(step) else { return false };
        let Op::LinearAdd(product) = &before.op else { return false };
        let rows = |step: &Step| self.plan.buffer(step.outputs[0]).rows;
        let cores = |linear: &Linear| {
            let matrix = self.weights.matrix(linear.weight);
            matrix.is_ok_and(|matrix| self.operand(matrix, bucket) == Operand::F16)
        };
        // a row of an effort below 1 has its sums at once
        let marked = |linear: &Linear| self.plan.weight(linear.weight).effort;
        before.outputs[0] == step.inputs[0]
            && marked(first) == marked(product)
            && rows(before) == rows(step)
            && cores(first)
            && cores(product)
    }

    /// Whether the gated product before a step leaves the step's activations in f16.
    pub(super) fn halves_ready(&self, step: &Step, bucket: RowBucket) -> bool {
        let Op::LinearAdd(product) = &step.op else { return false };
        let Some(before) = self.preceding(step) else { return false };
        let Op::NormGlu { norm: _, gate, up, gating: _ } = &before.op else { return false };
        let g = before.outputs[0];
        let readers = self.plan.steps.iter().filter(|step| step.inputs.contains(&g)).count();
        let matrix = self.weights.matrix(product.weight);
        let marked = |linear: &Linear| self.plan.weight(linear.weight).effort;
        step.inputs.get(1) == Some(&g)
            && marked(gate) == marked(product)
            && marked(up) == marked(product)
            && readers == 1
            && self.plan.buffer(g).rows == self.plan.buffer(step.outputs[0]).rows
            && self.gates_on_cores([gate, up], bucket).unwrap_or(false)
            && matrix.is_ok_and(|matrix| {
                self.operand(matrix, bucket) == Operand::F16
                    && padded(matrix.row_len) == matrix.row_len
            })
    }

    fn position(&self, step: &Step) -> Option<usize> {
        self.plan.steps.iter().position(|other| std::ptr::eq(other, step))
    }

    fn preceding(&self, step: &Step) -> Option<&'a Step> {
        self.plan.steps.get(self.position(step)?.checked_sub(1)?)
    }

    fn following(&self, step: &Step) -> Option<&'a Step> {
        self.plan.steps.get(self.position(step)? + 1)
    }
}
