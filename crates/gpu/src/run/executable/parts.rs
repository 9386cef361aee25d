//! Passes over a plan with parts of the host.
//!
//! A decoding pass is submitted up to each of them. Its rows then go to the host, which computes the part, and back. All
//! other passes run the part on the GPU: its weights are streamed to places that parts share, and the kernels are those
//! of resident weights. Passes have the same order on the GPU as without such parts.

use std::time::Instant;

use pelton_graph::{Error, Executable, HostPart, Pass, Phase};

use super::{GpuExecutable, host::Host, shape::PassShape};

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
