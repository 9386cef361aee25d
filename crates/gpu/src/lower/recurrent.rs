//! The dispatches of layers with a recurrent state.

use pelton_graph::{Error, GatedDelta as GatedDeltaOp, ShortConv as ShortConvOp};

use crate::{
    kernels::recurrent::{GatedDelta, ShortConv},
    lower::{
        dispatch::{Dispatch, Grid},
        lowering::{Lowering, whole},
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
        let conv = ShortConv { channels, taps: op.taps };
        let weight = self.loaded.weights.vector(op.weight)?;
        let [rows, order, sequences] = self.sequences();
        let buffers = [rows, order, sequences, x, &self.loaded.states[op.state], weight];
        let grid = Grid::Sequences { x: conv.groups(), y: 1 };
        let source = conv.source()?;
        self.call(&source, &ShortConv::bindings(), "short_conv", &whole(&buffers), grid)
    }

    /// The linear attention over the rows of each sequence: of `inputs`, which are q, k, v, alpha and
    /// beta.
    pub(super) fn gated_delta(
        &mut self,
        op: &GatedDeltaOp,
        inputs: &[&wgpu::Buffer],
        o: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>, Error> {
        let delta = GatedDelta(*op);
        let capabilities = &self.loaded.device.capabilities;
        let ([x, y], source) = (delta.groups(capabilities), delta.source(capabilities)?);
        let bindings = GatedDelta::bindings(capabilities);
        let grid = Grid::Sequences { x, y };
        let factors = [self.loaded.weights.vector(op.rate)?, self.loaded.weights.vector(op.shift)?];
        let state = &self.loaded.states[op.state];
        if !GatedDelta::packs(capabilities) {
            let buffers = [&self.sequences()[..], inputs, &[o, state], &factors].concat();
            let attention = self.call(&source, &bindings, "gated_delta", &whole(&buffers), grid)?;
            return Ok(vec![attention]);
        }
        let operands = &self.loaded.scratch.operands;
        let buffers = [inputs, &factors[..], &[operands]].concat();
        let packing = self.call(
            &delta.packing_source()?,
            &GatedDelta::packing_bindings(),
            "delta_operands",
            &whole(&buffers),
            Grid::Row,
        )?;
        let buffers = [&self.sequences()[..], &[operands, o, state]].concat();
        let attention = self.call(&source, &bindings, "gated_delta", &whole(&buffers), grid)?;
        Ok(vec![packing, attention])
    }

    /// The rows, their order by sequence, and the ranges of sequences in it.
    fn sequences(&self) -> [&'a wgpu::Buffer; 3] {
        [&self.loaded.inputs.rows, &self.loaded.inputs.order, &self.loaded.inputs.sequences]
    }
}
