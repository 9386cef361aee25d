//! Blocks of four-bit floats (E2M1): MXFP4 and NVFP4.

use std::mem::offset_of;

use pelton_quant::{BlockMxfp4, BlockNvfp4, DType, FP4_LEVELS};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::{byte, nibbles};

/// The levels moved up by 16, as products of unsigned codes take fewer instructions without VNNI.
const CODES: [i8; 16] = {
    let mut codes = FP4_LEVELS;
    let mut i = 0;
    while i < codes.len() {
        codes[i] += 16;
        i += 1;
    }
    codes
};

/// The codes of the levels that the bytes (0 to 15) name.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn codes<S: Vectors>(mut indices: [S::I; 8]) -> [S::I; 8] {
    for index in &mut indices {
        // SAFETY: the caller's promise.
        *index = unsafe { S::lookup(&CODES, *index) };
    }
    indices
}

/// 2^(e - 128) of exponents 0 to 255.
///
/// It is subnormal for the smallest two, and so the product of two powers whose exponents, half of
/// it each, are normal.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn power<S: Vectors>(e: S::I) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        let (bias, one) = (S::splat_i(127 - 64), S::splat_i(1));
        let lower = S::shl(S::add_i(S::shr(e, 1), bias), 23);
        let upper = S::shl(S::add_i(S::shr(S::add_i(e, one), 1), bias), 23);
        S::mul(S::f32_of_bits(lower), S::f32_of_bits(upper))
    }
}

/// See [`BlockMxfp4`].
pub(in super::super) struct Mxfp4;

impl Format for Mxfp4 {
    const DTYPE: DType = DType::MXFP4;
    type Coding = codings::U5Minus16;
    const DIRECT: bool = true;
    const GROUP: usize = 1;
    type Header<S: Vectors> = ();

    #[inline(always)]
    unsafe fn header<S: Vectors>(_: Rows) {}

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(block: Rows, (): &(), _: usize, to: *mut Tile<S>) {
        const { assert!(offset_of!(BlockMxfp4, e) == 0) };
        // SAFETY: the fields lie inside of the block, and there is room for a tile.
        unsafe {
            let qs = block.at(offset_of!(BlockMxfp4, qs));
            (*to).codes = codes::<S>(nibbles::<S>(qs));
            (*to).scale[0] = power::<S>(S::and(S::load4(block), S::splat_i(0xff)));
        }
    }
}

/// See [`BlockNvfp4`].
pub(in super::super) struct Nvfp4;

impl Format for Nvfp4 {
    const DTYPE: DType = DType::NVFP4;
    type Coding = codings::U5Minus16Halves;
    const DIRECT: bool = false;
    const GROUP: usize = 2;
    /// A scale for every 16 columns, a byte each.
    type Header<S: Vectors> = S::I;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> S::I {
        const { assert!(offset_of!(BlockNvfp4, d) == 0) };
        // SAFETY: the caller's promise.
        unsafe { S::load4(block) }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(block: Rows, scales: &S::I, _: usize, to: *mut Tile<S>) {
        // SAFETY: the fields lie inside of the block, and there is room for two tiles.
        unsafe {
            for tile in 0..2 {
                let to = to.add(tile);
                let qs = block.at(offset_of!(BlockNvfp4, qs) + 16 * tile);
                let [a, b, e, f, c, d, g, h] = nibbles::<S>(qs);
                (*to).codes = codes::<S>([a, b, c, d, e, f, g, h]);
                for half in 0..2 {
                    (*to).scale[half] = half_of_e4m3::<S>(byte::<S>(*scales, 2 * tile + half));
                }
            }
        }
    }
}

/// Half of the values of unsigned E4M3 floats, of which 0x7f is 0.
///
/// # Safety
/// The lanes are bytes, and the instructions of `S` exist.
#[inline(always)]
unsafe fn half_of_e4m3<S: Vectors>(bytes: S::I) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        // Minus one has the sign bit where the byte is 0x7f.
        let nan = S::sar(S::add_i(S::xor(bytes, S::splat_i(0x7f)), S::splat_i(-1)), 31);
        let bits = S::and(S::shl(bytes, 7), S::splat_i(0x7f << 7));
        let bits = S::and(bits, S::xor(nan, S::splat_i(-1)));
        // The exponents of f16 have a bias that is greater by 8.
        S::mul(S::f16_to_f32(bits), S::splat(128.0))
    }
}
