//! Numbers at places of a file.

use crate::{ImageError, Job};

/// The bytes of a file and the job of its reading.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a> {
    pub(super) all: &'a [u8],
    pub(super) job: Job<'a>,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(all: &'a [u8], job: &Job<'a>) -> Self {
        Self { all, job: *job }
    }

    /// The bytes from a place on.
    pub(super) fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], ImageError> {
        let bytes = self.all.get(at..).and_then(|rest| rest.first_chunk::<N>());
        bytes.copied().ok_or_else(|| {
            let most = self.all.len();
            self.job.malformed(format!("it ends after {most} bytes, within its header"))
        })
    }

    pub(super) fn byte(&self, at: usize) -> Result<u8, ImageError> {
        self.array::<1>(at).map(|[byte]| byte)
    }

    /// A number of 16 bits, the lowest byte first.
    pub(super) fn u16_le(&self, at: usize) -> Result<u16, ImageError> {
        self.array(at).map(u16::from_le_bytes)
    }

    /// A number of 16 bits, the highest byte first.
    pub(super) fn u16_be(&self, at: usize) -> Result<u16, ImageError> {
        self.array(at).map(u16::from_be_bytes)
    }

    /// A number of 24 bits, the lowest byte first.
    pub(super) fn u24_le(&self, at: usize) -> Result<u32, ImageError> {
        self.array(at).map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]))
    }

    /// A number of 32 bits, the lowest byte first.
    pub(super) fn u32_le(&self, at: usize) -> Result<u32, ImageError> {
        self.array(at).map(u32::from_le_bytes)
    }

    /// A number of 32 bits, the highest byte first.
    pub(super) fn u32_be(&self, at: usize) -> Result<u32, ImageError> {
        self.array(at).map(u32::from_be_bytes)
    }
}
