//! Dispatches of kernels, and their grids for the rows of a pass.
//!
//! Each step has dispatches for each phase and number of rows, made once at load; a pass takes
//! those of its own:
//!
//! | phase, rows | products of quantized weights |
//! |---|---|
//! | decoding, 1 | `matvec.wgsl` |
//! | decoding, 2, and 3 or 4 | `matvec.wgsl`, one reading of the weights for 2 or 4 rows |
//! | decoding, 5 to 8 and 9 to 16 | `to_q8.wgsl` quantizes the activations once; `matvec_rows.wgsl` multiplies 8 or 16 rows for each reading of the weights |
//! | decoding, more | with matrix cores `to_f16.wgsl` and `cores_matmul.wgsl` with K splits; else `matvec_rows.wgsl`, 16 rows at a time |
//! | prompt, or rows of both | with matrix cores `to_f16.wgsl` and `cores_matmul.wgsl`, with K splits that depend on the matrix alone; else `to_q8.wgsl` and `tiled_matmul.wgsl` |
//!
//! Weights in floats use `matvec.wgsl` in place of `matvec_rows.wgsl`, and `tiled_matmul.wgsl`
//! without `to_q8.wgsl`. Weights in F32 never run on matrix cores, where they would lose 16 bits. A
//! software driver has up to 4 rows for each reading, because it takes a second to compile 16.
//! Products of up to 4 rows that read one norm, such as q, k and v, are one dispatch over several
//! matrices.
//!
//! The rows of a prompt that something is wanted of pass the last steps, after `select`, in the
//! decoding kernels for up to [`EXACT_ROWS`] rows, so that their number changes no bit.

use std::{num::NonZeroU64, ops::RangeInclusive, sync::Arc};

use pelton_graph::Phase;

use crate::{
    device::Kernel,
    kernels::{attention::Attention, cores_matmul::Tile, experts::Sort, tiled_matmul::ThreadTile},
};

/// Maximum rows of a decoding pass in which each row has the bits that it has alone, on a GPU with
/// matrix cores.
pub(crate) const EXACT_ROWS: usize = 16;

/// The variants of a step's dispatches, by phase and number of rows.
///
/// The kernels for up to [`EXACT_ROWS`] rows of decoding sum in the same order, so that a row's
/// bits do not depend on the number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowClass {
    /// One row of decoding.
    One,
    /// Two rows of decoding.
    Two,
    /// 3 or 4 rows of decoding.
    Four,
    /// 5 to 8 rows of decoding.
    Eight,
    /// 9 to 16 rows of decoding; without matrix cores more rows too, 16 at a time.
    Sixteen,
    /// 17 to 32 rows of decoding, on matrix cores.
    ThirtyTwo,
    /// More than 32 rows of decoding, on matrix cores.
    Many,
    /// Rows of prompts, on matrix cores if there are any.
    Prompt,
}

impl RowClass {
    pub(crate) const ALL: [Self; 8] = [
        Self::One,
        Self::Two,
        Self::Four,
        Self::Eight,
        Self::Sixteen,
        Self::ThirtyTwo,
        Self::Many,
        Self::Prompt,
    ];

    /// The variant for `rows` rows of a step. The selected rows of a prompt run in the kernels for
    /// decoding.
    pub(crate) const fn of(phase: Phase, rows: usize, selected: bool) -> Self {
        match (phase, rows) {
            (Phase::Prompt | Phase::Mixed { .. } | Phase::Encode, _) if !selected => Self::Prompt,
            (_, 0..=1) => Self::One,
            (_, 2) => Self::Two,
            (_, 3..=4) => Self::Four,
            (_, 5..=8) => Self::Eight,
            (Phase::Prompt | Phase::Mixed { .. } | Phase::Encode, _) | (_, ..=EXACT_ROWS) => {
                Self::Sixteen
            }
            (Phase::Decode, ..=32) => Self::ThirtyTwo,
            (Phase::Decode, _) => Self::Many,
        }
    }

    /// Whether it is of decoding rows on matrix cores.
    pub(crate) const fn decodes_on_cores(self) -> bool {
        matches!(self, Self::ThirtyTwo | Self::Many)
    }

    /// Rows for which weights are read once.
    pub(crate) const fn batch(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
            Self::Sixteen | Self::ThirtyTwo | Self::Many | Self::Prompt => EXACT_ROWS,
        }
    }
}

/// One dispatch of a kernel.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) bindings: wgpu::BindGroup,
    /// The buffers of the bindings, in their order.
    pub(crate) buffers: Vec<Bound>,
    pub(crate) grid: Grid,
    /// The numbers of rows of the step with which it runs.
    pub(crate) rows: RangeInclusive<usize>,
    /// Whether it is independent of the previous dispatch, so that both can run concurrently.
    pub(crate) concurrent: bool,
    /// The efforts of rows with which it runs.
    pub(crate) when: When,
}

/// The efforts of the rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Any.
    Always,
    /// All are 1.
    AllFull,
    /// At least one is 1.
    SomeFull,
    /// At least one is below 1.
    SomeBelow,
    /// Some are 1, and others are below 1.
    Mixed,
}

impl When {
    /// Whether it is said of so many rows, of which so many are below 1.
    pub(crate) const fn holds(self, rows: usize, below: usize) -> bool {
        match self {
            Self::Always => true,
            Self::AllFull => below == 0,
            Self::SomeFull => below < rows,
            Self::SomeBelow => below > 0,
            Self::Mixed => below > 0 && below < rows,
        }
    }
}

/// A range of a buffer that a kernel is bound to.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) offset: u64,
    size: Option<NonZeroU64>,
}

impl Bound {
    pub(crate) fn of(binding: &wgpu::BufferBinding<'_>) -> Self {
        let &wgpu::BufferBinding { buffer, offset, size } = binding;
        Self { buffer: buffer.clone(), offset, size }
    }

    /// A whole buffer.
    pub(crate) fn whole(buffer: &wgpu::Buffer) -> Self {
        Self { buffer: buffer.clone(), offset: 0, size: None }
    }

    pub(crate) fn binding(&self) -> wgpu::BufferBinding<'_> {
        wgpu::BufferBinding { buffer: &self.buffer, offset: self.offset, size: self.size }
    }

    /// Bytes of the range.
    pub(crate) fn len(&self) -> u64 {
        self.size.map_or(self.buffer.size() - self.offset, NonZeroU64::get)
    }

    /// Whether two ranges begin at the same place of the same buffer.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.buffer == other.buffer && self.offset == other.offset
    }
}

/// The workgroups of a dispatch, as a function of the pass.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grid {
    /// `x` workgroups for each `batch` rows.
    Rows { x: u32, batch: u32 },
    /// The workgroups of [`Tile::groups`] for a number of outputs, times a number of K splits.
    Tiles(Tile, usize, usize),
    /// The workgroups of [`ThreadTile::groups`] for a number of outputs, times a number
    /// of heads or K splits.
    ThreadTiles { tile: ThreadTile, outputs: usize, times: u32 },
    /// One workgroup for each row.
    Row,
    /// As many workgroups for each row.
    RowTimes(u32),
    /// One workgroup.
    One,
    /// `x` workgroups for each of `per_row` pairs of a row and a chosen expert.
    Pairs { x: u32, per_row: u32 },
    /// `x` workgroups for each tile of sorted rows, of which there may be as many; along y, or with
    /// `tiles_first` along x.
    ExpertTiles { x: u32, sort: Sort, tiles_first: bool },
    /// `x` workgroups for each `batch` rows of each head.
    Heads { x: u32, batch: u32, heads: u32 },
    /// `x` workgroups for each row, only in passes with several rows of one slot.
    RowsOfOneSlot { x: u32 },
    /// `x` times `y` workgroups for each sequence of the pass.
    Sequences { x: u32, y: u32 },
    /// Attention of decoding rows.
    Decode {
        attention: Attention,
        /// Whether the kernel is the one for several KV splits.
        split: bool,
        /// Whether the kernel also stores keys and values, which is possible for rows of different
        /// slots; `None` if the same kernel runs in all passes.
        fused: Option<bool>,
    },
    /// The merge of KV splits.
    Merge(Attention),
    /// `x` workgroups of attention for each tile of prompt rows.
    Prompt { x: u32 },
}

/// The properties of a pass that the grids of a step depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepShape {
    /// Rows of the step.
    pub(crate) rows: usize,
    /// Upper bound of the rows' positions, exclusive.
    pub(crate) bound: usize,
    /// Tiles of attention of prompt rows.
    pub(crate) tiles: usize,
    /// Whether all rows are of different slots.
    pub(crate) distinct: bool,
    /// Number of sequences, which is counted for plans with recurrent states.
    pub(crate) sequences: usize,
    /// Rows of the step below 1.
    pub(crate) below: usize,
}

impl Dispatch {
    /// The workgroups for the rows of a pass; `None` if the kernel does not run in it.
    pub(crate) fn groups(&self, shape: &StepShape) -> Option<[u32; 3]> {
        let &StepShape { rows, bound, tiles, distinct, sequences, below } = shape;
        if !self.when.holds(rows, below) || !self.rows.contains(&rows) {
            return None;
        }
        Some(match self.grid {
            Grid::Rows { x, batch } => [x, (rows as u32).div_ceil(batch), 1],
            Grid::Tiles(tile, outputs, splits) => {
                let [x, y, _] = tile.groups(rows, outputs);
                [x, y, splits as u32]
            }
            Grid::ThreadTiles { tile, outputs, times } => {
                let [x, y, _] = tile.groups(rows, outputs);
                [x, y, times]
            }
            Grid::Row => [rows as u32, 1, 1],
            Grid::RowTimes(times) => [rows as u32, times, 1],
            Grid::One => [1, 1, 1],
            Grid::Pairs { x, per_row } => [x, rows as u32 * per_row, 1],
            Grid::ExpertTiles { x, sort, tiles_first } => match tiles_first {
                true => [sort.tiles(rows) as u32, x, 1],
                false => [x, sort.tiles(rows) as u32, 1],
            },
            Grid::Heads { x, batch, heads } => [x, (rows as u32).div_ceil(batch), heads],
            Grid::Sequences { x, y } => [x, y, sequences as u32],
            Grid::RowsOfOneSlot { x } if !distinct => [x, rows as u32, 1],
            Grid::RowsOfOneSlot { .. } => return None,
            Grid::Decode { attention, split, fused } => {
                let splits = attention.splits(bound);
                if fused.is_some_and(|fused| fused != distinct) || split != (splits > 1) {
                    return None;
                }
                attention.decode_groups(rows, splits)
            }
            Grid::Merge(attention) => match attention.splits(bound) {
                1 => return None,
                _ => attention.merge_groups(rows),
            },
            Grid::Prompt { x } => [x, tiles as u32, 1],
        })
    }
}

/// The dispatches of one step, for the rows of a pass.
pub(crate) struct StepDispatches<'a> {
    pub(crate) calls: &'a [Dispatch],
    pub(crate) shape: StepShape,
}

impl StepDispatches<'_> {
    pub(crate) fn record(&self, pass: &mut wgpu::ComputePass<'_>) {
        for call in self.calls {
            if let Some(groups) = call.groups(&self.shape) {
                call.kernel.record(pass, &call.bindings, groups);
            }
        }
    }

    /// The number of dispatches, and of those that depend on the previous one.
    pub(crate) fn count(&self) -> (usize, usize) {
        let all = || self.calls.iter().filter(|call| call.groups(&self.shape).is_some());
        (all().count(), all().filter(|call| !call.concurrent).count())
    }
}

/// Dispatches that run with these efforts.
pub(super) fn when(calls: Vec<Dispatch>, when: When) -> Vec<Dispatch> {
    calls.into_iter().map(|call| Dispatch { when, ..call }).collect()
}

/// Lists of dispatches one after the other.
pub(super) fn joined<const N: usize>(lists: [Vec<Dispatch>; N]) -> Vec<Dispatch> {
    lists.into_iter().flatten().collect()
}
