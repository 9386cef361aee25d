//! Memory in whole cache lines: a vector that is loaded from it, or stored, does not lie in two.

use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};
use pelton_graph::Error;

/// Numbers in a cache line.
const NUMBERS: usize = 16;

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; NUMBERS]);

/// A slice of numbers that begins at the start of a line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Vec<Line>,
    len: usize,
}

impl Lines {
    /// `rows × width` zeros.
    ///
    /// # Errors
    /// If there is no such memory.
    pub(crate) fn zeroed(rows: usize, width: usize) -> Result<Self, Error> {
        let needed = rows as u128 * width as u128 * 4;
        usize::try_from(needed / 4)
            .ok()
            .and_then(|len| {
                let lines = bytemuck::allocation::try_zeroed_vec(len.div_ceil(NUMBERS)).ok()?;
                Some(Self { lines, len })
            })
            .ok_or(Error::Memory { what: "a buffer between steps", needed })
    }

    /// Makes it at least `len` numbers long.
    pub(crate) fn grow(&mut self, len: usize) {
        if self.len < len {
            self.lines.resize(len.div_ceil(NUMBERS), Line::zeroed());
            self.len = len;
        }
    }
}

impl Deref for Lines {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}
