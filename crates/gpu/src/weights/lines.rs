//! Matrices in input-major order, of which a product can skip inputs.
//!
//! A *line* has the weights of one input for the outputs of a slab: [`Lines::line`] words of 32
//! bits. It has 64 bytes of codes or 128 bytes of floats, so that skipped lines are whole sectors
//! of memory. A slab has the lines of all inputs. Integers and scales are those of the file. In the
//! buffer of a matrix follow each other, each slab by slab, the last of which is padded with zeros:
//!
//! | section | content |
//! |---|---|
//! | lines | `[slabs, inputs]` lines. A word has four outputs of 8 bits; eight of 4 bits, byte `b` with outputs `b` and, in its upper half, `b + 4`; or two or one in floats. Words of codes are rotated to the left by as many bytes as the input has over a multiple of four |
//! | `d` | f16 scales, and minima after those of the slab, `[slabs, blocks or super-blocks, fields, outputs]` |
//! | `sub` | bytes: scales and minima, or the scales of both halves, `[slabs, blocks, 2, outputs]` |
//! | `high` | upper bits `[slabs, inputs]`, 8 or 16 of each word of a line, in the order of its codes; upper halves of nested codes in lines of their own |
//! | norms | the Euclidean norm of each column, f32 `[inputs]` |

use std::{ops::Range, thread};

use bytemuck::bytes_of;
use pelton_quant::{
    BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5K, BlockQ6K, BlockQ8_0, DType, decode, scale_min_k4,
};

/// Sections begin at multiples of this, the greatest offset alignment of any GPU.
const ALIGNMENT: usize = 256;

/// The shape of a matrix `[rows, cols]` in input-major order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    /// The stored format.
    pub(crate) dtype: DType,
    /// Outputs.
    pub(crate) rows: usize,
    /// Inputs.
    pub(crate) cols: usize,
    /// Words of a line.
    pub(crate) line: usize,
    /// Whether the lines of Q8_0 have the lower halves of codes alone.
    pub(crate) nested: bool,
}

/// The fields of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Outputs of a word of a line.
    pub(crate) per_word: usize,
    /// Numbers in f16 of each output, and their inputs.
    pub(crate) d_fields: usize,
    pub(crate) d_inputs: usize,
    /// Bytes of each output and block.
    pub(crate) sub: usize,
    /// Upper bits of a code; of nested codes half of its bits.
    pub(crate) upper_bits: usize,
}

/// The bytes at which the sections begin, and the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sections {
    pub(crate) d: usize,
    pub(crate) sub: usize,
    pub(crate) high: usize,
    pub(crate) norms: usize,
    pub(crate) end: usize,
}

impl Fields {
    /// The fields of Q8_0 whose codes are 16 times their upper half, a signed number, plus their
    /// lower half.
    const NESTED: Self =
        Self { per_word: 8, d_fields: 1, d_inputs: 32, sub: 0, upper_bits: Self::NESTED_BITS };
    /// Upper bits of nested codes, and of no other ones.
    pub(crate) const NESTED_BITS: usize = 4;

    /// The fields of a format that has lines.
    pub(crate) const fn of(dtype: DType) -> Option<Self> {
        let [per_word, d_fields, d_inputs, sub, upper_bits] = match dtype {
            DType::Q4_0 => [8, 1, 32, 0, 0],
            DType::Q4_1 => [8, 2, 32, 0, 0],
            DType::Q8_0 => [4, 1, 32, 0, 0],
            DType::Q4_K => [8, 2, 256, 2, 0],
            DType::Q5_K => [8, 2, 256, 2, 1],
            DType::Q6_K => [8, 1, 256, 2, 2],
            DType::F16 | DType::BF16 => [2, 0, 1, 0, 0],
            DType::F32 => [1, 0, 1, 0, 0],
            _ => return None,
        };
        Some(Self { per_word, d_fields, d_inputs, sub, upper_bits })
    }

    /// Whether weights are codes with scales.
    pub(crate) const fn blocks(&self) -> bool {
        self.d_fields > 0
    }
}

impl Lines {
    /// The lines of a matrix; `None` if its format has none, or its rows are no whole blocks or
    /// vectors of four.
    pub(crate) fn new(dtype: DType, rows: usize, cols: usize) -> Option<Self> {
        let fields = Fields::of(dtype)?;
        let whole = cols > 0 && cols.is_multiple_of(fields.d_inputs.max(4));
        let line = if fields.blocks() { 16 } else { 32 };
        (whole && rows > 0).then_some(Self { dtype, rows, cols, line, nested: false })
    }

    /// The same of a matrix whose codes are nested; `None` unless it is Q8_0.
    pub(crate) fn nested(dtype: DType, rows: usize, cols: usize) -> Option<Self> {
        let lines = Self::new(dtype, rows, cols).filter(|_| dtype == DType::Q8_0)?;
        Some(Self { nested: true, ..lines })
    }

    /// Candidates of a choice: the inputs, and with nested codes their lower halves.
    pub(crate) fn candidates(&self) -> usize {
        if self.nested { 2 * self.cols } else { self.cols }
    }

    /// The fields of its format.
    pub(crate) fn fields(&self) -> Fields {
        const NONE: Fields =
            Fields { per_word: 1, d_fields: 0, d_inputs: 1, sub: 0, upper_bits: 0 };
        if self.nested {
            return Fields::NESTED;
        }
        Fields::of(self.dtype).unwrap_or(NONE)
    }

    /// Outputs of a slab.
    pub(crate) fn slab(&self) -> usize {
        self.line * self.fields().per_word
    }

    /// Slabs.
    pub(crate) fn slabs(&self) -> usize {
        self.rows.div_ceil(self.slab())
    }

    /// Bytes of one slab in the sections of lines, `d`, `sub` and `high`.
    fn slab_bytes(&self) -> [usize; 4] {
        let (fields, slab) = (self.fields(), self.slab());
        [
            self.cols * self.line * 4,
            self.cols / fields.d_inputs * fields.d_fields * slab * 2,
            self.cols / 32 * fields.sub * slab,
            self.cols * slab * fields.upper_bits / 8,
        ]
    }

    /// The sections of its buffer.
    pub(crate) fn sections(&self) -> Sections {
        let mut starts = [0; 5];
        for (i, bytes) in self.slab_bytes().into_iter().enumerate() {
            starts[i + 1] = (starts[i] + bytes * self.slabs()).next_multiple_of(ALIGNMENT);
        }
        let [_, d, sub, high, norms] = starts;
        Sections { d, sub, high, norms, end: norms + 4 * self.cols }
    }

    /// The content of its buffer, on `threads` threads: of a matrix whose rows lie one after the
    /// other.
    pub(crate) fn packed(&self, from: &[u8], threads: usize) -> Vec<u8> {
        let sections = self.sections();
        let mut all = vec![0; sections.end];
        let [lines, d, sub, high] = self.slab_bytes();
        let (head, norms) = all.split_at_mut(sections.norms);
        let (head, high_all) = head.split_at_mut(sections.high);
        let (head, sub_all) = head.split_at_mut(sections.sub);
        let (lines_all, d_all) = head.split_at_mut(sections.d);
        let row_bytes = from.len() / self.rows;
        let each = self.slabs().div_ceil(threads.max(1)).max(1);
        thread::scope(|scope| {
            let mut rest = [lines_all, d_all, sub_all, high_all];
            for first in (0..self.slabs()).step_by(each) {
                let slabs = first..self.slabs().min(first + each);
                let part = [0, 1, 2, 3].map(|i| {
                    let bytes = [lines, d, sub, high][i] * slabs.len();
                    let (mine, after) = std::mem::take(&mut rest[i]).split_at_mut(bytes);
                    rest[i] = after;
                    mine
                });
                scope.spawn(move || self.pack_slabs(from, row_bytes, slabs, part));
            }
        });
        // a thread sums all rows of some columns, in the order of rows
        let columns = self.cols.div_ceil(threads.max(1)).next_multiple_of(256);
        thread::scope(|scope| {
            for (i, norms) in norms.chunks_mut(4 * columns).enumerate() {
                let columns = i * columns..self.cols.min((i + 1) * columns);
                scope.spawn(move || {
                    let all = column_norms(self.dtype, from, row_bytes, columns);
                    norms.copy_from_slice(bytemuck::cast_slice(&all));
                });
            }
        });
        all
    }

    /// Packs some slabs into their parts of the sections of lines, `d`, `sub` and `high`.
    fn pack_slabs(
        &self,
        from: &[u8],
        row_bytes: usize,
        slabs: Range<usize>,
        sections: [&mut [u8]; 4],
    ) {
        let [mut lines, mut d, mut sub, mut high] = sections;
        let sizes = self.slab_bytes();
        for slab in slabs {
            let first = slab * self.slab();
            let mut part = [&mut lines, &mut d, &mut sub, &mut high].into_iter().zip(sizes).map(
                |(section, bytes)| {
                    let (mine, after) = std::mem::take(section).split_at_mut(bytes);
                    *section = after;
                    mine
                },
            );
            let mut next = || part.next().unwrap_or_default();
            let mut to = Slab { lines: next(), d: next(), sub: next(), high: next(), of: self };
            for output in 0..self.slab().min(self.rows - first) {
                to.pack(output, &from[(first + output) * row_bytes..][..row_bytes]);
            }
        }
    }
}

/// The sections of one slab.
struct Slab<'a> {
    of: &'a Lines,
    lines: &'a mut [u8],
    d: &'a mut [u8],
    sub: &'a mut [u8],
    high: &'a mut [u8],
}

impl Slab<'_> {
    /// Packs the row of an output.
    fn pack(&mut self, output: usize, row: &[u8]) {
        match self.of.dtype {
            DType::Q4_0 => each::<BlockQ4_0>(row, |i, block| {
                self.scale(i, 0, output, bytes_of(&block.d));
                self.codes(i * 32, output, &block.codes().map(|code| (code + 8) as u8));
            }),
            DType::Q4_1 => each::<BlockQ4_1>(row, |i, block| {
                self.scale(i, 0, output, bytes_of(&block.d));
                self.scale(i, 1, output, bytes_of(&block.m));
                self.codes(i * 32, output, &block.codes());
            }),
            DType::Q8_0 => each::<BlockQ8_0>(row, |i, block| {
                self.scale(i, 0, output, bytes_of(&block.d));
                self.codes(i * 32, output, &block.qs.map(|code| code as u8));
            }),
            DType::Q4_K => each::<BlockQ4K>(row, |i, block| {
                self.scale(i, 0, output, bytes_of(&block.d));
                self.scale(i, 1, output, bytes_of(&block.dmin));
                for part in 0..8 {
                    let (scale, min) = scale_min_k4(&block.scales, part);
                    self.sub(i * 8 + part, output, [scale, min]);
                }
                self.codes(i * 256, output, &block.codes());
            }),
            DType::Q5_K => each::<BlockQ5K>(row, |i, block| {
                self.scale(i, 0, output, bytes_of(&block.d));
                self.scale(i, 1, output, bytes_of(&block.dmin));
                for part in 0..8 {
                    let (scale, min) = scale_min_k4(&block.scales, part);
                    self.sub(i * 8 + part, output, [scale, min]);
                }
                self.codes(i * 256, output, &block.codes());
            }),
            DType::Q6_K => each::<BlockQ6K>(row, |i, block| {
                self.scale(i, 0, output, bytes_of(&block.d));
                for (part, scales) in block.scales.as_chunks::<2>().0.iter().enumerate() {
                    self.sub(i * 8 + part, output, scales.map(|scale| scale as u8));
                }
                self.codes(i * 256, output, &block.codes().map(|code| (code + 32) as u8));
            }),
            _ => {
                let size = row.len() / self.of.cols;
                for (input, element) in row.chunks_exact(size).enumerate() {
                    let at = input * self.of.line * 4 + output * size;
                    self.lines[at..at + size].copy_from_slice(element);
                }
            }
        }
    }

    fn scale(&mut self, block: usize, field: usize, output: usize, value: &[u8]) {
        let fields = self.of.fields().d_fields;
        let at = ((block * fields + field) * self.of.slab() + output) * 2;
        self.d[at..at + 2].copy_from_slice(value);
    }

    fn sub(&mut self, block: usize, output: usize, values: [u8; 2]) {
        for (field, value) in values.into_iter().enumerate() {
            self.sub[(block * 2 + field) * self.of.slab() + output] = value;
        }
    }

    /// Writes the codes of an output for the inputs from `first` on.
    fn codes(&mut self, first: usize, output: usize, codes: &[u8]) {
        let Fields { per_word, upper_bits: bits, .. } = self.of.fields();
        let line = self.of.line;
        let (word, place) = (output / per_word, output % per_word);
        for (input, &code) in (first..).zip(codes) {
            let byte = (place + input) % 4;
            let at = (input * line + word) * 4 + byte;
            if per_word == 4 {
                self.lines[at] = code;
                continue;
            }
            self.lines[at] |= (code & 15) << (place / 4 * 4);
            if bits == Fields::NESTED_BITS {
                self.high[at] |= (code >> 4) << (place / 4 * 4);
            } else if bits > 0 {
                let place = place / 4 * 4 + byte;
                let at = (input * line + word) * bits + place * bits / 8;
                self.high[at] |= (code >> 4) << (place * bits % 8);
            }
        }
    }
}

/// Calls `f` with the index of each block of a row and the block.
fn each<B: bytemuck::AnyBitPattern>(row: &[u8], mut f: impl FnMut(usize, &B)) {
    if let Ok(blocks) = bytemuck::try_cast_slice(row) {
        for (i, block) in blocks.iter().enumerate() {
            f(i, block);
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
