//! Products of the rows of prompts, on matrix cores.
//!
//! A matrix with few outputs has too few tiles to fill a GPU, so K is split. All passes split it in
//! the same way, so that the sums of a row have one order.

use pelton_graph::{Error, Linear};

use crate::{
    device::BufferList,
    kernels::{
        cores_matmul::{CoresMatmul, prompt_splits},
        matvec::FusedMatrix,
        sum_splits::{Output, SumSplits},
    },
    lower::{
        dispatch::{Dispatch, Grid},
        lowering::{Lowering, refused},
        site::Site,
    },
};

impl Lowering<'_> {
    /// The products of one or more matrices of one format and the same activations, in one
    /// dispatch.
    pub(super) fn prompt_matmul(
        &mut self,
        site: Site<'_>,
        linears: &[Linear],
        outputs: &[&wgpu::Buffer],
        add: bool,
    ) -> Result<Vec<Dispatch>, Error> {
        let (Some(linear), Some(&y)) = (linears.first(), outputs.first()) else {
            return Err(refused("a product without a matrix"));
        };
        let matrix = self.loaded.weights.matrix(linear.weight)?;
        let rows = |linear: &Linear| self.loaded.plan.weight(linear.weight).rows;
        let (k, total) = (matrix.row_len, linears.iter().map(rows).sum());
        let fused = |i: usize| {
            linears.get(i).map(|other| FusedMatrix { layout: matrix.layout, rows: rows(other) })
        };
        let biased = linears.iter().any(|linear| linear.bias.is_some());
        // a bias is added to a whole sum
        let splits = match matrix.shards.len() == 1 && !biased {
            true => prompt_splits(k, total, self.loaded.rows),
            false => 1,
        };
        let mut calls = Vec::with_capacity(matrix.shards.len() + 1);
        for shard in &matrix.shards {
            let matmul = CoresMatmul {
                layout: matrix.layout,
                k,
                rows: shard.rows.len(),
                offset: shard.rows.start,
                stride: if splits > 1 { total } else { rows(linear) },
                bias: biased,
                activation: site.activation.filter(|_| splits == 1),
                add: add && splits == 1,
                count_at: self.loaded.count_at(site),
                splits,
                slab_rows: self.loaded.rows,
                experts: None,
                fused_with: [fused(1), fused(2)],
                own_y: linears.len() > 1 && splits == 1,
                straight: false,
            }
            .straight_to(if splits > 1 { self.loaded.rows } else { self.room(site) });
            let y = if splits > 1 { &self.loaded.scratch.partial } else { y };
            let halves = &self.loaded.scratch.halves;
            let pass = &self.loaded.inputs.pass;
            let mut buffers = BufferList::of([("a", halves), ("y", y), ("pass_info", pass)]);
            if biased {
                buffers.add("bias", self.bias_or_zeros(linear)?);
            }
            buffers.extend(matrix.planes(shard, 0));
            for (i, (linear, y)) in linears.iter().zip(outputs).enumerate().skip(1) {
                if matmul.own_y {
                    buffers.add(format!("y{i}"), y);
                    if biased {
                        buffers.add(format!("bias{i}"), self.bias_or_zeros(linear)?);
                    }
                }
                buffers.extend(self.loaded.weights.matrix(linear.weight)?.whole_planes(i));
            }
            for (from, to, tile) in matmul.tiles(&self.loaded.device.capabilities, self.loaded.rows)
            {
                let grid = Grid::Tiles(tile, matmul.tiled_rows(&tile), splits);
                let source = matmul.source(&tile)?;
                let call = self.call("matmul", &source, &buffers, grid)?;
                calls.push(Dispatch { rows: from..=to, ..call });
            }
        }
        if splits > 1 {
            let parts = linears.iter().map(|linear| Output { rows: rows(linear), bias: false });
            let sum = SumSplits {
                slab_rows: self.loaded.rows,
                activation: site.activation,
                ..self.sum(splits, parts.collect(), add)
            };
            let mut buffers = BufferList::default();
            for (i, y) in outputs.iter().enumerate() {
                buffers.add(format!("y{i}"), y);
            }
            calls.push(self.sum_call(&sum, buffers)?);
        }
        Ok(calls)
    }
}
