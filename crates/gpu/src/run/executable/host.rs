//! Parts of a plan whose weights stay in the host's memory.
//!
//! A decoding pass is submitted up to each of them. Its rows then go to the host, which computes the part, and back. All
//! other passes run the part on the GPU: its weights are streamed to places that parts share, and the kernels are those
//! of resident weights. Passes have the same order on the GPU as without such parts.

use std::time::Instant;

use pelton_graph::{Error, Executable, Hidden, HostPart, Input, Limits, Pass, Phase, Plan, Row};

use super::{GpuExecutable, shape::PassShape};
use crate::{device::Device, run::memory::hop_bytes, weights::Stream};

/// The parts of a plan that the host has.
pub(super) struct Host {
    /// The executable of each part, for decoding passes.
    parts: Vec<Box<dyn Executable>>,
    stream: Stream,
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

    /// Lets the host compute a part of a decoding pass, whose commands so far are in `encoder`.
    fn compute(
        &mut self,
        device: &Device,
        part: usize,
        mut encoder: wgpu::CommandEncoder,
        [entry, exit]: [&wgpu::Buffer; 2],
        [rows, width]: [usize; 2],
    ) -> Result<(), Error> {
        let Self { parts, hop, values, .. } = self;
        let values = &mut values[..rows * width];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
        let len = bytes.len() as u64;
        encoder.copy_buffer_to_buffer(entry, 0, hop, 0, len);
        let index = device.queue.submit([encoder.finish()]);
        hop.slice(..len).map_async(wgpu::MapMode::Read, |_| {});
        let read = device.wait_soon(&device.submission(index)).and_then(|()| {
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

impl GpuExecutable {
    /// The same with the executables of the parts of the host.
    pub(in crate::run) fn with_host(mut self, parts: Vec<Box<dyn Executable>>) -> Self {
        if let Some(host) = &mut self.host {
            host.parts = parts;
        }
        self
    }

    /// Refuses passes that parts of the host do not allow.
    pub(super) fn check_host(&self, pass: &Pass<'_>) -> Result<(), Error> {
        if self.host.is_none() {
            return Ok(());
        }
        if !self.in_flight.is_empty() {
            return Err(Error::Pass("a pass is not taken, expected none".to_owned()));
        }
        match pass.draws_later() || pass.repeat > 1 {
            false => Ok(()),
            true => Err(Error::Pass(
                "a late draw or a repeat above 1, expected none next to weights in RAM".to_owned(),
            )),
        }
    }

    /// Runs a pass up to the last part of the host, and returns the first step that did not run.
    pub(super) fn run_host(&mut self, shape: &PassShape) -> Result<usize, Error> {
        let Some(mut host) = self.host.take() else { return Ok(0) };
        let outcome = self.run_parts(&mut host, shape);
        self.host = Some(host);
        outcome
    }

    fn run_parts(&self, host: &mut Host, shape: &PassShape) -> Result<usize, Error> {
        let device = &self.device;
        let begun = Instant::now();
        let decodes = shape.phase == Phase::Decode;
        if !decodes {
            host.stream.begin(device)?;
        }
        let mut first = 0;
        for (i, HostPart { steps, entry, exit }) in self.plan.host.iter().enumerate() {
            let mut encoder = device.device.create_command_encoder(&Default::default());
            let mut compute = encoder.begin_compute_pass(&Default::default());
            self.dispatches(shape, first..steps.start).for_each(|step| step.record(&mut compute));
            drop(compute);
            if decodes {
                let buffers = [entry, exit].map(|id| &self.buffers[id.0]);
                let sizes = [shape.rows, self.plan.buffer(*entry).width];
                host.compute(device, i, encoder, buffers, sizes)?;
                first = steps.end;
            } else {
                device.queue.submit([encoder.finish()]);
                host.stream.part(device, i)?;
                first = steps.start;
            }
        }
        tracing::trace!(rows = shape.rows, decodes, time = ?begun.elapsed(), "parts of the host");
        Ok(first)
    }
}
