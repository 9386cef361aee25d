//! The places of lines, scales and minima of a matrix in input-major order.
//!
//! A matrix is cut into *slabs* of up to 2048 outputs, or 1024 of floats, as many as make the
//! outputs of a thread. The last is padded to a multiple of 128. A slab of a block format is
//! `[super-blocks]`. Each has the fields of the super-blocks of all outputs. Then come, for each
//! block of 32 inputs, its fields, 32 lines, and 32 lines of upper bits if the codes have more than
//! four. A slab of floats is `[inputs]` lines.
//!
//! Nested codes of eight bits have two lines of four bits an input: one of upper halves, plus 8, and in
//! the place of the upper bits one of lower halves.
//!
//! A line of codes is made of 64 bytes for each 128 outputs (four bits) or 64 outputs (eight bits).
//! Byte `16 l + 4 k + i` of them holds outputs `16 k + 4 l + i` and, in its upper half, that plus
//! 64: four lines interleaved byte by byte in vectors of any width then are the lanes of
//! neighbouring outputs.

use memmap2::MmapMut;
use pelton_quant::DType;

/// The most outputs of a slab: lines of one or two kilobytes, which CPUs read about as fast as a stream.
pub(super) const SLAB: usize = 2048;
/// Outputs to whose multiples slabs are padded, and a partition between threads is best aligned.
pub const OUTPUT_ALIGN: usize = 128;

/// The fields of a format, in bytes for each output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    /// Inputs of a super-block.
    pub(super) inputs: usize,
    /// Fields of a super-block.
    pub(super) super_head: usize,
    /// Fields of a block of 32.
    pub(super) block_head: usize,
    /// Bits of a line's codes, and of its upper bits; of nested codes 4 and 4, the lower ones.
    pub(super) line_bits: usize,
    pub(super) upper_bits: usize,
}

impl Fields {
    /// The fields of a type that has lines.
    pub(super) const fn of(dtype: DType) -> Option<Self> {
        let [inputs, super_head, block_head, line_bits, upper_bits] = match dtype {
            DType::Q4_0 => [32, 0, 2, 4, 0],
            DType::Q4_1 => [32, 0, 4, 4, 0],
            DType::Q8_0 => [32, 0, 2, 8, 0],
            DType::Q4_K => [256, 4, 2, 4, 0],
            DType::Q5_K => [256, 4, 2, 4, 1],
            DType::Q6_K => [256, 2, 2, 4, 2],
            DType::F16 | DType::BF16 => [1, 0, 0, 16, 0],
            DType::F32 => [1, 0, 0, 32, 0],
            _ => return None,
        };
        Some(Self { inputs, super_head, block_head, line_bits, upper_bits })
    }

    /// The fields of nested codes.
    pub(super) const NESTED: Self =
        Self { inputs: 32, super_head: 0, block_head: 2, line_bits: 4, upper_bits: 4 };

    /// Outputs of a slab of a matrix of `rows` rows whose outputs `threads` threads divide among them, so that a
    /// thread reads whole lines: a multiple of [`OUTPUT_ALIGN`].
    pub(super) fn slab(&self, rows: usize, threads: usize) -> usize {
        // lines of floats that many kilobytes apart share the sets of caches
        let most = if self.inputs == 1 { SLAB / 2 } else { SLAB };
        let of_thread = rows.div_ceil(threads.max(1));
        of_thread.div_ceil(of_thread.div_ceil(most).max(1)).next_multiple_of(OUTPUT_ALIGN)
    }

    /// Bytes of a line of `outputs` outputs.
    pub(super) const fn line(&self, outputs: usize) -> usize {
        outputs * self.line_bits / 8
    }

    /// Bytes of a line of upper bits.
    pub(super) const fn upper(&self, outputs: usize) -> usize {
        outputs * self.upper_bits / 8
    }

    /// Bytes of a block of 32 inputs with its fields.
    pub(super) const fn block(&self, outputs: usize) -> usize {
        self.block_head * outputs + 32 * (self.line(outputs) + self.upper(outputs))
    }

    /// Bytes of a super-block; of floats those of one input.
    pub(super) const fn super_block(&self, outputs: usize) -> usize {
        match self.inputs {
            1 => self.line(outputs),
            inputs => self.super_head * outputs + inputs / 32 * self.block(outputs),
        }
    }
}

/// Whether matrices of a type can be kept in input-major order.
pub fn has_lines(dtype: DType) -> bool {
    Fields::of(dtype).is_some()
}

/// A matrix `[rows, cols]` in input-major order, and the norms of its columns.
#[derive(Debug)]
pub struct InputMajor {
    pub(super) dtype: DType,
    pub(super) fields: Fields,
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// Outputs of a slab, but for the last.
    pub(super) slab: usize,
    pub(super) bytes: MmapMut,
    /// The Euclidean norm of each column.
    pub(super) norms: Vec<f32>,
}

/// The first output of a slab, its outputs, and its first byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slab {
    pub(super) first: usize,
    /// A multiple of [`OUTPUT_ALIGN`].
    pub(super) outputs: usize,
    pub(super) start: usize,
}

impl InputMajor {
    /// The stored type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Rows: the number of outputs of the product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns: the number of inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Whether the halves of codes lie apart.
    pub fn is_nested(&self) -> bool {
        self.fields == Fields::NESTED
    }

    /// The Euclidean norm of each column `[cols]`.
    pub fn norms(&self) -> &[f32] {
        &self.norms
    }

    /// Bytes of a matrix; `None` if its type has no lines or its rows are no whole blocks.
    pub fn bytes_of(dtype: DType, rows: usize, cols: usize) -> Option<usize> {
        let fields = Fields::of(dtype)?;
        if rows == 0 || cols == 0 || !cols.is_multiple_of(fields.inputs) {
            return None;
        }
        let outputs = rows.checked_next_multiple_of(OUTPUT_ALIGN)?;
        // every part is a whole number of bytes for each eight outputs
        fields.super_block(8).checked_mul(cols / fields.inputs)?.checked_mul(outputs / 8)
    }

    /// Slab `index`.
    pub(super) fn slab(&self, index: usize) -> Slab {
        let first = index * self.slab;
        let outputs = (self.rows - first).min(self.slab).next_multiple_of(OUTPUT_ALIGN);
        let blocks = self.cols / self.fields.inputs;
        Slab { first, outputs, start: index * blocks * self.fields.super_block(self.slab) }
    }
}

/// The byte of a run of 64 outputs that holds output `output` of them.
pub(super) const fn byte_of(output: usize) -> usize {
    output / 4 % 4 * 16 + output / 16 * 4 + output % 4
}
