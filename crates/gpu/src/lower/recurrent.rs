//! The dispatches of layers with a recurrent state.

use pelton_graph::{
    Error, GatedDelta as GatedDeltaOp, SelectiveScan as SelectiveScanOp, ShortConv as ShortConvOp,
};

use crate::{
    device::BufferList,
    kernels::{
        recurrent::{GatedDelta, ShortConv},
        scan::SelectiveScan,
    },
    lower::{
        buffers::Inputs,
        dispatch::{Dispatch, Grid},
        lowering::Lowering,
    },
};

impl<'a> Lowering<'a> {
    /// The convolution over the rows of each sequence, in place.
    pub(super) fn short_conv(
        &mut self,
        op: &ShortConvOp,
        channels: usize,
        x: &wgpu::Buffer,
    ) -> Result<Dispatch, Error> {
        let &ShortConvOp { state, weight, bias, taps, activation } = op;
        let conv = ShortConv { channels, taps, has_bias: bias.is_some(), activation };
        let weight = self.loaded.weights.vector(weight)?;
        let mut buffers = self.sequences();
        buffers.add("x", x);
        buffers.add("states", &self.loaded.states[state]);
        buffers.add("weight", weight);
        if let Some(bias) = bias {
            buffers.add("bias", self.loaded.weights.vector(bias)?);
        }
        let grid = Grid::Sequences { x: conv.groups(), y: 1 };
        let source = conv.source()?;
        self.call("short_conv", &source, &buffers, grid)
    }

    /// The linear attention over the rows of each sequence: of `inputs`, which are q,
    /// k, v, alpha and beta.
    pub(super) fn gated_delta(
        &mut self,
        op: &GatedDeltaOp,
        inputs: &[&wgpu::Buffer],
        o: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>, Error> {
        let delta = GatedDelta(*op);
        let capabilities = &self.loaded.device.capabilities;
        let ([x, y], source) = (delta.groups(capabilities), delta.source(capabilities)?);
        let grid = Grid::Sequences { x, y };
        let mut operands = BufferList::default();
        for (name, buffer) in ["q", "k", "v", "alpha", "beta"].into_iter().zip(inputs) {
            operands.add(name, buffer);
        }
        operands.add("rate", self.loaded.weights.vector(op.rate)?);
        operands.add("shift", self.loaded.weights.vector(op.shift)?);
        let mut buffers = self.sequences();
        buffers.add("o", o);
        buffers.add("states", &self.loaded.states[op.state]);
        if !GatedDelta::packs(capabilities) {
            buffers.append(operands);
            return Ok(vec![self.call("gated_delta", &source, &buffers, grid)?]);
        }
        let packed = &self.loaded.scratch.operands;
        operands.add("operands", packed);
        buffers.add("operands", packed);
        let packing = delta.packing_source()?;
        let packing = self.call("delta_operands", &packing, &operands, Grid::Row)?;
        Ok(vec![packing, self.call("gated_delta", &source, &buffers, grid)?])
    }

    /// The selective scan over the rows of each sequence: of `xbc` and `dt`.
    pub(super) fn selective_scan(
        &mut self,
        op: &SelectiveScanOp,
        [xbc, dt, y]: [&wgpu::Buffer; 3],
    ) -> Result<Vec<Dispatch>, Error> {
        let scan = SelectiveScan(*op);
        let capabilities = &self.loaded.device.capabilities;
        let ([columns, heads], source) = (scan.groups(capabilities), scan.source(capabilities)?);
        let steps = &self.loaded.scratch.operands;
        let of_steps = BufferList::of([
            ("dt", dt),
            ("rate", self.loaded.weights.vector(op.rate)?),
            ("shift", self.loaded.weights.vector(op.shift)?),
            ("steps", steps),
        ]);
        let of_steps = self.call("scan_steps", &scan.steps_source()?, &of_steps, Grid::Row)?;
        let mut buffers = self.sequences();
        buffers.add("xbc", xbc);
        buffers.add("steps", steps);
        buffers.add("y", y);
        buffers.add("states", &self.loaded.states[op.state]);
        buffers.add("skip", self.loaded.weights.vector(op.skip)?);
        let grid = Grid::Sequences { x: columns, y: heads };
        Ok(vec![of_steps, self.call("selective_scan", &source, &buffers, grid)?])
    }

    /// The rows, their order by sequence, and the ranges of sequences in it.
    fn sequences(&self) -> BufferList<'a> {
        let Inputs { rows, order, sequences, .. } = self.loaded.inputs;
        BufferList::of([("rows", rows), ("order", order), ("sequences", sequences)])
    }
}
