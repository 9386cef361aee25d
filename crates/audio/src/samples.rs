//! The interface of a stream of samples.

use crate::AudioError;

/// Samples a second of all audio after decoding.
pub const SAMPLE_RATE: u32 = 16_000;

/// Samples of a chunk at most: consumers copy chunks.
const CHUNK: usize = 1 << 16;

/// Samples of one channel at 16,000 samples a second, read chunk by chunk and more than once.
///
/// A consumer calls [`next_chunk`](Self::next_chunk) until it returns `None`. It calls
/// [`rewind`](Self::rewind) to read the same samples again.
pub trait Samples {
    /// The next samples in [-1, 1], at least one; `None` at the end.
    ///
    /// # Errors
    ///
    /// The source could not be read or decoded. The stream has then ended.
    fn next_chunk(&mut self) -> Result<Option<&[f32]>, AudioError>;

    /// Returns to the first sample.
    ///
    /// # Errors
    ///
    /// The source could not be read again.
    fn rewind(&mut self) -> Result<(), AudioError>;
}

impl<S: Samples + ?Sized> Samples for &mut S {
    fn next_chunk(&mut self) -> Result<Option<&[f32]>, AudioError> {
        (**self).next_chunk()
    }

    fn rewind(&mut self) -> Result<(), AudioError> {
        (**self).rewind()
    }
}

/// Samples of one channel at 16,000 samples a second in memory.
#[derive(Clone, Debug)]
pub struct Memory<S> {
    samples: S,
    position: usize,
}

impl<S: AsRef<[f32]>> Memory<S> {
    /// A stream over samples in [-1, 1].
    pub fn new(samples: S) -> Self {
        Self { samples, position: 0 }
    }
}

impl<S: AsRef<[f32]>> Samples for Memory<S> {
    fn next_chunk(&mut self) -> Result<Option<&[f32]>, AudioError> {
        let rest = &self.samples.as_ref()[self.position..];
        let chunk = &rest[..rest.len().min(CHUNK)];
        self.position += chunk.len();
        Ok(if chunk.is_empty() { None } else { Some(chunk) })
    }

    fn rewind(&mut self) -> Result<(), AudioError> {
        self.position = 0;
        Ok(())
    }
}
