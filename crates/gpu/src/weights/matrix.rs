//! A matrix on the GPU, row by row.

use std::{num::NonZero, ops::Range};

use crate::weights::layout::Layout;

/// A matrix, in shards of whole rows if it is larger than a binding; of several matrices a
/// shard has whole ones.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) layout: Layout,
    pub(crate) row_len: usize,
    pub(crate) shards: Vec<Shard>,
}

impl Matrix {
    /// The planes of a shard, by their names in a kernel of which this is matrix number `index`.
    pub(crate) fn planes<'b>(
        &self,
        shard: &'b Shard,
        index: usize,
    ) -> impl Iterator<Item = (String, wgpu::BufferBinding<'b>)> {
        let names = self.layout.names().into_iter().map(move |name| format!("{name}{index}"));
        names.zip(shard.bindings())
    }

    /// The planes of a matrix of one shard.
    pub(crate) fn whole_planes(
        &self,
        index: usize,
    ) -> impl Iterator<Item = (String, wgpu::BufferBinding<'_>)> {
        self.shards.iter().flat_map(move |shard| self.planes(shard, index))
    }
}

/// A shard of a matrix: the planes of [`Layout`] of some rows, in one buffer.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) rows: Range<usize>,
    pub(super) buffer: wgpu::Buffer,
    /// Offset and bytes of each plane.
    pub(super) planes: Vec<(u64, u64)>,
    /// Whether kernels bind the planes as one buffer.
    pub(super) joined: bool,
}

impl Shard {
    pub(super) fn new(rows: Range<usize>, buffer: wgpu::Buffer, planes: Vec<(u64, u64)>) -> Self {
        Self { rows, buffer, planes, joined: false }
    }

    /// The planes, in the order in which kernels bind them.
    fn bindings(&self) -> impl Iterator<Item = wgpu::BufferBinding<'_>> {
        let joined = self.joined.then(|| self.buffer.as_entire_buffer_binding());
        let planes = &self.planes[if self.joined { self.planes.len() } else { 0 }..];
        joined.into_iter().chain(planes.iter().map(|&(offset, bytes)| wgpu::BufferBinding {
            buffer: &self.buffer,
            offset,
            size: NonZero::new(bytes.next_multiple_of(4)),
        }))
    }
}
