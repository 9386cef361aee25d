//! Rows packed in panels of as many rows as vectors have lanes: eight with AVX2,
//! sixteen with AVX-512.
//!
//! A panel holds its `N` rows block by block, and has as many bytes as they. A field at offset `n`
//! of a packed block begins at `N n` of the panel's block.
//!
//! Blocks of 32 are interleaved in units of four bytes, so that a vector is one load instead of one
//! for each row and a transposition. The scale, which makes the bytes of a block no multiple of
//! four, is interleaved in units of two. The fields of the super-blocks Q2_K to Q6_K are also
//! packed anew (`formats/packed_k.rs`), so that codes of three, five and six bits take few
//! operations to unpack.

use std::mem::offset_of;

use bytemuck::from_bytes;
use pelton_quant::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K, DType, scale_min_k4};

use crate::isa::{InstructionSet, Isa};

/// The rows of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panels {
    /// Eight rows: AVX2 and AVX-VNNI.
    Eight,
    /// Sixteen rows: AVX-512, with and without VNNI.
    Sixteen,
}

impl Panels {
    /// The panels that an instruction set multiplies, if it has kernels for packed rows.
    pub fn of(isa: Isa) -> Option<Self> {
        match isa.set() {
            InstructionSet::Avx2 | InstructionSet::AvxVnni => Some(Self::Eight),
            InstructionSet::Avx512 | InstructionSet::Avx512Vnni => Some(Self::Sixteen),
            _ => None,
        }
    }

    /// Rows of a panel.
    pub const fn rows(self) -> usize {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }
}

/// Whether there are kernels for packed rows of a type, and `rows` are whole panels.
pub fn can_pack(dtype: DType, rows: usize, panels: Panels) -> bool {
    let has_kernels = matches!(
        dtype,
        DType::Q4_0
            | DType::Q4_1
            | DType::Q5_0
            | DType::Q5_1
            | DType::Q8_0
            | DType::IQ4_NL
            | DType::Q2_K
            | DType::Q3_K
            | DType::Q4_K
            | DType::Q5_K
            | DType::Q6_K
    );
    has_kernels && rows.is_multiple_of(panels.rows())
}

/// Packs the rows of a panel.
///
/// # Panics
/// If `rows` and `panel` have different lengths, or are not as many rows of blocks.
pub fn pack(dtype: DType, rows: &[u8], panel: &mut [u8], panels: Panels) {
    match panels {
        Panels::Eight => pack_panel::<8>(dtype, rows, panel),
        Panels::Sixteen => pack_panel::<16>(dtype, rows, panel),
    }
}

/// Packs `N` rows of blocks.
fn pack_panel<const N: usize>(dtype: DType, rows: &[u8], panel: &mut [u8]) {
    let block = dtype.block_bytes();
    assert_eq!(rows.len(), panel.len(), "a panel has as many bytes as its rows");
    assert!(rows.len().is_multiple_of(N * block), "a panel has {N} rows of blocks");
    let stride = rows.len() / N;
    for (i, to) in panel.chunks_exact_mut(N * block).enumerate() {
        let rows = |row: usize| &rows[row * stride + i * block..][..block];
        match dtype {
            DType::Q2_K => each_row::<2, N>(rows, to, q2_k),
            DType::Q3_K => each_row::<3, N>(rows, to, q3_k),
            DType::Q4_K => each_row::<4, N>(rows, to, q4_k),
            DType::Q5_K => each_row::<5, N>(rows, to, q5_k),
            DType::Q6_K => each_row::<6, N>(rows, to, q6_k),
            _ => interleave::<N>(rows, to),
        }
    }
}

/// Interleaves the bytes of `N` blocks of 32, whose scale comes first.
fn interleave<'a, const N: usize>(rows: impl Fn(usize) -> &'a [u8], to: &mut [u8]) {
    let half = to.len() / N % 4;
    let rows: [&[u8]; N] = std::array::from_fn(rows);
    let (scales, words) = to.split_at_mut(half * N);
    for (to, row) in scales.chunks_exact_mut(half.max(1)).zip(rows) {
        to.copy_from_slice(&row[..half]);
    }
    for (i, to) in words.chunks_exact_mut(4 * N).enumerate() {
        for (to, row) in to.as_chunks_mut::<4>().0.iter_mut().zip(rows) {
            to.copy_from_slice(&row[half + 4 * i..][..4]);
        }
    }
}

/// The fields of a super-block in one row, apart.
struct Parts<'a> {
    /// The scale, and that of the minima if there are any.
    f16: [[u8; 2]; 2],
    has_min: bool,
    /// The scales of the parts, and their minima; with `six_bits` in six bits each.
    fields: [u8; 16],
    six_bits: bool,
    /// The two or four low bits of the codes, and the bits above them.
    low: &'a [u8],
    high: &'a [u8],
}

fn two_bytes(block: &[u8], at: usize) -> [u8; 2] {
    [block[at], block[at + 1]]
}

fn q2_k(block: &[u8]) -> Parts<'_> {
    let f16 = [offset_of!(BlockQ2K, d), offset_of!(BlockQ2K, dmin)].map(|at| two_bytes(block, at));
    let block: &BlockQ2K = from_bytes(block);
    Parts { f16, has_min: true, fields: block.scales, six_bits: false, low: &block.qs, high: &[] }
}

fn q3_k(block: &[u8]) -> Parts<'_> {
    let f16 = [two_bytes(block, offset_of!(BlockQ3K, d)); 2];
    let block: &BlockQ3K = from_bytes(block);
    let fields = block.scales().map(|scale| (scale + 32) as u8);
    Parts { f16, has_min: false, fields, six_bits: true, low: &block.qs, high: &block.hmask }
}

/// The scales and minima of eight blocks of 32.
fn scales_and_minima(packed: &[u8; 12]) -> [u8; 16] {
    let mut fields = [0; 16];
    for i in 0..8 {
        (fields[i], fields[8 + i]) = scale_min_k4(packed, i);
    }
    fields
}

fn q4_k(block: &[u8]) -> Parts<'_> {
    let f16 = [offset_of!(BlockQ4K, d), offset_of!(BlockQ4K, dmin)].map(|at| two_bytes(block, at));
    let block: &BlockQ4K = from_bytes(block);
    let fields = scales_and_minima(&block.scales);
    Parts { f16, has_min: true, fields, six_bits: true, low: &block.qs, high: &[] }
}

fn q5_k(block: &[u8]) -> Parts<'_> {
    let f16 = [offset_of!(BlockQ5K, d), offset_of!(BlockQ5K, dmin)].map(|at| two_bytes(block, at));
    let block: &BlockQ5K = from_bytes(block);
    let fields = scales_and_minima(&block.scales);
    Parts { f16, has_min: true, fields, six_bits: true, low: &block.qs, high: &block.qh }
}

fn q6_k(block: &[u8]) -> Parts<'_> {
    let f16 = [two_bytes(block, offset_of!(BlockQ6K, d)); 2];
    let block: &BlockQ6K = from_bytes(block);
    let fields = block.scales.map(|scale| scale as u8);
    Parts { f16, has_min: false, fields, six_bits: false, low: &block.ql, high: &block.qh }
}

/// `bits` bits of the codes of run `run` of 32, four codes a word: a group of 32 bytes holds
/// `8 / bits` runs, the first one in the lowest bits.
#[inline(always)]
fn run_words(packed: &[u8], bits: usize, run: usize) -> [u32; 8] {
    let runs = 8 / bits;
    let group = packed[32 * (run / runs)..][..32].as_chunks::<4>().0;
    let (shift, mask) = (bits * (run % runs), ((1 << bits) - 1) * 0x0101_0101);
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(group) {
        *word = u32::from_le_bytes(*bytes) >> shift & mask;
    }
    words
}

/// The codes of tile `tile`, unsigned, four a word.
#[inline(always)]
fn tile_codes<const BITS: usize>(low: &[u8], high: &[u8], tile: usize) -> [u32; 8] {
    let low_bits = if BITS < 4 { 2 } else { 4 };
    // Q6_K has its low bits in runs 0 and 2, 1 and 3
    let run = if BITS == 6 { [0, 2, 1, 3, 4, 6, 5, 7][tile] } else { tile };
    let mut codes = run_words(low, low_bits, run);
    if BITS > low_bits {
        for (code, high) in codes.iter_mut().zip(run_words(high, BITS - low_bits, tile)) {
            *code |= high << low_bits;
        }
    }
    codes
}

/// Packs `N` super-blocks with codes of `BITS` bits.
#[inline(always)]
fn each_row<'a, const BITS: usize, const N: usize>(
    rows: impl Fn(usize) -> &'a [u8],
    to: &mut [u8],
    parts: impl Fn(&'a [u8]) -> Parts<'a>,
) {
    for row in 0..N {
        let Parts { f16, has_min, mut fields, six_bits, low, high } = parts(rows(row));
        let halves = if has_min { 2 } else { 1 };
        let (scales, rest) = to.split_at_mut(2 * N * halves);
        for (i, half) in f16[..halves].iter().enumerate() {
            scales[2 * (i * N + row)..][..2].copy_from_slice(half);
        }
        let count = if six_bits { 12 } else { 16 };
        if six_bits {
            for j in 0..4 {
                let last = fields[12 + j];
                for (third, bits) in [last, last >> 2, last >> 4].into_iter().enumerate() {
                    fields[4 * third + j] |= bits << 6;
                }
            }
        }
        let (to_fields, tiles) = rest.split_at_mut(N * count);
        for (to, field) in to_fields.iter_mut().skip(row).step_by(N).zip(fields) {
            *to = field;
        }
        let tiles = tiles.as_chunks_mut::<4>().0.chunks_exact_mut(BITS * N);
        for (tile, to) in tiles.enumerate() {
            let words = tile_words::<BITS>(tile_codes::<BITS>(low, high, tile));
            for (to, word) in to.iter_mut().skip(row).step_by(N).zip(words) {
                *to = word.to_le_bytes();
            }
        }
    }
}

/// The `BITS` vectors of a tile in one row, from its codes, four a word.
#[inline(always)]
fn tile_words<const BITS: usize>(c: [u32; 8]) -> [u32; BITS] {
    // bits `first` to `first + width` of each byte, at bit `to`
    let bits = |word: u32, first: u32, width: u32, to: u32| {
        (word >> first & (((1 << width) - 1) * 0x0101_0101)) << to
    };
    let mut words = [0; BITS];
    match BITS {
        2 => {
            for (i, c) in c.iter().enumerate() {
                words[i / 4] |= c << (2 * (i % 4));
            }
        }
        3 => {
            for (i, c) in c[..6].iter().enumerate() {
                words[i / 2] |= c << (3 * (i % 2));
            }
            for i in 0..2 {
                words[i] |= bits(c[6 + i], 0, 2, 6);
                words[2] |= bits(c[6 + i], 2, 1, 6 + i as u32);
            }
        }
        4 => {
            for (i, c) in c.iter().enumerate() {
                words[i % 4] |= c << (4 * (i / 4));
            }
        }
        5 => {
            words.copy_from_slice(&c[..5]);
            for (i, c) in c[5..].iter().enumerate() {
                words[2 * i] |= bits(*c, 0, 3, 5);
            }
            words[1] |= bits(c[5], 3, 2, 5) | bits(c[7], 3, 1, 7);
            words[3] |= bits(c[6], 3, 2, 5) | bits(c[7], 4, 1, 7);
        }
        _ => {
            words.copy_from_slice(&c[..6]);
            for (i, word) in words.iter_mut().enumerate() {
                *word |= bits(c[6 + i / 3], 2 * (i as u32 % 3), 2, 6);
            }
        }
    }
    words
}
