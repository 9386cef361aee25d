//! Products of prompt rows without matrix cores.
//!
//! A pass of few rows has too few tiles to fill a GPU. Then K splits have workgroups of their own,
//! and another kernel adds their partial sums; with more rows a workgroup computes all splits.

use pelton_graph::Error;

use crate::{
    device::BufferList,
    kernels::{
        sum_splits::{Output, SumSplits},
        tiled_matmul::{FEW_ROWS, ThreadTile, TiledMatmul, splits},
    },
    lower::{
        dispatch::{Dispatch, Grid},
        loaded::Loaded,
        lowering::Lowering,
        projection::Projection,
        site::Site,
    },
    weights::{Matrix, Shard},
};

impl<'a> Lowering<'a> {
    /// A product of prepared activations: in 8 bits, or for weights in floats in f32, which after a
    /// norm are in scratch memory.
    pub(super) fn tiled_matmul(
        &mut self,
        site: Site<'_>,
        of: &Projection<'_>,
    ) -> Result<Vec<Dispatch>, Error> {
        let Projection { linear, norm, x, y, add } = *of;
        let normed = norm.is_some();
        let matrix = self.loaded.weights.matrix(linear.weight)?;
        let capabilities = &self.loaded.device.capabilities;
        let outputs = self.loaded.plan.weight(linear.weight).rows;
        let (few, splits) = (ThreadTile::of_few(capabilities), splits(matrix.row_len));
        let on_grid = splits > 1 && ThreadTile::unrolls(capabilities);
        // passes of few rows have another tile
        let above = if ThreadTile::unrolls(capabilities) { FEW_ROWS } else { 0 };
        let x = if normed { &self.loaded.scratch.normed } else { x };
        let of = Projection { x, ..*of };
        let mut calls = Vec::new();
        for shard in &matrix.shards {
            let product = TiledMatmul {
                layout: matrix.layout,
                k: matrix.row_len,
                rows: shard.rows.len(),
                offset: shard.rows.start,
                stride: outputs,
                norm: normed && matrix.layout.blocks(),
                bias: linear.bias.is_some(),
                add,
                count_at: self.loaded.count_at(site),
                on_grid: false,
                experts: None,
            };
            let grid = |tile, times| Grid::ThreadTiles { tile, outputs: shard.rows.len(), times };
            if self.loaded.rows > above {
                let tile = product.tile(&self.loaded.device.capabilities, self.loaded.rows);
                let grid = grid(tile, 1);
                let call = self.tiled_call(&product, &tile, &of, shard, grid)?;
                calls.push(Dispatch { rows: above + 1..=usize::MAX, ..call });
            }
            if above > 0 {
                let (product, to, times) = match on_grid {
                    true => {
                        let partial = TiledMatmul { on_grid, bias: false, add: false, ..product };
                        (partial, &self.loaded.scratch.partial, splits as u32)
                    }
                    false => (product, y, 1),
                };
                let grid = grid(few, times);
                let of = Projection { y: to, ..of };
                let call = self.tiled_call(&product, &few, &of, shard, grid)?;
                calls.push(Dispatch { rows: 0..=above, ..call });
            }
        }
        if on_grid {
            let outputs = vec![Output { rows: outputs, bias: linear.bias.is_some() }];
            let sum = SumSplits { slab_rows: FEW_ROWS, ..self.sum(splits, outputs, add) };
            let mut buffers = BufferList::of([("y0", y)]);
            if let Some(bias) = linear.bias {
                buffers.add("bias0", self.loaded.weights.vector(bias)?);
            }
            let call = self.sum_call(&sum, buffers)?;
            calls.push(Dispatch { rows: 0..=FEW_ROWS, ..call });
        }
        Ok(calls)
    }

    fn tiled_call(
        &mut self,
        product: &TiledMatmul,
        tile: &ThreadTile,
        of: &Projection<'_>,
        shard: &Shard,
        grid: Grid,
    ) -> Result<Dispatch, Error> {
        let matrix = self.loaded.weights.matrix(of.linear.weight)?;
        let mut buffers = self.tiled_buffers(matrix, [of.x, of.y]);
        if product.norm {
            buffers.add("factors", &self.loaded.scratch.factors);
        }
        if let Some(bias) = of.linear.bias.filter(|_| product.bias) {
            buffers.add("bias", self.loaded.weights.vector(bias)?);
        }
        buffers.extend(matrix.planes(shard, 0));
        let label = format!("tiled_matmul {} {}x{}", matrix.layout.dtype, product.rows, product.k);
        self.call(&label, &product.source(tile)?, &buffers, grid)
    }

    /// The activations, y and the row counts of a product of prompt rows.
    pub(super) fn tiled_buffers<'b>(
        &self,
        matrix: &Matrix,
        [x, y]: [&'b wgpu::Buffer; 2],
    ) -> BufferList<'b>
    where
        'a: 'b,
    {
        let Loaded { scratch, inputs, .. } = *self.loaded;
        let mut buffers = BufferList::of([("y", y), ("pass_info", &inputs.pass)]);
        match matrix.layout.blocks() {
            true => {
                buffers.add("q8_codes", &scratch.codes);
                buffers.add("q8_scales", &scratch.scales);
            }
            false => buffers.add("x", x),
        }
        buffers
    }
}
