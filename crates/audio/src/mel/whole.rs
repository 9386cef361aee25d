//! The spectrogram of samples in memory.

use super::frames::{Framer, HOP};
use super::spectrum::{Scale, Spectrum};
use crate::{AudioError, Memory};

/// The log-mel spectrogram `[frames, mels]` of samples in memory, 100 frames a second.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMel {
    mels: usize,
    frames: usize,
    /// Features `[frames and up to three more, mels]`: those that hold samples.
    rows: Vec<f32>,
    silence: f32,
}

/// The log-mel spectrogram of samples at 16,000 samples a second, as OpenAI's `transcribe` computes
/// it.
///
/// `mels` is 80 or 128 for Whisper. The frames are those of the content: one for each 160 samples.
///
/// # Errors
///
/// `mels` is not in 1 to 200.
pub fn log_mel(samples: &[f32], mels: usize) -> Result<LogMel, AudioError> {
    let mut spectrum = Spectrum::new(mels)?;
    let (mut framer, mut source) = (Framer::new(), Memory::new(samples));
    let mut rows = Vec::with_capacity((samples.len() / HOP + 3) * mels);
    while let Some(frame) = framer.next(&mut source)? {
        spectrum.logs(frame, &mut rows);
    }
    let scale = Scale::new(rows.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    for value in &mut rows {
        *value = scale.apply(*value);
    }
    Ok(LogMel { mels, frames: samples.len() / HOP, rows, silence: scale.silence() })
}

impl LogMel {
    /// Frames of the content.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Mel bands.
    #[must_use]
    pub fn mels(&self) -> usize {
        self.mels
    }

    /// The features of the content, `[frames, mels]`.
    #[must_use]
    pub fn features(&self) -> &[f32] {
        &self.rows[..self.frames * self.mels]
    }

    /// Writes the frames from `first` on to `out` `[frames, mels]`, and zeros in place of those
    /// beyond the content, as OpenAI's `transcribe` pads the windows that it decodes.
    ///
    /// # Errors
    ///
    /// None: the signature is that of [`MelStream::read`](crate::MelStream::read).
    pub fn read(&mut self, first: usize, out: &mut [f32]) -> Result<(), AudioError> {
        copy(self.features(), first * self.mels, 0.0, out);
        Ok(())
    }

    /// Writes the frames from `first` on to `out` `[frames, mels]`, and those of silence beyond the
    /// content, as OpenAI's `transcribe` pads the window in which it detects the language.
    ///
    /// # Errors
    ///
    /// None: the signature is that of [`MelStream::read_padded`](crate::MelStream::read_padded).
    pub fn read_padded(&mut self, first: usize, out: &mut [f32]) -> Result<(), AudioError> {
        copy(&self.rows, first * self.mels, self.silence, out);
        Ok(())
    }
}

/// Copies values from `first` on, and `rest` behind their end.
fn copy(values: &[f32], first: usize, rest: f32, out: &mut [f32]) {
    let values = values.get(first..).unwrap_or(&[]);
    let (head, tail) = out.split_at_mut(values.len().min(out.len()));
    head.copy_from_slice(&values[..head.len()]);
    tail.fill(rest);
}
