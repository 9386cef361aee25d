//! Buffers of f32 that begin at a cache line, so that no vector in them straddles two lines.

use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};
use pelton_graph::Error;

/// Elements in a cache line.
const ELEMENTS: usize = 16;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; ELEMENTS]);

/// A buffer of f32 that begins at a cache line.
#[derive(Debug, Default)]
pub(crate) struct AlignedBuf {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedBuf {
    /// A buffer `[rows, width]` of zeros for `what`.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(crate) fn zeroed(what: &'static str, rows: usize, width: usize) -> Result<Self, Error> {
        let needed = Self::bytes(rows, width);
        usize::try_from(needed / 4)
            .ok()
            .and_then(|len| {
                let lines = bytemuck::allocation::try_zeroed_vec(len.div_ceil(ELEMENTS)).ok()?;
                Some(Self { lines, len })
            })
            .ok_or(Error::Memory { what, needed, available: None })
    }

    /// Bytes of a buffer `[rows, width]`.
    pub(crate) const fn bytes(rows: usize, width: usize) -> u128 {
        (rows as u128).saturating_mul(width as u128).saturating_mul(4)
    }

    /// Grows the buffer to at least `len` elements.
    pub(crate) fn grow(&mut self, len: usize) {
        if self.len < len {
            self.lines.resize(len.div_ceil(ELEMENTS), Line::zeroed());
            self.len = len;
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}
