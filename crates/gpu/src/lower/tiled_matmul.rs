//! Products of prompt rows without matrix cores.
//!
//! A pass of few rows has too few tiles to fill a GPU. Then K splits have workgroups of their own, and
//! another kernel adds their partial sums; with more rows a workgroup computes all splits.

use pelton_graph::{Error, Linear};

use crate::{
    kernels::{
        sum_splits::{Output, SumSplits},
        tiled_matmul::{FEW_ROWS, ThreadTile, TiledMatmul, splits},
    },
    lower::{
        dispatch::{Dispatch, Grid},
        lowering::{Lowering, whole},
        products::Projection,
        site::Site,
    },
    weights::{Matrix, Shard},
};

impl Lowering<'_> {
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
                count_at: self.count_at(site),
                on_grid: false,
                experts: None,
            };
            let grid = |tile, times| Grid::ThreadTiles { tile, outputs: shard.rows.len(), times };
            if self.loaded.rows > above {
                let tile = product.tile(&self.loaded.device.capabilities, self.loaded.rows);
                let grid = grid(tile, 1);
                let call = self.tiled_call(&product, &tile, linear, matrix, shard, [x, y], grid)?;
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
                let call = self.tiled_call(&product, &few, linear, matrix, shard, [x, to], grid)?;
                calls.push(Dispatch { rows: 0..=above, ..call });
            }
        }
        if on_grid {
            let outputs = vec![Output { rows: outputs, bias: linear.bias.is_some() }];
            let sum = SumSplits { slab_rows: FEW_ROWS, ..self.sum(splits, outputs, add) };
            let mut buffers = whole(&[&self.loaded.scratch.partial, y]);
            if let Some(bias) = linear.bias {
                buffers.push(self.loaded.weights.vector(bias)?.as_entire_buffer_binding());
            }
            let call = self.sum_call(&sum, &buffers)?;
            calls.push(Dispatch { rows: 0..=FEW_ROWS, ..call });
        }
        Ok(calls)
    }

    #[allow(clippy::too_many_arguments, reason = "each is what differs between calls")]
    fn tiled_call(
        &mut self,
        product: &TiledMatmul,
        tile: &ThreadTile,
        linear: &Linear,
        matrix: &Matrix,
        shard: &Shard,
        [x, y]: [&wgpu::Buffer; 2],
        grid: Grid,
    ) -> Result<Dispatch, Error> {
        let scratch = self.loaded.scratch;
        let mut buffers = match matrix.layout.blocks() {
            true => whole(&[&scratch.codes, &scratch.scales]),
            false => whole(&[x]),
        };
        buffers.extend(whole(&[y, &self.loaded.inputs.pass]));
        if product.norm {
            buffers.push(scratch.factors.as_entire_buffer_binding());
        }
        if let Some(bias) = linear.bias.filter(|_| product.bias) {
            buffers.push(self.loaded.weights.vector(bias)?.as_entire_buffer_binding());
        }
        buffers.extend(shard.bindings());
        let label = format!("tiled_matmul {} {}x{}", matrix.layout.dtype, product.rows, product.k);
        self.call(&product.source(tile)?, &product.bindings(), &label, &buffers, grid)
    }
}
