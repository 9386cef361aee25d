//! The passes that are submitted and not taken yet, and the readback of their results.
//!
//! Tokens, positions and the ring of sampled tokens live on the GPU. The end of a draw
//! (`record.wgsl`) writes the drawn token to the ring and advances the row. All repeats of a pass
//! are one submission, and up to three passes are in flight. Only the grids of attention depend on
//! positions, which the host knows. A pass is recorded anew each time, because wgpu's command
//! buffers can be submitted once. Page tables are uploaded by the entries that change.

use std::collections::VecDeque;

use pelton_graph::{Error, Row, Ticket};

use crate::{
    device::{Device, Submission},
    kernels::sample::SampleCall,
};

/// Maximum passes in flight: one runs, one is queued after it, and the results of a third are read.
pub(crate) const DEPTH: usize = 3;

/// Readback buffers, and the passes that use them, the oldest first.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Readback buffers of samples, one for each pass in flight.
    samples: Vec<wgpu::Buffer>,
    /// Readback buffers of one word, which tells whether a spin of the pass ran out.
    dead: Vec<wgpu::Buffer>,
    /// The indices of the buffers of samples that no pass uses.
    free: Vec<usize>,
    /// The readback buffer of logits, which only one pass in flight may have.
    logits: wgpu::Buffer,
    /// Readback buffers of hidden states, one for each pass in flight; none of plans without them.
    hidden: Vec<wgpu::Buffer>,
    passes: VecDeque<InFlightPass>,
    next: u64,
    /// Whether another device waits for the results, so that a wait must not sleep at first.
    hurries: bool,
}

/// One pass in flight.
#[derive(Debug)]
pub(crate) struct InFlightPass {
    ticket: Ticket,
    buffer: usize,
    pub(crate) sample: SampleCall,
    pub(crate) repeat: u32,
    /// Bytes of its samples and drafted tokens, of the latter alone, of its logits and
    /// of its hidden states.
    sample_bytes: u64,
    drafted_bytes: u64,
    logits_bytes: u64,
    hidden_bytes: u64,
    /// Whether persistent kernels ran, or kernels that wait for the host, whose word
    /// is still to be read.
    persistent: bool,
    submission: Submission,
    /// Its row, while its draw is awaited.
    awaited: Option<Row>,
}

/// The commands of a pass and the buffers with its results.
pub(crate) struct Recorded {
    /// Commands that were recorded before.
    pub(crate) first: Vec<wgpu::CommandBuffer>,
    pub(crate) encoder: wgpu::CommandEncoder,
    /// Samples and logits, and their bytes.
    pub(crate) samples: (wgpu::Buffer, u64),
    /// The drafted tokens that it has run, as parts of buffers: where each begins, and its bytes.
    pub(crate) drafted: Vec<(wgpu::Buffer, u64, u64)>,
    pub(crate) logits_bytes: u64,
    /// The hidden states that are kept, and their bytes.
    pub(crate) hidden: Vec<(wgpu::Buffer, u64)>,
    /// A word of a pass with persistent kernels, or such that wait for the host, and its offset. It
    /// is not 0 once a spin has run out.
    pub(crate) dead: Option<(wgpu::Buffer, u64)>,
}

impl Recorded {
    /// Ends what is recorded so far, which takes longer than the commands that a submission adds.
    pub(crate) fn finish(&mut self, device: &Device) {
        let more = device.device.create_command_encoder(&Default::default());
        self.first.push(std::mem::replace(&mut self.encoder, more).finish());
    }
}

impl InFlight {
    /// Bytes that [`new`](Self::new) allocates.
    pub(crate) fn bytes([sample_bytes, logits_bytes, hidden_bytes]: [u64; 3]) -> u64 {
        let each = sample_bytes.saturating_add(4).saturating_add(hidden_bytes);
        each.saturating_mul(DEPTH as u64).saturating_add(logits_bytes)
    }

    /// Allocates buffers for up to as many bytes of samples, logits and hidden states of each pass.
    /// Another device waits for the results if it `hurries`.
    pub(crate) fn new(
        device: &Device,
        [sample_bytes, logits_bytes, hidden_bytes]: [u64; 3],
        hurries: bool,
    ) -> Result<Self, Error> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let buffer = |label, bytes| device.buffer_for(label, bytes, usage);
        Ok(Self {
            samples: (0..DEPTH)
                .map(|_| buffer("samples readback", sample_bytes))
                .collect::<Result<_, _>>()?,
            dead: (0..DEPTH)
                .map(|_| buffer("word of the barrier readback", 4))
                .collect::<Result<_, _>>()?,
            free: (0..DEPTH).collect(),
            logits: buffer("logits readback", logits_bytes)?,
            hidden: (0..if hidden_bytes > 0 { DEPTH } else { 0 })
                .map(|_| buffer("hidden states readback", hidden_bytes))
                .collect::<Result<_, _>>()?,
            passes: VecDeque::with_capacity(DEPTH),
            next: 0,
            hurries,
        })
    }

    /// Refuses a pass without a free readback buffer.
    pub(crate) fn check_free(&self, logits: bool) -> Result<(), Error> {
        if self.free.is_empty() {
            return Err(Error::Pass(format!("{DEPTH} passes are not taken, expected fewer")));
        }
        if self.passes.back().is_some_and(|pass| pass.awaited.is_some()) {
            return Err(Error::Pass("a pass waits for its draw, expected none".to_owned()));
        }
        if logits && self.passes.iter().any(|pass| pass.logits_bytes > 0) {
            return Err(Error::Pass(
                "a pass with logits is not taken, expected none before the next one".to_owned(),
            ));
        }
        Ok(())
    }

    /// Whether another device waits for the results.
    pub(crate) const fn hurries(&self) -> bool {
        self.hurries
    }

    /// As if another device waited for the results.
    #[cfg(test)]
    pub(crate) const fn hurry(&mut self) {
        self.hurries = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.passes.is_empty()
    }

    /// The readback buffer of logits.
    pub(crate) fn logits(&self) -> &wgpu::Buffer {
        &self.logits
    }

    /// Submits the recorded commands and copies of the samples and the hidden states, and maps the
    /// results.
    pub(crate) fn submit(
        &mut self,
        device: &Device,
        recorded: Recorded,
        sample: SampleCall,
        repeat: u32,
    ) -> Result<Ticket, Error> {
        let Some(buffer) = self.free.pop() else {
            return Err(Error::Pass(format!("{DEPTH} passes are not taken, expected fewer")));
        };
        let drafted_bytes = recorded.drafted.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
        let sample_bytes = recorded.samples.1 + drafted_bytes;
        let logits_bytes = recorded.logits_bytes;
        let hidden_bytes = recorded.hidden.iter().map(|(_, bytes)| bytes).sum();
        let persistent = recorded.dead.is_some();
        let submission = self.send(device, recorded, buffer);
        let ticket = Ticket(self.next);
        self.next += 1;
        self.passes.push_back(InFlightPass {
            ticket,
            buffer,
            sample,
            repeat,
            sample_bytes,
            drafted_bytes,
            logits_bytes,
            hidden_bytes,
            persistent,
            submission,
            awaited: None,
        });
        Ok(ticket)
    }

    fn send(&self, device: &Device, recorded: Recorded, buffer: usize) -> Submission {
        let Recorded { first, mut encoder, samples, drafted, logits_bytes, hidden, dead } =
            recorded;
        let (results, sample_bytes) = samples;
        let mut end = sample_bytes;
        for (tokens, at, bytes) in &drafted {
            encoder.copy_buffer_to_buffer(tokens, *at, &self.samples[buffer], end, *bytes);
            end += bytes;
        }
        let mut mapped = vec![(&self.samples[buffer], end), (&self.logits, logits_bytes)];
        if let Some(to) = self.hidden.get(buffer) {
            let mut end = 0;
            for (states, bytes) in &hidden {
                encoder.copy_buffer_to_buffer(states, 0, to, end, *bytes);
                end += bytes;
            }
            mapped.push((to, end));
        }
        if sample_bytes > 0 {
            let to = &self.samples[buffer];
            encoder.copy_buffer_to_buffer(&results, 0, to, 0, sample_bytes);
        }
        if let Some((words, offset)) = &dead {
            encoder.copy_buffer_to_buffer(words, *offset, &self.dead[buffer], 0, 4);
        }
        let index = device.queue.submit(first.into_iter().chain([encoder.finish()]));
        mapped.extend(dead.map(|_| (&self.dead[buffer], 4)));
        for (buffer, bytes) in mapped {
            if bytes > 0 {
                buffer.slice(..bytes).map_async(wgpu::MapMode::Read, |_| {});
            }
        }
        device.submission(index)
    }

    /// Waits for the passes up to `ticket`, and returns whether a spin of one of them ran out.
    pub(crate) fn died(&mut self, device: &Device, ticket: Option<Ticket>) -> Result<bool, Error> {
        let mut died = false;
        for pass in &mut self.passes {
            if ticket.is_some_and(|ticket| pass.ticket > ticket) {
                break;
            }
            if pass.persistent {
                wait(device, &pass.submission, self.hurries)?;
                pass.persistent = false;
                let mut word = [0; 4];
                let outcome = read(device, &self.dead[pass.buffer], &mut word);
                self.dead[pass.buffer].unmap();
                outcome?;
                died |= word != [0; 4];
            }
        }
        Ok(died)
    }

    /// Whether no pass can turn out to be one that runs again.
    pub(crate) fn is_settled(&self) -> bool {
        !self.passes.iter().any(|pass| pass.persistent)
    }

    /// The number of passes in flight.
    pub(crate) fn len(&self) -> usize {
        self.passes.len()
    }

    /// Submits other commands for a pass in flight, the oldest being 0, whose results they replace.
    /// All work must have ended.
    pub(crate) fn submit_again(
        &mut self,
        device: &Device,
        index: usize,
        recorded: Recorded,
    ) -> Result<(), Error> {
        let Some(pass) = self.passes.get(index) else { return Ok(()) };
        let (buffer, persistent) = (pass.buffer, pass.persistent);
        let hidden = self.hidden.get(buffer).filter(|_| pass.hidden_bytes > 0);
        let mapped = [
            Some(&self.samples[buffer]).filter(|_| pass.sample_bytes > 0),
            Some(&self.logits).filter(|_| pass.logits_bytes > 0),
            Some(&self.dead[buffer]).filter(|_| persistent),
            hidden,
        ];
        mapped.into_iter().flatten().for_each(wgpu::Buffer::unmap);
        let submission = self.send(device, recorded, buffer);
        if let Some(pass) = self.passes.get_mut(index) {
            pass.persistent = false;
            pass.submission = submission;
        }
        device.check()
    }

    /// Lets the newest pass, whose row is `row`, wait for its draw.
    pub(crate) fn await_draw(&mut self, row: Row) {
        if let Some(pass) = self.passes.back_mut() {
            pass.awaited = Some(row);
        }
    }

    /// The row of the newest pass, which waits for its draw no longer.
    pub(crate) fn begin_draw(&mut self, ticket: Ticket) -> Result<Row, Error> {
        let newest = self.passes.back_mut().filter(|pass| pass.ticket == ticket);
        newest.and_then(|pass| pass.awaited.take()).ok_or_else(|| {
            Error::Pass(format!("{ticket:?} is not the newest pass, or waits for no draw"))
        })
    }

    /// Submits the recorded draw of the newest pass and a copy of its samples, and maps them.
    pub(crate) fn submit_draw(
        &mut self,
        device: &Device,
        mut encoder: wgpu::CommandEncoder,
        sample: SampleCall,
        (results, bytes): (&wgpu::Buffer, u64),
    ) {
        let Some(pass) = self.passes.back_mut() else { return };
        let to = &self.samples[pass.buffer];
        encoder.copy_buffer_to_buffer(results, 0, to, 0, bytes);
        let index = device.queue.submit([encoder.finish()]);
        to.slice(..bytes).map_async(wgpu::MapMode::Read, |_| {});
        pass.submission = device.submission(index);
        (pass.sample, pass.sample_bytes) = (sample, bytes);
    }

    /// The commands of the newest pass.
    pub(crate) fn newest(&self) -> Option<Submission> {
        self.passes.back().map(|pass| pass.submission.clone())
    }

    /// Whether the commands of a pass have ended.
    pub(crate) fn is_done(&self, device: &Device, ticket: Ticket) -> bool {
        let pass = self.passes.iter().find(|pass| pass.ticket == ticket);
        pass.is_none_or(|pass| device.has_ended(&pass.submission))
    }

    /// Waits for the oldest pass, and copies its samples, its logits and its hidden states.
    pub(crate) fn take(
        &mut self,
        device: &Device,
        ticket: Ticket,
        samples: &mut Vec<u8>,
        [logits, hidden]: [&mut [f32]; 2],
    ) -> Result<InFlightPass, Error> {
        match self.passes.front() {
            Some(oldest) if oldest.ticket == ticket && oldest.awaited.is_none() => {}
            _ => {
                let problem = "is not the oldest in flight, or waits for its draw";
                return Err(Error::Pass(format!("{ticket:?} {problem}")));
            }
        }
        let Some(pass) = self.passes.pop_front() else {
            return Err(Error::Pass(format!("{ticket:?} is not the oldest in flight")));
        };
        let waited = wait(device, &pass.submission, self.hurries);
        let buffer = &self.samples[pass.buffer];
        samples.resize(pass.sample_bytes as usize, 0);
        let logits: &mut [u8] = bytemuck::cast_slice_mut(logits);
        let logits = &mut logits[..pass.logits_bytes as usize];
        let mut outcome = read(device, buffer, samples).and(read(device, &self.logits, logits));
        let mut mapped = vec![(buffer, pass.sample_bytes), (&self.logits, pass.logits_bytes)];
        if let Some(states) = self.hidden.get(pass.buffer) {
            let hidden: &mut [u8] = bytemuck::cast_slice_mut(hidden);
            outcome = outcome.and(read(device, states, &mut hidden[..pass.hidden_bytes as usize]));
            mapped.push((states, pass.hidden_bytes));
        }
        // a requested mapping is released whether it succeeded or not
        for (buffer, bytes) in mapped {
            if bytes > 0 {
                buffer.unmap();
            }
        }
        self.free.push(pass.buffer);
        waited.and(outcome).map(|()| pass)
    }

    /// Gives up the oldest pass, whose results cannot be had, if it is that of the ticket.
    pub(crate) fn give_up(&mut self, ticket: Ticket) {
        let Some(pass) = self.passes.pop_front_if(|oldest| oldest.ticket == ticket) else { return };
        let hidden = self.hidden.get(pass.buffer).filter(|_| pass.hidden_bytes > 0);
        let mapped = [
            Some(&self.samples[pass.buffer]).filter(|_| pass.sample_bytes > 0),
            Some(&self.logits).filter(|_| pass.logits_bytes > 0),
            Some(&self.dead[pass.buffer]).filter(|_| pass.persistent),
            hidden,
        ];
        mapped.into_iter().flatten().for_each(wgpu::Buffer::unmap);
        self.free.push(pass.buffer);
    }
}

impl InFlightPass {
    /// The logits of the pass, in elements.
    pub(crate) fn logits_len(&self) -> usize {
        self.logits_bytes as usize / 4
    }

    /// Bytes of the drafted tokens, the last ones of its samples.
    pub(crate) fn drafted_bytes(&self) -> usize {
        self.drafted_bytes as usize
    }

    /// The hidden states of the pass, in elements.
    pub(crate) fn hidden_len(&self) -> usize {
        self.hidden_bytes as usize / 4
    }
}

fn wait(device: &Device, submission: &Submission, hurries: bool) -> Result<(), Error> {
    match hurries {
        true => device.wait_soon(submission),
        false => device.wait_until(submission),
    }
}

fn read(device: &Device, buffer: &wgpu::Buffer, out: &mut [u8]) -> Result<(), Error> {
    if out.is_empty() {
        return Ok(());
    }
    let slice = buffer.slice(..out.len() as u64);
    let view = slice.get_mapped_range().map_err(|error| device.fail(error.to_string()))?;
    out.copy_from_slice(&view);
    Ok(())
}
