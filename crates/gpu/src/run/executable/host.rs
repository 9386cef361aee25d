//! The parts of a plan whose weights stay in the host's memory.

use pelton_graph::{Error, Executable, Hidden, Input, Limits, Pass, Phase, Plan, Row};

use crate::{
    device::{Device, Submission},
    run::memory::hop_bytes,
    weights::Stream,
};

/// The parts of a plan that the host has.
pub(super) struct Host {
    /// The executable of each part, for decoding passes.
    pub(super) parts: Vec<Box<dyn Executable>>,
    pub(super) stream: Stream,
    /// The readback of the rows that a part reads.
    hop: wgpu::Buffer,
    /// Their values.
    values: Vec<f32>,
    /// The rows of a pass of a part, which knows neither tokens nor positions.
    rows: Vec<Row>,
}

impl Host {
    /// The parts of a plan, without their executables.
    pub(super) fn new(
        device: &Device,
        plan: &Plan,
        limits: &Limits,
        stream: Stream,
    ) -> Result<Self, Error> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let bytes = hop_bytes(plan, limits);
        let rows = 0..limits.decode_rows() as u32;
        Ok(Self {
            parts: Vec::new(),
            stream,
            hop: device.buffer_for("rows for the host", bytes, usage)?,
            values: vec![0.0; bytes as usize / 4],
            rows: rows.map(|slot| Row { input: Input::Token(0), position: 0, slot }).collect(),
        })
    }

    /// Records a copy of the rows `[rows, width]` that a part reads.
    pub(super) fn leave(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        entry: &wgpu::Buffer,
        [rows, width]: [usize; 2],
    ) {
        encoder.copy_buffer_to_buffer(entry, 0, &self.hop, 0, 4 * (rows * width) as u64);
    }

    /// Submits commands that end with such a copy.
    pub(super) fn send(
        &self,
        device: &Device,
        commands: wgpu::CommandBuffer,
        [rows, width]: [usize; 2],
    ) -> Submission {
        let index = device.queue.submit([commands]);
        let len = 4 * (rows * width) as u64;
        self.hop.slice(..len).map_async(wgpu::MapMode::Read, |_| {});
        device.submission(index)
    }

    /// Computes a part of a decoding pass once its rows have come, and writes the results to `exit`.
    pub(super) fn compute(
        &mut self,
        device: &Device,
        part: usize,
        sent: &Submission,
        exit: &wgpu::Buffer,
        [rows, width]: [usize; 2],
    ) -> Result<(), Error> {
        let Self { parts, hop, values, .. } = self;
        let values = &mut values[..rows * width];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
        let len = bytes.len() as u64;
        let read = device.wait_soon(sent).and_then(|()| {
            let view = hop.slice(..len).get_mapped_range();
            bytes.copy_from_slice(&view.map_err(|error| device.fail(error.to_string()))?);
            Ok(())
        });
        hop.unmap();
        read?;
        let executable = &mut parts[part];
        let rows = &self.rows[..rows];
        let pass = Pass {
            hidden: Hidden::Given(values),
            keeps_hidden: true,
            ..Pass::new(Phase::Decode, rows, &[])
        };
        let ticket = executable.submit(&pass)?;
        let outputs = executable.take(ticket)?;
        device.queue.write_buffer(exit, 0, bytemuck::cast_slice(outputs.hidden));
        Ok(())
    }
}
