//! Matrices in input-major order, of which a product reads the live inputs alone.
//!
//! The outputs are cut into *tiles* of [`Lines::outputs`]. A *line* has the weights of one input for the
//! outputs of a tile, 256 or 512 bytes in a row. Lane `l` of 32 has [`Lines::words`] words of it, with the
//! outputs `32 a + l` of the tile, so that the sums of the lanes leave side by side. Codes and scales are
//! those of the file. In the buffer of a matrix follow each other, padded with zeros to whole tiles:
//!
//! | section | content |
//! |---|---|
//! | lines | `[tiles, inputs]` lines. Word `w` has one output of F32, `a` = w; or two of 16 bits, 2 w and 2 w + 1; or four of 8 bits, 4 w to 4 w + 3. Nested codes have their upper halves here: eight of 4 bits, byte `b` with 8 w + b and, in its upper half, 8 w + b + 4 |
//! | lower | the lines of the lower halves of nested codes |
//! | scales | f16 `[tiles, blocks of 32 inputs, outputs / 256, lanes, 8]`: of a lane eight outputs `a` after the other |
//! | norms | the Euclidean norm of each column, f32 `[inputs]` |

use std::{ops::Range, thread};

use bytemuck::bytes_of;
use pelton_quant::{BlockQ8_0, DType, decode};

/// Sections begin at multiples of this, the greatest offset alignment of any GPU.
pub(super) const ALIGNMENT: usize = 256;
/// Lanes of a line.
pub(crate) const LANES: usize = 32;
/// Words that a lane has of a line of codes of eight bits.
const CODE_WORDS: usize = 4;

/// The shape of a matrix `[rows, cols]` in input-major order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    /// The stored format: F32, F16, BF16 or Q8_0.
    pub(crate) dtype: DType,
    /// Outputs.
    pub(crate) rows: usize,
    /// Inputs.
    pub(crate) cols: usize,
    /// Whether the halves of the codes of Q8_0 lie apart: a code is 16 times its upper half, a signed number,
    /// plus its lower half.
    pub(crate) nested: bool,
}

/// The bytes at which the sections after the lines begin, and the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sections {
    pub(crate) lower: usize,
    pub(crate) scales: usize,
    pub(crate) norms: usize,
    pub(crate) end: usize,
}

impl Lines {
    /// The lines of a matrix; `None` if its format has none, or its rows are no whole blocks or vectors of
    /// four.
    pub(crate) fn new(dtype: DType, rows: usize, cols: usize) -> Option<Self> {
        let step = match dtype {
            DType::F32 | DType::F16 | DType::BF16 => 4,
            DType::Q8_0 => 32,
            _ => return None,
        };
        let is_whole = rows > 0 && cols > 0 && cols.is_multiple_of(step);
        is_whole.then_some(Self { dtype, rows, cols, nested: false })
    }

    /// The same of a matrix whose codes are nested; `None` unless it is Q8_0.
    pub(crate) fn nested(dtype: DType, rows: usize, cols: usize) -> Option<Self> {
        let lines = Self::new(dtype, rows, cols).filter(Self::blocks)?;
        Some(Self { nested: true, ..lines })
    }

    /// Whether weights are codes with scales.
    pub(crate) fn blocks(&self) -> bool {
        self.dtype == DType::Q8_0
    }

    /// Outputs of a tile.
    pub(crate) fn outputs(&self) -> usize {
        match self.dtype {
            DType::Q8_0 if self.nested => 16 * LANES,
            DType::Q8_0 => 4 * CODE_WORDS * LANES,
            DType::F32 => 4 * LANES,
            _ => 8 * LANES,
        }
    }

    /// Words that a lane has of a line.
    pub(crate) fn words(&self) -> usize {
        match self.dtype {
            DType::Q8_0 if self.nested => 2,
            DType::Q8_0 => CODE_WORDS,
            _ => 4,
        }
    }

    /// Tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.rows.div_ceil(self.outputs())
    }

    /// Bytes of one tile in the sections of lines, lower halves and scales.
    fn tile_bytes(&self) -> [usize; 3] {
        let lines = self.cols * LANES * self.words() * 4;
        let lower = if self.nested { lines } else { 0 };
        let scales = if self.blocks() { self.cols / 32 * self.outputs() * 2 } else { 0 };
        [lines, lower, scales]
    }

    /// The sections of its buffer.
    pub(crate) fn sections(&self) -> Sections {
        let mut starts = [0; 4];
        for (i, bytes) in self.tile_bytes().into_iter().enumerate() {
            starts[i + 1] = (starts[i] + bytes * self.tiles()).next_multiple_of(ALIGNMENT);
        }
        let [_, lower, scales, norms] = starts;
        Sections { lower, scales, norms, end: norms + 4 * self.cols }
    }

    /// The content of its buffer, on `threads` threads: of a matrix whose rows lie one after the
    /// other.
    pub(crate) fn packed(&self, from: &[u8], threads: usize) -> Vec<u8> {
        let sections = self.sections();
        let mut all = vec![0; sections.end];
        let (head, norms) = all.split_at_mut(sections.norms);
        let (head, scales) = head.split_at_mut(sections.scales);
        let (lines, lower) = head.split_at_mut(sections.lower);
        let row_bytes = from.len() / self.rows;
        let each = self.tiles().div_ceil(threads.max(1)).max(1);
        thread::scope(|scope| {
            let mut rest = [lines, lower, scales];
            for first in (0..self.tiles()).step_by(each) {
                let tiles = first..self.tiles().min(first + each);
                let parts = [0, 1, 2].map(|i| {
                    let bytes = self.tile_bytes()[i] * tiles.len();
                    let (mine, after) = std::mem::take(&mut rest[i]).split_at_mut(bytes);
                    rest[i] = after;
                    mine
                });
                let is_last = tiles.end == self.tiles();
                run(scope, is_last, move || self.pack_tiles(from, row_bytes, tiles, parts));
            }
        });
        // a thread sums all rows of some columns, in the order of rows
        let columns = self.cols.div_ceil(threads.max(1)).next_multiple_of(256);
        thread::scope(|scope| {
            for (i, norms) in norms.chunks_mut(4 * columns).enumerate() {
                let columns = i * columns..self.cols.min((i + 1) * columns);
                run(scope, columns.end == self.cols, move || {
                    let all = column_norms(self.dtype, from, row_bytes, columns);
                    norms.copy_from_slice(bytemuck::cast_slice(&all));
                });
            }
        });
        all
    }

    /// Packs some tiles into their parts of the sections of lines, lower halves and scales.
    fn pack_tiles(
        &self,
        from: &[u8],
        row_bytes: usize,
        tiles: Range<usize>,
        [lines, lower, scales]: [&mut [u8]; 3],
    ) {
        let [of_lines, of_lower, of_scales] = self.tile_bytes();
        let line = LANES * self.words() * 4;
        for (i, tile) in tiles.enumerate() {
            let first = tile * self.outputs();
            let lines = &mut lines[i * of_lines..][..of_lines];
            let lower = &mut lower[i * of_lower..][..of_lower];
            let scales = &mut scales[i * of_scales..][..of_scales];
            for output in 0..self.outputs().min(self.rows - first) {
                let row = &from[(first + output) * row_bytes..][..row_bytes];
                let (lane, a) = (output % LANES, output / LANES);
                if !self.blocks() {
                    let size = row_bytes / self.cols;
                    let at = lane * 16 + a * size;
                    for (line, weight) in lines.chunks_exact_mut(line).zip(row.chunks_exact(size)) {
                        line[at..at + size].copy_from_slice(weight);
                    }
                    continue;
                }
                let blocks: &[BlockQ8_0] = bytemuck::try_cast_slice(row).unwrap_or_default();
                for (b, block) in blocks.iter().enumerate() {
                    let eights = self.outputs() / (8 * LANES);
                    let at = (((eights * b + a / 8) * LANES + lane) * 8 + a % 8) * 2;
                    scales[at..at + 2].copy_from_slice(bytes_of(&block.d));
                    for (input, &code) in (32 * b..).zip(&block.qs) {
                        if self.nested {
                            let at = input * line + lane * 8 + a / 8 * 4 + a % 4;
                            let shift = a % 8 / 4 * 4;
                            lines[at] |= (code as u8 >> 4) << shift;
                            lower[at] |= (code as u8 & 15) << shift;
                        } else {
                            lines[input * line + lane * 4 * self.words() + a] = code as u8;
                        }
                    }
                }
            }
        }
    }
}

/// The Euclidean norms of some columns: squares are summed in f64 in the order of rows, as
/// crates/cpu does.
fn column_norms(dtype: DType, from: &[u8], row_bytes: usize, columns: Range<usize>) -> Vec<f32> {
    let byte = |column: usize| column / dtype.block_len() * dtype.block_bytes();
    let mut squares = vec![0.0_f64; columns.len()];
    let mut values = vec![0.0_f32; columns.len()];
    for row in from.chunks_exact(row_bytes) {
        // the shapes have been checked
        if decode(dtype, &row[byte(columns.start)..byte(columns.end)], &mut values).is_ok() {
            for (square, &value) in squares.iter_mut().zip(&values) {
                *square += f64::from(value) * f64::from(value);
            }
        }
    }
    squares.into_iter().map(|square| square.sqrt() as f32).collect()
}
/// Runs work on a thread of its own, and the last on this one: browsers have no other.
fn run<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    is_last: bool,
    work: impl FnOnce() + Send + 'scope,
) {
    match is_last {
        true => work(),
        false => {
            scope.spawn(work);
        }
    }
}
