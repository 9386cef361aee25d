//! The bytes of a file as a decoder sees them: a part of the file, with changed headers.

use super::cancel::Cancel;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use symphonia::core::io::MediaSource;

/// A source of bytes for a decoder.
pub(crate) trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// Bytes beyond twice the file that may be read without a decoded sample: buffers of readers that
/// seek.
const SLACK: u64 = 64 << 20;
/// Bytes of a change at most: two fields of a header.
const CHANGE: usize = 16;

/// Other bytes for a place of a file. They hide what a decoder has no need of, or mend a size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    at: u64,
    bytes: [u8; CHANGE],
    length: usize,
}

impl Change {
    /// Bytes from a place on, at most 16.
    pub(crate) fn new(at: u64, bytes: &[u8]) -> Self {
        let length = bytes.len().min(CHANGE);
        let mut all = [0; CHANGE];
        all[..length].copy_from_slice(&bytes[..length]);
        Self { at, bytes: all, length }
    }

    fn end(&self) -> u64 {
        self.at + self.length as u64
    }
}

struct State {
    reader: Box<dyn ReadSeek>,
    /// The place in the file.
    position: u64,
    length: u64,
    /// Bytes that may still be read before samples have to come.
    budget: u64,
}

/// The bytes of a file, shared by the readers that one after another parse it.
#[derive(Clone)]
pub(crate) struct Input {
    state: Arc<Mutex<State>>,
    cancel: Cancel,
    /// The part of the file that is read. Positions count from its start.
    part: Range<u64>,
    /// In the order of their places, which do not overlap.
    changes: Arc<[Change]>,
}

impl Input {
    /// Bytes that are read from their first one on.
    pub(crate) fn new(mut reader: Box<dyn ReadSeek>, cancel: &Cancel) -> io::Result<Self> {
        let length = reader.seek(SeekFrom::End(0))?;
        let state = State { reader, position: length, length, budget: 0 };
        let input = Self {
            state: Arc::new(Mutex::new(state)),
            cancel: cancel.clone(),
            part: 0..length,
            changes: Arc::new([]),
        };
        input.rewind()?;
        Ok(input)
    }

    /// A part of these bytes, without changes.
    pub(crate) fn part(&self, part: Range<u64>) -> Self {
        let end = self.part.start.saturating_add(part.end).min(self.part.end);
        let start = self.part.start.saturating_add(part.start).min(end);
        Self { part: start..end, changes: Arc::new([]), ..self.clone() }
    }

    /// These bytes with changes, whose places do not overlap.
    pub(crate) fn changed(&self, mut changes: Vec<Change>) -> Self {
        for change in &mut changes {
            change.at += self.part.start;
        }
        changes.sort_unstable_by_key(|change| change.at);
        Self { changes: changes.into(), ..self.clone() }
    }

    /// Returns to the first byte.
    pub(crate) fn rewind(&self) -> io::Result<()> {
        self.lock().seek(self.part.start)?;
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
        self.part.end - self.part.start
    }

    /// The handle that ends the reading.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Reads bytes from a place on, fewer at the end.
    pub(crate) fn read_at(&mut self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        self.seek(SeekFrom::Start(at))?;
        let mut count = 0;
        while count < out.len() {
            match self.read(&mut out[count..])? {
                0 => break,
                more => count += more,
            }
        }
        Ok(count)
    }

    /// The bytes of a place; `None` if the end comes before, or if they cannot be read.
    pub(crate) fn array<const N: usize>(&mut self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.read_at(at, &mut bytes).ok()? == N).then_some(bytes)
    }

    /// The state, also after a panic of a decoder: a rewind makes it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn seek(&mut self, position: u64) -> io::Result<()> {
        self.position = self.reader.seek(SeekFrom::Start(position))?;
        Ok(())
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_due() {
            return Err(io::Error::other("its reading was cancelled"));
        }
        let mut state = self.lock();
        let at = state.position;
        let left = usize::try_from(self.part.end.saturating_sub(at)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let buffer = &mut buffer[..most];
        let count = state.reader.read(buffer)?;
        state.position += count as u64;
        match state.budget.checked_sub(count as u64) {
            Some(rest) => state.budget = rest,
            None => {
                return Err(io::Error::other("it is read again and again without giving samples"));
            }
        }
        let first = self.changes.partition_point(|change| change.end() <= at);
        for change in &self.changes[first..] {
            if change.at >= at + count as u64 {
                break;
            }
            for (place, byte) in (change.at..).zip(&change.bytes[..change.length]) {
                if place >= at && place < at + count as u64 {
                    buffer[(place - at) as usize] = *byte;
                }
            }
        }
        Ok(count)
    }
}

impl Seek for Input {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let mut state = self.lock();
        let start = self.part.start;
        let to = match position {
            SeekFrom::Start(at) => start.checked_add(at),
            SeekFrom::End(by) => self.part.end.checked_add_signed(by),
            SeekFrom::Current(by) => state.position.checked_add_signed(by),
        };
        let to = to.filter(|to| *to >= start).ok_or(io::ErrorKind::InvalidInput)?;
        state.seek(to)?;
        Ok(to - start)
    }
}

impl MediaSource for Input {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_with_changes_is_read() {
        let bytes: Vec<u8> = (0..100).collect();
        let input = Input::new(Box::new(io::Cursor::new(bytes)), &Cancel::new()).unwrap();
        let part = input.part(10..50);
        let mut changed = part.changed(vec![Change::new(30, b"xyz"), Change::new(2, b"ab")]);
        assert_eq!(changed.length(), 40);
        let mut all = Vec::new();
        changed.rewind().unwrap();
        changed.read_to_end(&mut all).unwrap();
        let mut expected: Vec<u8> = (10..50).collect();
        expected[2..4].copy_from_slice(b"ab");
        expected[30..33].copy_from_slice(b"xyz");
        assert_eq!(all, expected);
        // a read that begins or ends within a change
        assert_eq!(changed.array::<2>(31), Some(*b"yz"));
        assert_eq!(changed.array::<3>(1), Some([11, b'a', b'b']));
        assert_eq!(changed.array::<3>(38), None);
        assert_eq!(changed.seek(SeekFrom::End(-1)).unwrap(), 39);
        assert!(changed.seek(SeekFrom::Start(5)).is_ok());
        assert!(changed.seek(SeekFrom::Current(-6)).is_err());
    }
}
