//! Products on matrix cores: of the rows of prompts, and of decoding passes of many rows.
//!
//! A decoding pass has too few rows to fill a GPU with tiles. So K is split, products of the same
//! activations run in one dispatch, and the step after a product in the plan completes its partial
//! sums (`handoff.rs`). This saves dispatches, each of which waits for the one before.

use pelton_graph::{Error, Gating, Linear, Norm, Rows};

use crate::{
    device::BufferList,
    kernels::{
        cores_matmul::{CoresMatmul, DECODE, Tile, decode_few, decode_splits},
        matvec::FusedMatrix,
        sum_splits::{Output, SumSplits},
        to_f16::{HalvedNorm, Partial, ToF16},
    },
    lower::{
        dispatch::{Dispatch, Grid, RowClass},
        lowering::{Lowering, refused},
        operand::Operand,
        projection::{NormedProjections, Projection},
        site::Site,
    },
    weights::Matrix,
};

impl<'a> Lowering<'a> {
    /// The tile of a decoding pass for a number of outputs; `None` for prompts.
    pub(super) fn decode_tile(&self, class: RowClass, outputs: usize) -> Option<Tile> {
        match class {
            RowClass::ThirtyTwo => Some(self.on_cores(decode_few(outputs))),
            RowClass::Many => Some(self.on_cores(DECODE)),
            _ => None,
        }
    }

    fn on_cores(&self, tile: Tile) -> Tile {
        tile.on(&self.loaded.device.capabilities)
    }

    /// A product of activations in 16 bits.
    pub(super) fn matmul(
        &mut self,
        site: Site<'_>,
        of: &Projection<'_>,
    ) -> Result<Vec<Dispatch>, Error> {
        let Projection { linear, norm: _, x: _, y, add } = *of;
        let outputs = self.loaded.plan.weight(linear.weight).rows;
        let Some(tile) = self.decode_tile(site.class, outputs) else {
            return self.prompt_matmul(site, &[*linear], &[y], add);
        };
        let matrix = self.loaded.weights.matrix(linear.weight)?;
        let splits = decode_splits(&tile, matrix.row_len, outputs);
        let completed_later = site.handoff.completed_later;
        let whole_k = splits == 1 && !completed_later;
        let mut calls = Vec::with_capacity(matrix.shards.len() + 1);
        for shard in &matrix.shards {
            let matmul = CoresMatmul {
                layout: matrix.layout,
                k: matrix.row_len,
                rows: shard.rows.len(),
                offset: shard.rows.start,
                stride: outputs,
                bias: linear.bias.is_some() && whole_k,
                activation: site.activation.filter(|_| whole_k),
                add: add && whole_k,
                count_at: self.loaded.count_at(site),
                splits,
                slab_rows: self.loaded.decode_rows,
                experts: None,
                fused_with: [None; 2],
                own_y: false,
                straight: false,
            }
            .straight_to(if whole_k {
                self.room(site)
            } else {
                self.loaded.decode_rows
            });
            let to = if whole_k { y } else { &self.loaded.scratch.partial };
            let halves = &self.loaded.scratch.halves;
            let pass = &self.loaded.inputs.pass;
            let mut buffers = BufferList::of([("a", halves), ("y", to), ("pass_info", pass)]);
            if let Some(bias) = linear.bias.filter(|_| whole_k) {
                buffers.add("bias", self.loaded.weights.vector(bias)?);
            }
            buffers.extend(matrix.planes(shard, 0));
            let grid = Grid::Tiles(tile, matmul.rows, splits);
            let source = matmul.source(&tile)?;
            calls.push(self.call("matmul", &source, &buffers, grid)?);
        }
        if !whole_k && !completed_later {
            let output = Output { rows: outputs, bias: linear.bias.is_some() };
            let sum =
                SumSplits { activation: site.activation, ..self.sum(splits, vec![output], add) };
            let mut buffers = BufferList::of([("y0", y)]);
            if let Some(bias) = linear.bias {
                buffers.add("bias0", self.loaded.weights.vector(bias)?);
            }
            calls.push(self.sum_call(&sum, buffers)?);
        }
        Ok(calls)
    }

    /// The rows of y that the results of a step may fill up; of selected rows none but their own.
    pub(super) fn room(&self, site: Site<'_>) -> usize {
        match self.loaded.plan.step_rows(site.step) {
            Rows::All => self.loaded.rows,
            Rows::Selected => 1,
        }
    }

    pub(super) const fn sum(&self, splits: usize, outputs: Vec<Output>, add: bool) -> SumSplits {
        let slab_rows = self.loaded.decode_rows;
        SumSplits { splits, slab_rows, outputs, add, glu: None, activation: None, halves: false }
    }

    /// The sums of partial sums; `buffers` are each y and bias.
    pub(super) fn sum_call<'b>(
        &mut self,
        sum: &SumSplits,
        mut buffers: BufferList<'b>,
    ) -> Result<Dispatch, Error>
    where
        'a: 'b,
    {
        buffers.add("partial", &self.loaded.scratch.partial);
        let grid = Grid::Rows { x: sum.groups(), batch: 1 };
        self.call("sum_splits", &sum.source()?, &buffers, grid)
    }

    /// Products of the same activations in one dispatch, with a gating their gated product.
    pub(super) fn fused_matmul(
        &mut self,
        site: Site<'_>,
        all: &NormedProjections<'_>,
        gating: Option<&Gating>,
    ) -> Result<Vec<Dispatch>, Error> {
        let &NormedProjections { norm, linears, x, outputs } = all;
        let matrices: Vec<&Matrix> = linears
            .iter()
            .map(|linear| self.loaded.weights.matrix(linear.weight))
            .collect::<Result<_, Error>>()?;
        let k = matrices[0].row_len;
        let part = |linear: &Linear| Output {
            rows: self.loaded.plan.weight(linear.weight).rows,
            bias: linear.bias.is_some(),
        };
        let parts: Vec<Output> = linears.iter().map(part).collect();
        let total: usize = parts.iter().map(|part| part.rows).sum();
        let Some(tile) = self.decode_tile(site.class, total) else {
            return Err(refused("a fused product of a prompt"));
        };
        let splits = decode_splits(&tile, k, total);
        let fused = |i: usize| {
            let matrix = matrices.get(i)?;
            Some(FusedMatrix { layout: matrix.layout, rows: parts[i].rows })
        };
        let matmul = CoresMatmul {
            layout: matrices[0].layout,
            k,
            rows: parts[0].rows,
            offset: 0,
            stride: total,
            bias: false,
            activation: None,
            add: false,
            count_at: self.loaded.count_at(site),
            splits,
            slab_rows: self.loaded.decode_rows,
            experts: None,
            fused_with: [fused(1), fused(2)],
            own_y: false,
            straight: false,
        }
        .straight_to(self.loaded.decode_rows);
        let mut calls = self.complete(site, norm, x, k)?;
        let scratch = self.loaded.scratch;
        let mut buffers = BufferList::of([
            ("a", &scratch.halves),
            ("y", &scratch.partial),
            ("pass_info", &self.loaded.inputs.pass),
        ]);
        for (i, matrix) in matrices.iter().enumerate() {
            buffers.extend(matrix.whole_planes(i));
        }
        let grid = Grid::Tiles(tile, matmul.tiled_rows(&tile), splits);
        let source = matmul.source(&tile)?;
        calls.push(self.call("matmul", &source, &buffers, grid)?);

        let halves = site.handoff.leaves_halves;
        let sum = SumSplits { glu: gating.copied(), halves, ..self.sum(splits, parts, false) };
        let mut buffers = BufferList::default();
        for (i, (linear, y)) in linears.iter().zip(outputs).enumerate() {
            buffers.add(format!("y{i}"), if halves { &scratch.halves } else { y });
            if let Some(bias) = linear.bias {
                buffers.add(format!("bias{i}"), self.loaded.weights.vector(bias)?);
            }
        }
        calls.push(self.sum_call(&sum, buffers)?);
        Ok(calls)
    }

    /// Brings the norm of x to f16; where the product before left partial sums, x is completed from
    /// them first.
    pub(super) fn complete(
        &mut self,
        site: Site<'_>,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        k: usize,
    ) -> Result<Vec<Dispatch>, Error> {
        let (Some(linear), Some(tile), Some(norm)) =
            (site.handoff.completes, self.decode_tile(site.class, k), norm)
        else {
            return self.prepare(site, Operand::F16, norm, x, [k, 1]);
        };
        let row_len = self.loaded.weights.matrix(linear.weight)?.row_len;
        let partial = Partial {
            splits: decode_splits(&tile, row_len, k),
            slab_rows: self.loaded.decode_rows,
            bias: linear.bias.is_some(),
        };
        let norm_of = Some(HalvedNorm::of(norm));
        let op = ToF16 { k, per_row: 1, norm: norm_of, partial: Some(partial) };
        let scratch = self.loaded.scratch;
        let mut buffers = BufferList::of([("x", x), ("a", &scratch.halves)]);
        self.add_norm(&mut buffers, norm)?;
        buffers.add("partial", &scratch.partial);
        if let Some(bias) = linear.bias {
            buffers.add("bias", self.loaded.weights.vector(bias)?);
        }
        let source = op.source(&self.loaded.device.capabilities)?;
        Ok(vec![self.call("to_f16", &source, &buffers, Grid::Row)?])
    }
}
