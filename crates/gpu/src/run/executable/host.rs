//! The parts of a plan whose weights stay in the host's memory.

use std::time::{Duration, Instant};

use pelton_graph::{
    Error, Executable, Hidden, Input, Limits, PartProfile, Pass, Phase, Plan, Row, Ways,
};

use crate::{
    device::{Device, Inbox, Outbox, Submission},
    run::{awake::Awake, memory::hop_bytes},
    weights::Stream,
};

/// The parts of a plan that the host has.
pub(super) struct Host {
    /// The executable of each part, for decoding passes.
    pub(super) parts: Vec<Box<dyn Executable>>,
    pub(super) stream: Stream,
    /// The rows that a part reads, on their way from the GPU, and its results on their way back.
    inbox: Inbox,
    outbox: Outbox,
    /// The values of the rows.
    pub(super) values: Vec<f32>,
    /// The rows of a pass of a part, which knows neither tokens nor positions.
    pub(super) rows: Vec<Row>,
    /// The tokens from which on a prompt is faster with streamed weights than as rows of decoding passes.
    pub(super) stream_from: usize,
    /// Where the CPU's time went in the newest pass.
    pub(super) spent: Spent,
    /// The part whose rows are on their way, once the commands of all other parts are submitted.
    pub(super) last: Option<Sent>,
    awake: Option<Awake>,
}

/// Rows `[rows, width]` of a part that are on their way to the host.
pub(super) struct Sent {
    pub(super) part: usize,
    pub(super) submission: Submission,
    pub(super) size: [usize; 2],
}

/// The CPU's time in a pass, without that in which it computes parts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) recording: Duration,
    pub(super) ways: Ways,
}

impl Spent {
    pub(super) fn add(&mut self, other: Self) {
        self.recording += other.recording;
        self.ways += other.ways;
    }
}

impl Host {
    /// The parts of a plan, without their executables.
    pub(super) fn new(
        device: &Device,
        plan: &Plan,
        limits: &Limits,
        stream: Stream,
    ) -> Result<Self, Error> {
        let [to_host, back] = hop_bytes(plan, limits);
        let rows = 0..limits.decode_rows() as u32;
        let inbox = Inbox::new(device, to_host, true)?;
        // other GPUs share their power or their memory with the host
        let awake = match device.is_discrete() {
            true => Awake::new(device, &inbox)?,
            false => None,
        };
        Ok(Self {
            parts: Vec::new(),
            stream,
            inbox,
            outbox: Outbox::new(device, back, true)?,
            values: vec![0.0; to_host as usize / 4],
            rows: rows.map(|slot| Row { input: Input::Token(0), position: 0, slot }).collect(),
            stream_from: 0,
            spent: Spent::default(),
            last: None,
            awake,
        })
    }

    /// Records a copy of the rows `[rows, width]` that a part reads, the last commands of a submission.
    pub(super) fn leave(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        entry: &wgpu::Buffer,
        [rows, width]: [usize; 2],
    ) {
        self.inbox.receive(encoder, entry, 4 * (rows * width) as u64);
        if let Some(awake) = &self.awake {
            awake.record(encoder);
        }
    }

    /// Records a copy of the results `[rows, width]` of a part to its `exit`.
    pub(super) fn enter(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        exit: &wgpu::Buffer,
        [rows, width]: [usize; 2],
    ) {
        self.outbox.send(encoder, exit, 4 * (rows * width) as u64);
    }

    /// Submits the commands up to a part, which end with such a copy.
    pub(super) fn send(
        &mut self,
        device: &Device,
        commands: wgpu::CommandBuffer,
        part: usize,
        size: [usize; 2],
    ) -> Result<Sent, Error> {
        let begun = Instant::now();
        let index = device.queue.submit([commands]);
        self.inbox.request(4 * (size[0] * size[1]) as u64);
        let submission = device.submission(index);
        self.release(device)?;
        if let Some(awake) = &mut self.awake {
            awake.submitted();
        }
        self.spent.ways.hop += begun.elapsed();
        Ok(Sent { part, submission, size })
    }

    /// Ends the wait of the GPU for a part, after the submission of the commands that follow.
    pub(super) fn release(&self, device: &Device) -> Result<(), Error> {
        self.awake.as_ref().map_or(Ok(()), |awake| awake.release(device))
    }

    /// Computes a part of a decoding pass once its rows have come. A copy of the results that is submitted afterwards
    /// has them.
    pub(super) fn compute(&mut self, device: &Device, sent: &Sent) -> Result<(), Error> {
        let Self { parts, inbox, outbox, values, spent, awake, .. } = self;
        let [rows, width] = sent.size;
        let values = &mut values[..rows * width];
        let begun = Instant::now();
        let waited = match awake {
            Some(awake) => awake.wait(device, &sent.submission),
            None => device.wait_soon(&sent.submission),
        };
        spent.ways.wait += begun.elapsed();
        let begun = Instant::now();
        let taken = inbox.take(device, bytemuck::cast_slice_mut(values), waited.is_ok());
        waited.and(taken)?;
        spent.ways.hop += begun.elapsed();
        let executable = &mut parts[sent.part];
        let ticket = executable.submit(&pass_of(&self.rows[..rows], values))?;
        let outputs = executable.take(ticket)?;
        let begun = Instant::now();
        let put = outbox.put(device, bytemuck::cast_slice(outputs.hidden));
        spent.ways.hop += begun.elapsed();
        put
    }

    /// The times of the steps of all parts, for as many rows.
    pub(super) fn profile(
        &mut self,
        plan: &Plan,
        rows: usize,
        passes: usize,
    ) -> Result<Vec<PartProfile>, Error> {
        let Self { parts, values, .. } = self;
        let mut all = Vec::with_capacity(parts.len());
        for (part, executable) in plan.host.iter().zip(parts) {
            let len = rows * plan.buffer(part.entry).width;
            let pass = pass_of(&self.rows[..rows], &values[..len]);
            all.extend(executable.profile(&pass, passes)?.parts);
        }
        Ok(all)
    }
}

/// A pass of a part over the values `[rows, width]` of rows.
pub(super) fn pass_of<'a>(rows: &'a [Row], values: &'a [f32]) -> Pass<'a> {
    let hidden = Hidden::Given(values);
    Pass { hidden, keeps_hidden: true, ..Pass::new(Phase::Decode, rows, &[]) }
}
