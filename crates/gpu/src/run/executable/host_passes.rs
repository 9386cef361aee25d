//! Passes over a plan with parts of the host.
//!
//! In a decoding pass the rows of each go to the host, which computes the part, and back. The
//! pass is one submission where kernels of it wait for the host: a hop has no call of the driver
//! then. A pass whose kernels did not wait long enough runs again. Else a submission ends at
//! each part. All other passes run the part on the GPU: its weights are streamed to places that
//! parts share, and the kernels are those of resident weights. Passes have the same order on the
//! GPU as without such parts.
//!
//! A stream takes as long for few rows as for many, so short prompts are faster as rows of decoding
//! passes. The length from which on a prompt is streamed is fixed at load: no other request changes
//! the kernels of a row.

use std::{ops::Range, time::Instant};

use pelton_graph::{Error, HostExecutables, HostPart, Pass, Phase};

use super::{
    GpuExecutable,
    host::{Host, Sent, Spent},
    shape::PassShape,
};
use crate::{device::Submission, kernels::sample::SampleCall, lower::choices::Choices};

impl GpuExecutable {
    /// The same with what the host has. The choices of earlier loads have the
    /// prompts that are streamed.
    ///
    /// # Errors
    ///
    /// If a measured pass of a part or a copy of its weights fails.
    pub(in crate::run) fn with_host(
        mut self,
        HostExecutables { parts, stream_from, rates_key }: HostExecutables,
        choices: Option<&Choices>,
    ) -> Result<Self, Error> {
        if let Some(host) = &mut self.host {
            host.parts = parts;
            host.stream_from = match stream_from {
                Some(tokens) => tokens,
                None => {
                    let kept = choices.zip(rates_key.as_deref());
                    host.break_even(&self.device, &self.plan, kept)?
                }
            };
        }
        Ok(self)
    }

    /// Refuses passes that parts of the host do not allow.
    pub(super) fn check_host(&self, pass: &Pass<'_>) -> Result<(), Error> {
        if self.host.is_none() {
            return match self.plan.host.is_empty() {
                true => Ok(()),
                false => Err(Error::Pass("a part in RAM has panicked, expected none".to_owned())),
            };
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

    /// Whether a pass is submitted as a whole, with kernels that wait for the host.
    pub(super) fn waits(&self, shape: &PassShape) -> bool {
        shape.phase == Phase::Decode
            && self.host.as_ref().is_some_and(|host| host.waits(shape.rows))
    }

    /// Records a pass up to the end of the last part of the host, with kernels that wait for the
    /// host.
    pub(super) fn record_waits(&self, shape: &PassShape) -> Vec<wgpu::CommandBuffer> {
        let parts = 0..self.plan.host.len();
        let recorded = |host: &Host| parts.map(|i| self.record_wait(host, shape, i)).collect();
        self.host.as_ref().map_or(Vec::new(), recorded)
    }

    /// Records a pass without draws, with kernels that wait for the host.
    pub(super) fn record_pass(&self, shape: &PassShape) -> Vec<wgpu::CommandBuffer> {
        self.record_waits(shape).into_iter().chain([self.record_last(shape, None)]).collect()
    }

    /// Records the steps before a part of the host, and the kernel that waits for its results.
    fn record_wait(&self, host: &Host, shape: &PassShape, i: usize) -> wgpu::CommandBuffer {
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let part = &self.plan.host[i];
        let first = match i.checked_sub(1) {
            Some(before) => self.plan.host[before].steps.end,
            None => {
                host.begin_waits(&mut encoder);
                0
            }
        };
        self.record_steps(&mut encoder, shape, first..part.steps.start);
        host.leave(&mut encoder, i, &self.buffers[part.entry.0], self.size(shape, part));
        encoder.finish()
    }

    /// Records the steps after the last part of the host, and draws by `call`.
    fn record_last(&self, shape: &PassShape, call: Option<&SampleCall>) -> wgpu::CommandBuffer {
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let first = self.plan.host.last().map_or(0, |part| part.steps.end);
        self.record_steps(&mut encoder, shape, first..self.plan.steps.len());
        if let Some(call) = call {
            let mut compute = encoder.begin_compute_pass(&Default::default());
            self.sample.record(&mut compute, call);
        }
        encoder.finish()
    }

    /// The host computes the parts of a pass that was submitted as a whole. While it waits for the
    /// GPU, it records the next pass, with draws by `call` if there is one. After a failure the
    /// GPU waits for no part.
    pub(super) fn compute_waits(
        &mut self,
        [shape, next]: [&PassShape; 2],
        submission: &Submission,
        call: Option<&SampleCall>,
    ) -> Result<Vec<wgpu::CommandBuffer>, Error> {
        let Some(mut host) = self.host.take() else {
            return Err(Error::Pass("a pass without parts of the host, expected some".to_owned()));
        };
        let begun = Instant::now();
        host.spent = Spent::default();
        let mut commands = Vec::with_capacity(self.plan.host.len() + 1);
        let first = host.submitted(self.plan.host.len());
        let outcome = self.plan.host.iter().enumerate().try_for_each(|(i, part)| {
            // a command buffer of each part, so that its recording ends while the GPU runs
            let recording = Instant::now();
            commands.push(self.record_wait(&host, next, i));
            host.spent.recording += recording.elapsed();
            let number = first.wrapping_add(i as u32);
            host.compute_waited(&self.device, submission, (i, number), self.size(shape, part))
        });
        host.took(begun.elapsed(), shape.rows);
        let outcome = outcome.or_else(|error| host.release(&self.device).and(Err(error)));
        if outcome.is_ok() {
            let recording = Instant::now();
            commands.push(self.record_last(next, call));
            host.spent.recording += recording.elapsed();
        }
        let spent = host.spent;
        tracing::trace!(rows = shape.rows, time = ?begun.elapsed(), ?spent, "parts of the host in one submission");
        self.host = Some(host);
        outcome.map(|()| commands)
    }

    /// The rows of a pass that a part reads, and their width.
    fn size(&self, shape: &PassShape, part: &HostPart) -> [usize; 2] {
        [shape.rows, self.plan.buffer(part.entry).width]
    }

    /// Runs a pass up to the last part of the host, and returns the first step that did not run.
    /// The host computes that part in [`finish_host`](Self::finish_host).
    pub(super) fn run_host(&mut self, shape: &PassShape) -> Result<usize, Error> {
        let Some(mut host) = self.host.take() else { return Ok(0) };
        let outcome = self.run_parts(&mut host, shape);
        self.host = Some(host);
        outcome
    }

    /// The host computes the last part, if [`run_host`](Self::run_host) has left it. The commands
    /// of the other steps are recorded before, and submitted afterwards.
    pub(super) fn finish_host(&mut self) -> Result<(), Error> {
        let Self { device, host: Some(host), .. } = self else { return Ok(()) };
        match host.last.take() {
            Some(sent) => host.compute(device, &sent),
            None => Ok(()),
        }
    }

    /// Ends what the GPU does for a part that the host has computed, after the submission of the
    /// commands that follow.
    pub(super) fn release_host(&self) -> Result<(), Error> {
        self.host.as_ref().map_or(Ok(()), |host| host.release(&self.device))
    }

    fn run_parts(&self, host: &mut Host, shape: &PassShape) -> Result<usize, Error> {
        let begun = Instant::now();
        host.spent = Spent::default();
        host.last = None;
        let decodes = shape.phase == Phase::Decode;
        let first = match decodes {
            true => self.decode_parts(host, shape),
            false => self.stream_parts(host, shape),
        }?;
        if decodes {
            host.took(begun.elapsed(), shape.rows);
        }
        let spent = host.spent;
        tracing::trace!(rows = shape.rows, decodes, time = ?begun.elapsed(), ?spent, "parts of the host");
        Ok(first)
    }

    /// The host computes each part but the last one. The commands up to the next one are
    /// recorded while the GPU runs.
    fn decode_parts(&self, host: &mut Host, shape: &PassShape) -> Result<usize, Error> {
        let device = &self.device;
        let commands = |host: &mut Host, i: usize, part: &HostPart| {
            let before = i.checked_sub(1).map(|before| &self.plan.host[before]);
            let begun = Instant::now();
            let mut encoder = device.device.create_command_encoder(&Default::default());
            let first = before.map_or(0, |part| part.steps.end);
            before.inspect(|part| self.enter(host, &mut encoder, shape, part));
            if i == 0 {
                host.begin_waits(&mut encoder);
            }
            self.record_steps(&mut encoder, shape, first..part.steps.start);
            let entry = &self.buffers[part.entry.0];
            host.leave(&mut encoder, i, entry, self.size(shape, part));
            let commands = encoder.finish();
            host.spent.recording += begun.elapsed();
            commands
        };
        let mut sent: Option<Sent> = None;
        for (i, part) in self.plan.host.iter().enumerate() {
            let recorded = commands(host, i, part);
            if let Some(sent) = &sent {
                host.compute(device, sent)?;
            }
            sent = Some(host.send(device, recorded, i, self.size(shape, part))?);
        }
        host.last = sent;
        Ok(self.plan.host.last().map_or(0, |part| part.steps.end))
    }

    /// The weights of each part come to the GPU before its steps.
    fn stream_parts(&self, host: &mut Host, shape: &PassShape) -> Result<usize, Error> {
        let device = &self.device;
        host.stream.begin(device)?;
        let mut first = 0;
        for (i, part) in self.plan.host.iter().enumerate() {
            let begun = Instant::now();
            let mut encoder = device.device.create_command_encoder(&Default::default());
            self.record_steps(&mut encoder, shape, first..part.steps.start);
            let commands = encoder.finish();
            let recorded = begun.elapsed();
            device.queue.submit([commands]);
            let submitted = begun.elapsed();
            host.stream.part(device, i)?;
            host.spent.recording += recorded;
            host.spent.ways.hop += submitted - recorded;
            host.spent.ways.stream += begun.elapsed() - submitted;
            first = part.steps.start;
        }
        Ok(first)
    }

    pub(super) fn record_steps(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        shape: &PassShape,
        steps: Range<usize>,
    ) {
        let mut compute = encoder.begin_compute_pass(&Default::default());
        self.dispatches(shape, steps).for_each(|step| step.record(&mut compute));
    }

    /// Records a copy of the results of a part of the host.
    fn enter(
        &self,
        host: &Host,
        encoder: &mut wgpu::CommandEncoder,
        shape: &PassShape,
        part: &HostPart,
    ) {
        let size = [shape.rows, self.plan.buffer(part.exit).width];
        host.enter(encoder, &self.buffers[part.exit.0], size);
    }

    /// Records the copy with which the steps after the last part of the host begin, if it
    /// has run in this pass.
    pub(super) fn enter_last(&self, encoder: &mut wgpu::CommandEncoder, shape: &PassShape) {
        if let (Phase::Decode, Some(host), Some(part)) =
            (shape.phase, &self.host, self.plan.host.last())
        {
            self.enter(host, encoder, shape, part);
        }
    }
}
