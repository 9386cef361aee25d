//! What a chain of passes needs beside the passes: where its tokens go, and how they come back.

use std::collections::VecDeque;

use pelton_graph::Error;

use crate::{device::Device, sample::Way};

/// Passes in one part, at most.
pub(crate) const LONGEST: usize = 64;
/// Parts that are submitted and not read, at most.
const PARTS: usize = 3;

/// The tokens of a chain, on the device and on their way back.
#[derive(Debug)]
pub(crate) struct Chain {
    /// All that a chain has chosen, from its first on.
    pub(crate) tokens: wgpu::Buffer,
    /// Room for the tokens of one chain.
    room: usize,
    slots: Vec<wgpu::Buffer>,
    free: Vec<usize>,
    parts: VecDeque<Part>,
    read: Vec<u32>,
    /// How tokens are chosen; `None` outside of a chain.
    pub(crate) way: Option<Way>,
    /// Positions that will have been run when all parts are done.
    pub(crate) position: usize,
    made: usize,
}

/// A part that was submitted.
#[derive(Debug)]
struct Part {
    slot: usize,
    tokens: usize,
    submission: wgpu::SubmissionIndex,
}

impl Chain {
    /// For chains of up to `room` tokens.
    pub(crate) fn new(device: &Device, room: usize) -> Result<Self, Error> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let slots = (0..PARTS)
            .map(|_| device.buffer_for("tokens back", 4 * LONGEST as u64, usage))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            tokens: device.buffer("tokens", 4 * room as u64)?,
            room,
            slots,
            free: (0..PARTS).collect(),
            parts: VecDeque::with_capacity(PARTS),
            read: Vec::with_capacity(LONGEST),
            way: None,
            position: 0,
            made: 0,
        })
    }

    pub(crate) fn begin(&mut self, way: Way, position: usize) {
        self.way = Some(way);
        (self.position, self.made) = (position, 0);
    }

    /// Whether `n` more passes can be submitted.
    pub(crate) fn has_room(&self, n: usize) -> bool {
        (1..=LONGEST).contains(&n) && !self.free.is_empty() && self.made + n <= self.room
    }

    /// Submits what was recorded, `n` passes, and asks for their tokens.
    pub(crate) fn submit(&mut self, device: &Device, mut encoder: wgpu::CommandEncoder, n: usize) {
        let Some(slot) = self.free.pop() else { return };
        let (at, bytes) = (4 * self.made as u64, 4 * n as u64);
        encoder.copy_buffer_to_buffer(&self.tokens, at, &self.slots[slot], 0, bytes);
        let submission = device.queue.submit([encoder.finish()]);
        self.slots[slot].slice(..bytes).map_async(wgpu::MapMode::Read, |_| {});
        self.parts.push_back(Part { slot, tokens: n, submission });
        self.made += n;
        self.position += n;
    }

    /// Waits for the oldest part, and returns its tokens; `None` if there is no part.
    pub(crate) fn read(&mut self, device: &Device) -> Result<Option<&[u32]>, Error> {
        let Some(part) = self.parts.pop_front() else { return Ok(None) };
        let buffer = &self.slots[part.slot];
        device.wait_until(&part.submission)?;
        let view = buffer
            .slice(..4 * part.tokens as u64)
            .get_mapped_range()
            .map_err(|error| device.fail(error.to_string()))?;
        self.read.resize(part.tokens, 0);
        bytemuck::cast_slice_mut(&mut self.read).copy_from_slice(&view);
        drop(view);
        buffer.unmap();
        self.free.push(part.slot);
        Ok(Some(&self.read))
    }

    /// Forgets all parts.
    pub(crate) fn end(&mut self) {
        for part in self.parts.drain(..) {
            // a mapping that was asked for and not granted is taken back
            self.slots[part.slot].unmap();
            self.free.push(part.slot);
        }
        self.way = None;
    }
}
