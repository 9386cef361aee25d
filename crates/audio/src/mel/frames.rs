//! Overlapping frames of a stream of samples.

use crate::{AudioError, Samples};

/// Samples of a frame.
pub(crate) const LENGTH: usize = 400;
/// Samples from the start of a frame to that of the next one.
pub(crate) const HOP: usize = 160;
/// Samples of a frame before its time.
const HALF: usize = LENGTH / 2;

/// Cuts a stream into frames. Frame `t` holds the samples from `160 t - 200` on: those before the
/// start mirror the ones behind it, those behind the end are zeros.
pub(crate) struct Framer {
    /// Samples from the next frame on, after `start`.
    buffer: Vec<f32>,
    start: usize,
    /// Whether the mirrored samples are in the buffer.
    begun: bool,
    /// Samples of the stream so far.
    samples: u64,
    /// Samples behind `start` at the end of the stream; zeros follow them.
    left: Option<usize>,
}

impl Framer {
    pub(crate) fn new() -> Self {
        Self { buffer: Vec::new(), start: 0, begun: false, samples: 0, left: None }
    }

    /// Samples of the stream that were read so far.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// The next frame that holds samples of the stream, `None` behind the last one.
    pub(crate) fn next<S: Samples>(
        &mut self,
        source: &mut S,
    ) -> Result<Option<&[f32]>, AudioError> {
        if !self.begun {
            self.fill(source, HALF + 1)?;
            if self.samples == 0 {
                return Ok(None);
            }
            self.mirror();
        }
        self.fill(source, LENGTH)?;
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return Ok(None);
            }
            *left = left.saturating_sub(HOP);
        }
        let frame = &self.buffer[self.start..self.start + LENGTH];
        self.start += HOP;
        Ok(Some(frame))
    }

    /// Reads until the buffer has `wanted` samples behind `start`, or the stream ends.
    fn fill<S: Samples>(&mut self, source: &mut S, wanted: usize) -> Result<(), AudioError> {
        while self.left.is_none() && self.buffer.len() - self.start < wanted {
            self.buffer.drain(..self.start);
            self.start = 0;
            if let Some(chunk) = source.next_chunk()? {
                self.samples += chunk.len() as u64;
                self.buffer.extend_from_slice(chunk);
            } else {
                self.left = Some(self.buffer.len());
                self.buffer.resize(self.buffer.len() + LENGTH, 0.0);
            }
        }
        Ok(())
    }

    /// Puts the mirror image of the first samples before them.
    fn mirror(&mut self) {
        self.begun = true;
        let mirrored: Vec<f32> = self.buffer[1..=HALF].iter().rev().copied().collect();
        self.buffer.splice(..0, mirrored);
        self.left = self.left.map(|left| left + HALF);
    }
}
