//! The bytes of a file, with a limit of reads that decode nothing.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use symphonia::core::io::MediaSource;

/// A source of bytes for a decoder.
pub(crate) trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// Bytes beyond twice the file that may be read without a decoded sample: buffers of readers that seek.
const SLACK: u64 = 64 << 20;

struct State {
    reader: Box<dyn ReadSeek>,
    length: u64,
    /// Bytes that may still be read before samples have to come.
    budget: u64,
}

/// The bytes of a file, shared by the readers that one after another parse it.
#[derive(Clone)]
pub(crate) struct Input {
    state: Arc<Mutex<State>>,
    length: u64,
}

impl Input {
    /// Bytes that are read from their first one on.
    pub(crate) fn new(mut reader: Box<dyn ReadSeek>) -> io::Result<Self> {
        let length = reader.seek(SeekFrom::End(0))?;
        let input =
            Self { state: Arc::new(Mutex::new(State { reader, length, budget: 0 })), length };
        input.rewind()?;
        Ok(input)
    }

    /// Returns to the first byte.
    pub(crate) fn rewind(&self) -> io::Result<()> {
        self.lock().reader.rewind()?;
        self.refill();
        Ok(())
    }

    /// Notes that samples came.
    pub(crate) fn refill(&self) {
        let mut state = self.lock();
        state.budget = state.length.saturating_mul(2).saturating_add(SLACK);
    }

    /// Bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The state, also after a panic of a decoder: a rewind makes it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.lock();
        let count = state.reader.read(buffer)?;
        match state.budget.checked_sub(count as u64) {
            Some(rest) => state.budget = rest,
            None => {
                return Err(io::Error::other("it is read again and again without giving samples"));
            }
        }
        Ok(count)
    }
}

impl Seek for Input {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.lock().reader.seek(position)
    }
}

impl MediaSource for Input {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.length)
    }
}
