//! The right-hand sides of products: rows of activations, quantized to 8 bits or in f32.

use std::cell::UnsafeCell;
use std::ops::Range;

use bytemuck::Zeroable;
use pelton_graph::{Error, Phase};
use pelton_quant::DType;

use super::tile::{BLOCK, CHUNK};
use crate::isa::Isa;
use crate::simd::{Body, Simd, dispatch};

/// The form of the activations of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActivationKind {
    /// f32, for weights in F32, F16 and BF16.
    F32,
    /// 8 bits and a scale for every 32, for all block formats.
    I8,
}

impl ActivationKind {
    /// The form that is multiplied with weights of that type.
    pub const fn of(weights: DType) -> Self {
        if weights.block_len() == 1 { Self::F32 } else { Self::I8 }
    }

    /// Units from one row of a chunk to the next. In f32 one more than the chunk has, as lines of
    /// rows whose distance is a power of two would compete for a few sets of the cache.
    pub(super) const fn pitch(self) -> usize {
        match self {
            Self::F32 => CHUNK + 1,
            Self::I8 => CHUNK,
        }
    }
}

/// 32 quantized activations, in one cache line.
///
/// The sums turn offsets of the weights into one addition per block: Σ (q - z) x = Σ q x - z Σ x.
#[derive(Clone, Copy, Debug, Default, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Block {
    /// -127 to 127.
    pub(super) codes: [i8; BLOCK],
    /// An activation is `scale * code`.
    pub(super) scale: f32,
    /// Minus the sum of the codes, in two parts: of the even and of the odd pairs of neighbours.
    pub(super) minus_pairs: [i16; 2],
    /// Minus the sums of the first and the second 16 codes, in such parts.
    pub(super) minus_half_pairs: [[i16; 2]; 2],
    /// The sum of the codes times `scale`.
    pub(super) sum: f32,
    /// The sums of the first and the second 16 codes times `scale`.
    pub(super) half_sums: [f32; 2],
}

/// 32 activations in f32, in two cache lines.
#[derive(Clone, Copy, Debug, Default, Zeroable)]
#[repr(C, align(64))]
struct Floats([f32; BLOCK]);

/// A reusable buffer of rows of activations.
///
/// Units of 32 columns lie in chunks of 16: the buffer is `[chunks, rows, 16]` units. So the
/// activations that are multiplied with one chunk of the weights are one stretch of memory, in
/// which the distance of rows does not map them to the same few sets of a cache. Several threads
/// fill the buffer together ([`prepare`](Self::prepare)) and, after a barrier, all read it.
#[derive(Debug)]
pub struct Activations {
    floats: Box<[UnsafeCell<Floats>]>,
    blocks: Box<[UnsafeCell<Block>]>,
    kind: ActivationKind,
    phase: Phase,
    max_rows: usize,
    max_chunks: usize,
}

// SAFETY: plain data; the contracts of `prepare` and `matmul` keep writers and readers apart.
unsafe impl Sync for Activations {}

impl Activations {
    /// Allocates for `max_rows` rows of `max_cols` columns, or fewer of either.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub fn new(kind: ActivationKind, max_rows: usize, max_cols: usize) -> Result<Self, Error> {
        let max_chunks = max_cols.div_ceil(CHUNK * BLOCK);
        let needed = Self::bytes(kind, max_rows, max_cols);
        let units = max_rows.checked_mul(max_chunks * kind.pitch());
        let (floats, blocks) = match kind {
            ActivationKind::F32 => (units, Some(0)),
            ActivationKind::I8 => (Some(0), units),
        };
        let refused = || Error::Memory { what: "activations", needed, available: None };
        Ok(Self {
            floats: zeroed(floats).ok_or_else(refused)?,
            blocks: zeroed(blocks).ok_or_else(refused)?,
            kind,
            phase: Phase::Prompt,
            max_rows,
            max_chunks,
        })
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub fn bytes(kind: ActivationKind, max_rows: usize, max_cols: usize) -> u128 {
        let unit = match kind {
            ActivationKind::F32 => size_of::<Floats>(),
            ActivationKind::I8 => size_of::<Block>(),
        };
        let units = max_cols.div_ceil(CHUNK * BLOCK) * kind.pitch();
        (max_rows as u128).saturating_mul(units as u128).saturating_mul(unit as u128)
    }

    /// The form of its activations.
    pub fn kind(&self) -> ActivationKind {
        self.kind
    }

    /// The phase of its rows, at first [`Phase::Prompt`].
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Sets the phase of the rows that are prepared next. Products of F32, F16 and BF16 matrices
    /// sum in an order of the phase; all other products are the same in both.
    pub fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// The number of units into which preparing `rows` rows of `cols` columns can be split.
    pub const fn units(rows: usize, cols: usize) -> usize {
        rows * cols.div_ceil(BLOCK)
    }

    /// Prepares the units `units` of the rows `x` `[rows, cols]`.
    ///
    /// 8-bit codes are the activations times 127 / (the largest magnitude in the block), rounded
    /// to the nearest, ties to even. A block without magnitudes above 1e-35 counts as zeros; one
    /// with an infinity or a NaN turns all outputs of its row into NaN.
    ///
    /// # Safety
    /// No other thread prepares any of these units or reads (in a product) from this buffer at
    /// the same time.
    ///
    /// # Panics
    /// If `x` is not a whole number of rows, `units` reaches beyond its last row, or this buffer
    /// has no room for the rows. Also if the kind is [`I8`](ActivationKind::I8) and `cols` no
    /// multiple of 32.
    pub unsafe fn prepare(&self, x: &[f32], cols: usize, units: Range<usize>) {
        let per_row = cols.div_ceil(BLOCK);
        assert!(cols > 0 && x.len().is_multiple_of(cols), "activations are not whole rows");
        assert!(units.end <= x.len() / cols * per_row, "units beyond the last row");
        assert!(self.has_room(x.len() / cols, cols), "more than the activations have room for");
        let mut unit = units.start;
        while unit < units.end {
            let (row, first) = (unit / per_row, unit % per_row);
            let count = (CHUNK - first % CHUNK).min(per_row - first).min(units.end - unit);
            let from = &x[row * cols..][..cols][first * BLOCK..];
            let place = self.place(row, first);
            match self.kind {
                ActivationKind::F32 => {
                    let to = &self.floats[place..][..count];
                    let (whole, rest) = from.as_chunks();
                    for (cell, from) in to.iter().zip(whole) {
                        // SAFETY: this thread alone accesses the unit, by contract.
                        unsafe { *cell.get() = Floats(*from) };
                    }
                    if let Some(cell) = to.get(whole.len()) {
                        let mut last = [0.0; BLOCK];
                        last[..rest.len()].copy_from_slice(rest);
                        // SAFETY: as above.
                        unsafe { *cell.get() = Floats(last) };
                    }
                }
                ActivationKind::I8 => {
                    assert!(cols.is_multiple_of(BLOCK), "columns are not whole blocks of 32");
                    let to = &self.blocks[place..][..count];
                    // the contract of this function is that of `Quantize`
                    dispatch(
                        Isa::chosen().unwrap_or(Isa::PORTABLE),
                        Quantize { from: from.as_chunks().0, to },
                    );
                }
            }
            unit += count;
        }
    }

    /// Whether there is room for `rows` rows of `cols` columns.
    pub(super) fn has_room(&self, rows: usize, cols: usize) -> bool {
        rows <= self.max_rows && cols.div_ceil(CHUNK * BLOCK) <= self.max_chunks
    }

    /// Units from one chunk of a row to the next.
    pub(super) fn chunk_stride(&self) -> usize {
        self.max_rows * self.kind.pitch()
    }

    /// The index of unit `unit` of row `row`.
    pub(super) fn place(&self, row: usize, unit: usize) -> usize {
        unit / CHUNK * self.chunk_stride() + row * self.kind.pitch() + unit % CHUNK
    }

    /// The blocks, if it keeps blocks.
    pub(super) fn blocks(&self) -> *const Block {
        UnsafeCell::raw_get(self.blocks.as_ptr())
    }

    /// The f32 values, if it keeps f32.
    pub(super) fn floats(&self) -> *const f32 {
        UnsafeCell::raw_get(self.floats.as_ptr()).cast()
    }
}

/// A slice of `len` zeroed units; `None` if the system refuses the memory.
fn zeroed<T: Zeroable>(len: Option<usize>) -> Option<Box<[UnsafeCell<T>]>> {
    Some(bytemuck::allocation::try_zeroed_vec(len?).ok()?.into_boxed_slice())
}

/// The kernel that quantizes blocks.
struct Quantize<'a> {
    from: &'a [[f32; BLOCK]],
    /// No other thread accesses them.
    to: &'a [UnsafeCell<Block>],
}

impl Body for Quantize<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (from, to) in self.from.iter().zip(self.to) {
            // SAFETY: no other thread accesses it, by contract.
            unsafe { *to.get() = quantize_block(from) };
        }
    }
}

/// Quantizes one block, in operations that the compiler vectorizes.
#[inline(always)]
fn quantize_block(x: &[f32; BLOCK]) -> Block {
    // The order of magnitudes is that of their bits, with infinity and NaN on top. Integers,
    // as a maximum of floats would have to look out for NaN at every step.
    let largest = x.iter().fold(0, |max, v| max.max(v.to_bits() & 0x7fff_ffff));
    let largest = f32::from_bits(largest);
    if largest < 1e-35 {
        return Block::default();
    }
    if !largest.is_finite() {
        let nan = f32::NAN;
        return Block { scale: nan, sum: nan, half_sums: [nan; 2], ..Block::default() };
    }
    let inverse = 127.0 / largest;
    // The addition of 1.5 * 2^23 rounds a small value to an integer, which is then in the low bits
    // of the mantissa.
    const ROUND: f32 = 12_582_912.0;
    let mut codes = [0_i32; BLOCK];
    for (code, value) in codes.iter_mut().zip(x) {
        *code = (value * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    }
    let (first, second) = codes.split_at(BLOCK / 2);
    let pairs = [pair_sums(first), pair_sums(second)];
    let sums = pairs.map(|[even, odd]| even + odd);
    let sum = sums[0] + sums[1];
    let minus = |sum: i32| -sum as i16; // at most 32 times 127
    let scale = largest / 127.0;
    let mut block = Block {
        codes: [0; BLOCK],
        scale,
        minus_pairs: [0, 1].map(|i| minus(pairs[0][i] + pairs[1][i])),
        minus_half_pairs: pairs.map(|pair| pair.map(minus)),
        sum: scale * sum as f32,
        half_sums: [scale * sums[0] as f32, scale * sums[1] as f32],
    };
    for (to, code) in block.codes.iter_mut().zip(codes) {
        *to = code as i8;
    }
    block
}

/// The sums of the even and of the odd pairs of neighbouring codes.
#[inline(always)]
fn pair_sums(codes: &[i32]) -> [i32; 2] {
    let mut sums = [0; 4];
    for codes in codes.as_chunks::<4>().0 {
        for (sum, code) in sums.iter_mut().zip(codes) {
            *sum += code;
        }
    }
    [sums[0] + sums[1], sums[2] + sums[3]]
}
