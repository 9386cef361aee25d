//! Matrices of Q8_0 in input-major order, of which a product reads the live inputs alone. A code is
//! 16 times its upper half, a signed number, plus its lower half, and the halves lie apart.
//!
//! The outputs are cut into *tiles* of [`OUTPUTS`]. A *line* has the halves of the codes of one
//! input for the outputs of a tile, 256 bytes in a row. Lane `l` of 32 has [`WORDS`] words of it,
//! with the outputs `32 a + l` of the tile, so that the sums of the lanes leave side by side.
//! Codes and scales are those of the file. In the buffer of a matrix follow each other, padded
//! with zeros to whole tiles:
//!
//! | section | content |
//! |---|---|
//! | lines | `[tiles, inputs]` lines of upper halves. Word `w` has eight outputs: byte `b` 8 w + b and, in its upper half, 8 w + b + 4 |
//! | lower | the lines of the lower halves |
//! | scales | f16 `[tiles, blocks of 32 inputs, 2, lanes, 8]`: of a lane eight outputs `a` after the other |
//! | norms | the Euclidean norm of each column, f32 `[inputs]` |

use std::{ops::Range, thread};

use bytemuck::bytes_of;
use pelton_quant::{BlockQ8_0, DType, decode};

/// Sections begin at multiples of this, the greatest offset alignment of any GPU.
pub(super) const ALIGNMENT: usize = 256;
/// Lanes of a line.
pub(crate) const LANES: usize = 32;
/// Words that a lane has of a line.
pub(crate) const WORDS: usize = 2;
/// Outputs of a tile.
pub(crate) const OUTPUTS: usize = 8 * WORDS * LANES;

/// The shape of a matrix `[rows, cols]` in input-major order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InputMajorLayout {
    /// Outputs.
    pub(crate) rows: usize,
    /// Inputs.
    pub(crate) cols: usize,
}

/// The bytes at which the sections after the lines begin, and the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sections {
    pub(crate) lower: usize,
    pub(crate) scales: usize,
    pub(crate) norms: usize,
    pub(crate) end: usize,
}

impl InputMajorLayout {
    /// The lines of a matrix; `None` if it is not Q8_0, or its rows are no whole blocks.
    pub(crate) fn new(dtype: DType, rows: usize, cols: usize) -> Option<Self> {
        let is_whole = rows > 0 && cols > 0 && cols.is_multiple_of(32);
        (is_whole && dtype == DType::Q8_0).then_some(Self { rows, cols })
    }

    /// Tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.rows.div_ceil(OUTPUTS)
    }

    /// Bytes of one tile in the sections of lines, lower halves and scales.
    fn tile_bytes(&self) -> [usize; 3] {
        let lines = self.cols * LANES * WORDS * 4;
        [lines, lines, self.cols / 32 * OUTPUTS * 2]
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
                    let all = column_norms(from, row_bytes, columns);
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
        let line = LANES * WORDS * 4;
        for (i, tile) in tiles.enumerate() {
            let first = tile * OUTPUTS;
            let lines = &mut lines[i * of_lines..][..of_lines];
            let lower = &mut lower[i * of_lower..][..of_lower];
            let scales = &mut scales[i * of_scales..][..of_scales];
            for output in 0..OUTPUTS.min(self.rows - first) {
                let row = &from[(first + output) * row_bytes..][..row_bytes];
                let (lane, a) = (output % LANES, output / LANES);
                let blocks: &[BlockQ8_0] = bytemuck::try_cast_slice(row).unwrap_or_default();
                for (b, block) in blocks.iter().enumerate() {
                    let at = (((2 * b + a / 8) * LANES + lane) * 8 + a % 8) * 2;
                    scales[at..at + 2].copy_from_slice(bytes_of(&block.d));
                    for (input, &code) in (32 * b..).zip(&block.qs) {
                        let at = input * line + lane * 8 + a / 8 * 4 + a % 4;
                        let shift = a % 8 / 4 * 4;
                        lines[at] |= (code as u8 >> 4) << shift;
                        lower[at] |= (code as u8 & 15) << shift;
                    }
                }
            }
        }
    }
}

/// The Euclidean norms of some columns: squares are summed in f64 in the order of rows, as
/// crates/cpu does.
fn column_norms(from: &[u8], row_bytes: usize, columns: Range<usize>) -> Vec<f32> {
    let byte = |column: usize| column / 32 * size_of::<BlockQ8_0>();
    let mut squares = vec![0.0_f64; columns.len()];
    let mut values = vec![0.0_f32; columns.len()];
    for row in from.chunks_exact(row_bytes) {
        // the shapes have been checked
        if decode(DType::Q8_0, &row[byte(columns.start)..byte(columns.end)], &mut values).is_ok() {
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
