//! The spectrogram of a stream that is read twice, in bounded memory.

use super::frames::{Framer, HOP};
use super::spectrum::{Scale, Spectrum};
use crate::{AudioError, SAMPLE_RATE, Samples};

/// The log-mel spectrogram `[frames, mels]` of a stream, 100 frames a second.
///
/// [`new`](Self::new) reads the stream once for its length and its greatest energy, on which every
/// value depends. [`read`](Self::read) then reads it a second time, window by window. Memory holds
/// one window. The values equal those of [`log_mel`](crate::log_mel) bit for bit.
pub struct MelStream<S> {
    source: S,
    spectrum: Spectrum,
    scale: Scale,
    samples: u64,
    framer: Framer,
    /// The frame that the framer gives next.
    next: usize,
    /// The frame at the start of `rows`.
    first: usize,
    /// Features of consecutive frames.
    rows: Vec<f32>,
}

impl<S: Samples> MelStream<S> {
    /// Reads a stream from its start to its end. `mels` is 80 or 128 for Whisper.
    ///
    /// # Errors
    ///
    /// The stream could not be read, or `mels` is not in 1 to 200.
    pub fn new(source: S, mels: usize) -> Result<Self, AudioError> {
        Self::with_progress(source, mels, |_| ())
    }

    /// As [`new`](Self::new), with a callback that gets the seconds that were read, ten times a
    /// second of the stream.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_progress(
        mut source: S,
        mels: usize,
        mut progress: impl FnMut(f64),
    ) -> Result<Self, AudioError> {
        let mut spectrum = Spectrum::new(mels)?;
        let (mut framer, mut peak, mut count) = (Framer::new(), f32::NEG_INFINITY, 0_u64);
        while let Some(frame) = framer.next(&mut source)? {
            peak = peak.max(spectrum.peak(frame));
            count += 1;
            if count.is_multiple_of(10) {
                progress(count as f64 / 100.0);
            }
        }
        let samples = framer.samples();
        source.rewind()?;
        let (framer, scale) = (Framer::new(), Scale::new(peak));
        Ok(Self { source, spectrum, scale, samples, framer, next: 0, first: 0, rows: Vec::new() })
    }

    /// Frames of the content.
    #[must_use]
    pub fn frames(&self) -> usize {
        usize::try_from(self.samples / HOP as u64).unwrap_or(usize::MAX)
    }

    /// Mel bands.
    #[must_use]
    pub fn mels(&self) -> usize {
        self.spectrum.mels()
    }

    /// The length in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.samples as f64 / f64::from(SAMPLE_RATE)
    }

    /// The stream.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Writes the frames from `first` on to `out` `[frames, mels]`, and zeros in place of those
    /// beyond the content, as OpenAI's `transcribe` pads the windows that it decodes.
    ///
    /// Windows come in ascending order of `first`; they may overlap. An earlier one than the last
    /// reads the stream again from its start.
    ///
    /// # Errors
    ///
    /// The stream could not be read.
    pub fn read(&mut self, first: usize, out: &mut [f32]) -> Result<(), AudioError> {
        self.read_padded(first, out)?;
        let content = self.frames().saturating_sub(first).saturating_mul(self.mels());
        out.iter_mut().skip(content).for_each(|value| *value = 0.0);
        Ok(())
    }

    /// Writes the frames from `first` on to `out` `[frames, mels]`, and those of silence beyond the
    /// content, as OpenAI's `transcribe` pads the window in which it detects the language.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn read_padded(&mut self, first: usize, out: &mut [f32]) -> Result<(), AudioError> {
        let mels = self.mels();
        let frames = out.len() / mels;
        self.advance(first)?;
        while self.rows.len() < frames * mels {
            let Some(frame) = self.framer.next(&mut self.source)? else { break };
            let start = self.rows.len();
            self.spectrum.logs(frame, &mut self.rows);
            for value in &mut self.rows[start..] {
                *value = self.scale.apply(*value);
            }
            self.next += 1;
        }
        let known = self.rows.len().min(out.len());
        out[..known].copy_from_slice(&self.rows[..known]);
        out[known..].fill(self.scale.silence());
        Ok(())
    }

    /// Drops the frames before `first`.
    fn advance(&mut self, first: usize) -> Result<(), AudioError> {
        if first < self.first {
            self.source.rewind()?;
            (self.framer, self.next, self.first) = (Framer::new(), 0, 0);
            self.rows.clear();
        }
        let drop = (first - self.first).saturating_mul(self.mels()).min(self.rows.len());
        self.rows.drain(..drop);
        self.first = first;
        if self.rows.is_empty() {
            // Frames that no window holds are skipped without their spectra.
            while self.next < first && self.framer.next(&mut self.source)?.is_some() {
                self.next += 1;
            }
        }
        Ok(())
    }
}

impl<S> std::fmt::Debug for MelStream<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MelStream").field("samples", &self.samples).finish_non_exhaustive()
    }
}
