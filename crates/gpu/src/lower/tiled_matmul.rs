//! Products of prompt rows without matrix cores.

use pelton_graph::{Error, Linear, Rows, Step};

use crate::{
    kernels::tiled_matmul::TiledMatmul,
    lower::{
        dispatch::{Dispatch, Grid},
        lowering::{Lowering, whole},
    },
};

impl Lowering<'_> {
    /// A product of prepared activations: in 8 bits, or for weights in floats in f32, which after a
    /// norm are in scratch memory.
    pub(super) fn tiled_matmul(
        &mut self,
        linear: &Linear,
        normed: bool,
        x: &wgpu::Buffer,
        y: &wgpu::Buffer,
        step: &Step,
        add: bool,
    ) -> Result<Vec<Dispatch>, Error> {
        let matrix = self.weights.matrix(linear.weight)?;
        let blocks = matrix.layout.blocks();
        let selected = self.plan.buffer(step.outputs[0]).rows == Rows::Selected;
        let scratch = self.scratch;
        let mut calls = Vec::with_capacity(matrix.shards.len());
        for shard in &matrix.shards {
            let product = TiledMatmul {
                layout: matrix.layout,
                k: matrix.row_len,
                rows: shard.rows.len(),
                offset: shard.rows.start,
                stride: self.plan.weight(linear.weight).rows,
                norm: normed && blocks,
                bias: linear.bias.is_some(),
                add,
                count_at: usize::from(selected),
                experts: None,
            };
            let mut buffers = match (blocks, normed) {
                (true, _) => whole(&[&scratch.codes, &scratch.scales]),
                (false, true) => whole(&[&scratch.normed]),
                (false, false) => whole(&[x]),
            };
            buffers.extend(whole(&[y, &self.inputs.pass]));
            if product.norm {
                buffers.push(scratch.factors.as_entire_buffer_binding());
            }
            if let Some(bias) = linear.bias {
                buffers.push(self.weights.vector(bias)?.as_entire_buffer_binding());
            }
            buffers.extend(shard.bindings());
            let label =
                format!("tiled_matmul {} {}x{}", matrix.layout.dtype, product.rows, product.k);
            let mut above = 0;
            for (tile, to) in product.tiles(&self.device.capabilities, self.rows) {
                let outputs = product.rows;
                let grid = Grid::ThreadTiles { tile, outputs, heads: 1, above, to };
                let source = product.source(&tile)?;
                calls.push(self.call(&source, &product.bindings(), &label, &buffers, grid)?);
                above = to;
            }
        }
        Ok(calls)
    }
}
