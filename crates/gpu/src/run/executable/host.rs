//! The parts of a plan whose weights stay in the host's memory.

use std::time::{Duration, Instant};

use pelton_graph::{
    Error, Executable, Hidden, Input, Limits, PartProfile, Pass, Phase, Plan, Row, Ways,
};

use crate::{
    device::{Device, Inbox, Outbox, Submission},
    persist::{Mode, can_repeat},
    run::{
        clock_keeper::{Boxes, ClockKeeper},
        memory::hop_bytes,
    },
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
    /// The tokens from which on a prompt is faster with streamed weights than as
    /// rows of decoding passes.
    pub(super) stream_from: usize,
    /// Where the CPU's time went in the newest pass.
    pub(super) spent: Spent,
    /// The part whose rows are on their way, once the commands of all other parts are submitted.
    pub(super) last: Option<Sent>,
    keeper: Option<ClockKeeper>,
    /// Whether a decoding pass can be one submission, whose kernels wait for each part.
    waits: bool,
    /// Whether a kernel did not wait for its results, although its turns did not run out.
    missed: bool,
    /// The time of the newest decoding pass's parts, for each of its rows.
    took: Option<Duration>,
}

/// The longest parts of a pass that is one submission: a GPU with a display must not be busy for
/// long.
const LONGEST: Duration = Duration::from_millis(500);

/// Rows `[rows, width]` of a part that are on their way to the host, before the
/// kernel with a number.
pub(super) struct Sent {
    pub(super) part: usize,
    number: u32,
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
    /// The parts of a plan, without their executables. `buffers` are those of the plan; values
    /// that they hold are lost.
    pub(super) fn new(
        device: &Device,
        (plan, buffers): (&Plan, &[wgpu::Buffer]),
        limits: &Limits,
        stream: Stream,
        mode: Mode,
    ) -> Result<Self, Error> {
        let [to_host, back] = hop_bytes(plan, limits);
        let rows = 0..limits.decode_rows() as u32;
        let inbox = Inbox::new(device, to_host, true)?;
        let mut outbox = Outbox::new(device, back, true)?;
        let turns = match mode {
            Mode::Forced { turns, .. } => Some(turns),
            Mode::Off | Mode::Faster => None,
        };
        // other GPUs share their power or their memory with the host
        let keeper = match device.is_discrete() || turns.is_some() {
            true => {
                let results = plan.host.iter().map(|part| &buffers[part.exit.0]).collect();
                ClockKeeper::new(
                    device,
                    Boxes { inbox: &inbox, outbox: &mut outbox, results },
                    turns,
                )?
            }
            false => None,
        };
        let hands_over = keeper.as_ref().is_some_and(ClockKeeper::hands_over);
        let waits = hands_over && mode != Mode::Off && can_repeat(plan);
        Ok(Self {
            parts: Vec::new(),
            stream,
            inbox,
            outbox,
            values: vec![0.0; to_host as usize / 4],
            rows: rows.map(|slot| Row { input: Input::Token(0), position: 0, slot }).collect(),
            stream_from: 0,
            spent: Spent::default(),
            last: None,
            keeper,
            waits,
            missed: false,
            took: None,
        })
    }

    /// Whether a decoding pass of so many rows can be one submission.
    pub(super) fn waits(&self, rows: usize) -> bool {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        self.waits && self.took.is_some_and(|took| took.saturating_mul(rows) < LONGEST)
    }

    /// Takes note of the time of a decoding pass's parts. Many rows take less for each.
    pub(super) fn took(&mut self, time: Duration, rows: usize) {
        self.took = Some(time / u32::try_from(rows).unwrap_or(u32::MAX).max(1));
    }

    /// Whether a kernel has missed its results since the last call.
    pub(super) const fn has_missed(&mut self) -> bool {
        std::mem::replace(&mut self.missed, false)
    }

    /// Submits no pass as a whole again: turns of a kernel ran out.
    pub(super) const fn wait_no_more(&mut self) {
        self.waits = false;
    }

    /// Begins the commands of a pass.
    pub(super) fn begin_waits(&self, encoder: &mut wgpu::CommandEncoder) {
        if let Some(keeper) = &self.keeper {
            keeper.begin(encoder);
        }
    }

    /// The word that tells whether the turns of a kernel ran out.
    pub(super) fn late(&self) -> Option<&wgpu::Buffer> {
        self.keeper.as_ref().map(ClockKeeper::late)
    }

    /// Counts the kernels of a pass that was submitted as a whole. Returns the
    /// number of the first one.
    pub(super) fn submitted(&mut self, parts: usize) -> u32 {
        let parts = parts as u32;
        let last = self.keeper.as_mut().map_or(0, |keeper| keeper.submitted(parts));
        last.wrapping_sub(parts).wrapping_add(1)
    }

    /// Records a copy of the rows `[rows, width]` that a part reads, and the kernel that waits for
    /// its results or for their submission.
    pub(super) fn leave(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        part: usize,
        entry: &wgpu::Buffer,
        [rows, width]: [usize; 2],
    ) {
        self.inbox.receive(encoder, entry, 4 * (rows * width) as u64);
        if let Some(keeper) = &self.keeper {
            keeper.record(encoder, part);
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
        let number = self.submitted(1);
        self.spent.ways.hop += begun.elapsed();
        Ok(Sent { part, number, submission, size })
    }

    /// Ends the wait of the GPU for a part, after the submission of the commands that follow.
    pub(super) fn release(&self, device: &Device) -> Result<(), Error> {
        self.keeper.as_ref().map_or(Ok(()), |keeper| keeper.release_all(device))
    }

    /// Computes a part of a decoding pass once its rows have come. A copy of the results that is
    /// submitted afterwards has them.
    pub(super) fn compute(&mut self, device: &Device, sent: &Sent) -> Result<(), Error> {
        self.compute_with(device, sent, Outbox::put)
    }

    /// Computes a part of a pass that was submitted as a whole, and hands over its results.
    pub(super) fn compute_waited(
        &mut self,
        device: &Device,
        submission: &Submission,
        (part, number): (usize, u32),
        size: [usize; 2],
    ) -> Result<(), Error> {
        let sent = Sent { part, number, submission: submission.clone(), size };
        self.compute_with(device, &sent, Outbox::hand_over)?;
        let Some(keeper) = &self.keeper else { return Ok(()) };
        self.missed |= !keeper.is_newest(device, number)?;
        keeper.release(device, number)
    }

    fn compute_with(
        &mut self,
        device: &Device,
        sent: &Sent,
        put: impl FnOnce(&mut Outbox, &Device, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { parts, inbox, outbox, values, spent, keeper, .. } = self;
        let [rows, width] = sent.size;
        let values = &mut values[..rows * width];
        let begun = Instant::now();
        let waited = match keeper {
            Some(keeper) => keeper.wait(device, &sent.submission, sent.number),
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
        let put = put(outbox, device, bytemuck::cast_slice(outputs.hidden));
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
