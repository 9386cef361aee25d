//! The bytes of a file as a decoder reads them: counted, until a job ends.

use crate::Job;
use std::io::{self, BufRead, Read, Seek, SeekFrom};

/// Bytes between two looks at the job.
const STRIDE: usize = 16 << 10;
/// How often the bytes of a file may be read.
const TIMES: usize = 4;

/// A file in memory.
pub(super) struct Watched<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes until the next look at the job.
    stride: usize,
    /// Bytes that may still be read.
    budget: usize,
    job: Job<'a>,
}

impl<'a> Watched<'a> {
    pub(super) fn new(bytes: &'a [u8], job: Job<'a>) -> Self {
        let budget = bytes.len().saturating_mul(TIMES).saturating_add(STRIDE);
        Self { bytes, at: 0, stride: 0, budget, job }
    }
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.fill_buf()?;
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Watched<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.stride == 0 {
            self.job.check().map_err(io::Error::other)?;
            self.budget = self
                .budget
                .checked_sub(STRIDE)
                .ok_or_else(|| io::Error::other("it is read again and again"))?;
            self.stride = STRIDE;
        }
        let rest = &self.bytes[self.at..];
        Ok(&rest[..rest.len().min(self.stride)])
    }

    fn consume(&mut self, count: usize) {
        self.at = (self.at + count).min(self.bytes.len());
        self.stride = self.stride.saturating_sub(count);
    }
}

impl Seek for Watched<'_> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let to = match position {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => (self.bytes.len() as u64).checked_add_signed(by),
            SeekFrom::Current(by) => (self.at as u64).checked_add_signed(by),
        };
        let to = to.ok_or(io::ErrorKind::InvalidInput)?;
        // a place behind the end reads as the end
        self.at = usize::try_from(to).unwrap_or(usize::MAX).min(self.bytes.len());
        self.stride = self.stride.saturating_sub(64);
        Ok(to)
    }
}
