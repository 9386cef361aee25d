//! Raw PCM without a header.

use super::track::mix;
use crate::resample::Resampler;
use crate::{AudioError, SAMPLE_RATE};
use std::io::{self, Read};

/// Frames that are read at a time at most.
const FRAMES: usize = 4_096;

/// How a sample of raw PCM is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// 16-bit signed integers, little-endian.
    S16Le,
    /// 32-bit floats in [-1, 1], little-endian.
    F32Le,
}

impl Encoding {
    /// Bytes of a sample.
    fn width(self) -> usize {
        match self {
            Self::S16Le => 2,
            Self::F32Le => 4,
        }
    }
}

/// The format of raw PCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawFormat {
    /// How a sample is stored.
    pub encoding: Encoding,
    /// Samples a second, 1,000 to 768,000.
    pub rate: u32,
    /// Interleaved channels, 1 to 64.
    pub channels: u16,
}

/// Raw PCM from any reader, a pipe for example, as samples of one channel at 16,000 samples a
/// second.
///
/// A chunk is returned as soon as the reader has some bytes. So a live recording is not held back,
/// apart from the filter of a resampler.
pub struct RawAudio<R> {
    reader: R,
    format: RawFormat,
    bytes: Vec<u8>,
    /// Bytes of `bytes` that were read.
    filled: usize,
    frames: Vec<f32>,
    mono: Vec<f32>,
    chunk: Vec<f32>,
    resampler: Option<Resampler>,
    ended: bool,
}

impl<R: Read> RawAudio<R> {
    /// A stream of a reader.
    ///
    /// # Errors
    ///
    /// The rate or the number of channels is out of range.
    pub fn new(reader: R, format: RawFormat) -> Result<Self, AudioError> {
        let problem = if !(1_000..=768_000).contains(&format.rate) {
            Some(format!("{} samples a second were stated, expected 1000 to 768000", format.rate))
        } else if !(1..=64).contains(&format.channels) {
            Some(format!("{} channels were stated, expected 1 to 64", format.channels))
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(AudioError::Limit { name: "raw audio".to_owned(), problem });
        }
        let resampler = if format.rate == SAMPLE_RATE { None } else { Resampler::new(format.rate) };
        let frame = format.encoding.width() * usize::from(format.channels);
        Ok(Self {
            reader,
            format,
            bytes: vec![0; frame * FRAMES],
            filled: 0,
            frames: Vec::new(),
            mono: Vec::new(),
            chunk: Vec::new(),
            resampler,
            ended: false,
        })
    }

    /// The next samples in [-1, 1], at least one; `None` at the end. An incomplete last frame is
    /// dropped.
    ///
    /// # Errors
    ///
    /// The reader failed.
    pub fn next_chunk(&mut self) -> Result<Option<&[f32]>, AudioError> {
        self.chunk.clear();
        while self.chunk.is_empty() && !self.ended {
            let count = match self.reader.read(&mut self.bytes[self.filled..]) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    self.ended = true;
                    return Err(AudioError::Io { name: "raw audio".to_owned(), source });
                }
            };
            self.filled += count;
            self.ended = count == 0;
            self.convert();
        }
        for sample in &mut self.chunk {
            *sample = sample.clamp(-1.0, 1.0);
        }
        Ok(if self.chunk.is_empty() { None } else { Some(&self.chunk) })
    }

    /// All samples that are left.
    ///
    /// # Errors
    ///
    /// As for [`next_chunk`](Self::next_chunk).
    pub fn read_all(&mut self) -> Result<Vec<f32>, AudioError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next_chunk()? {
            all.extend_from_slice(chunk);
        }
        Ok(all)
    }

    /// Converts the complete frames that were read.
    fn convert(&mut self) {
        let channels = usize::from(self.format.channels);
        let frame = self.format.encoding.width() * channels;
        let whole = self.filled / frame * frame;
        let bytes = &self.bytes[..whole];
        self.frames.clear();
        match self.format.encoding {
            Encoding::S16Le => self.frames.extend(
                bytes.as_chunks().0.iter().map(|b| f32::from(i16::from_le_bytes(*b)) / 32768.0),
            ),
            Encoding::F32Le => self.frames.extend(bytes.as_chunks().0.iter().map(|b| {
                let sample = f32::from_le_bytes(*b);
                if sample.is_nan() { 0.0 } else { sample.clamp(-1.0, 1.0) }
            })),
        }
        self.bytes.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        self.mono.clear();
        mix(&self.frames, channels, &mut self.mono);
        match &mut self.resampler {
            None => self.chunk.extend_from_slice(&self.mono),
            Some(resampler) => {
                resampler.push(&self.mono, &mut self.chunk);
                if self.ended {
                    resampler.finish(&mut self.chunk);
                }
            }
        }
    }
}

impl<R> std::fmt::Debug for RawAudio<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawAudio").field("format", &self.format).finish_non_exhaustive()
    }
}
