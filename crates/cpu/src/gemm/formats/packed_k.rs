//! Super-blocks of 256 in packed rows (`pack`): Q2_K to Q6_K.
//!
//! A block of eight rows holds the f16 scale of each row, the f16 scales of any minima, the scales
//! (and minima) of its parts, and its tiles of 32 columns. The tiles lie one after the other, so
//! that one is unpacked into registers without its neighbours. Field k of the parts is byte k of
//! every row. The low six bits of twelve such bytes are fields 0 to 11, and the upper two bits of
//! bytes j, 4 + j and 8 + j are field 12 + j.
//!
//! The codes of a tile are vectors of four columns of each row. Codes of three, five and six bits
//! fill as many vectors. Each vector holds a whole code (three bits: two) in its low bits. Above it
//! lie bits of the codes that have no vector of their own.

use pelton_quant::DType;

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::bits;

/// The two scales of a super-block's f16 fields.
#[derive(Clone, Copy)]
pub(in super::super) struct Scales<S: Vectors, const BYTES: usize> {
    d: S::F,
    minus_dmin: S::F,
    /// The fields of the parts `[fields, rows]`, a byte each.
    fields: [S::I; BYTES],
}

/// The bits of `a` from `first` on, `width` of them, at bit `to` of their bytes.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn placed<S: Vectors>(a: S::I, first: u32, width: u32, to: u32) -> S::I {
    // SAFETY: the caller's promise.
    unsafe {
        let mask = S::splat_i((((1 << width) - 1) << to) * 0x0101_0101);
        S::and(if first == to { a } else { S::shr(a, first - to) }, mask)
    }
}

/// Sixteen fields of six bits from the twelve bytes of each row at `from`.
///
/// # Safety
/// They are readable, and the instructions of `S` exist.
#[inline(always)]
unsafe fn six_bits<S: Vectors>(from: Rows) -> [S::I; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b, c) = (S::load4(from), S::load4(from.at(4)), S::load4(from.at(8)));
        let last = S::or(bits::<S>(a, 6, 2), placed::<S>(b, 6, 2, 2));
        let last = S::or(last, placed::<S>(c, 6, 2, 4));
        [bits::<S>(a, 0, 6), bits::<S>(b, 0, 6), bits::<S>(c, 0, 6), last]
    }
}

/// The low and then the high halves of the sixteen bytes of each row at `from`.
///
/// # Safety
/// They are readable, and the instructions of `S` exist.
#[inline(always)]
unsafe fn low_and_high<S: Vectors>(from: Rows) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b, c, d] = vectors::<S, 4>(from);
        let mut fields = [a, b, c, d, a, b, c, d];
        for (i, fields) in fields.iter_mut().enumerate() {
            *fields = bits::<S>(*fields, 4 * (i as u32 / 4), 4);
        }
        fields
    }
}

/// `N` vectors of the bytes of packed rows.
///
/// # Safety
/// They are readable, and the instructions of `S` exist.
#[inline(always)]
unsafe fn vectors<S: Vectors, const N: usize>(from: Rows) -> [S::I; N] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut vectors = [S::splat_i(0); N];
        for (i, vector) in vectors.iter_mut().enumerate() {
            *vector = S::load4(from.at(4 * i));
        }
        vectors
    }
}

/// The codes of the tile at `from`, of `8 BITS` bits.
///
/// # Safety
/// The tile is readable, and the instructions of `S` exist.
#[inline(always)]
unsafe fn codes<S: Vectors, const BITS: usize>(from: Rows) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        match BITS {
            2 => {
                let [a, b] = vectors::<S, 2>(from);
                let mut codes = [a, a, a, a, b, b, b, b];
                for (i, codes) in codes.iter_mut().enumerate() {
                    *codes = bits::<S>(*codes, 2 * (i as u32 % 4), 2);
                }
                codes
            }
            3 => {
                let [a, b, c] = vectors::<S, 3>(from);
                let low = [a, a, b, b, c, c];
                let mut codes = [a; 8];
                for (i, (codes, low)) in codes.iter_mut().zip(low).enumerate() {
                    *codes = bits::<S>(low, 3 * (i as u32 % 2), 3);
                }
                codes[6] = S::or(bits::<S>(a, 6, 2), placed::<S>(c, 6, 1, 2));
                codes[7] = S::or(bits::<S>(b, 6, 2), placed::<S>(c, 7, 1, 2));
                codes
            }
            4 => {
                let [a, b, c, d] = vectors::<S, 4>(from);
                let mut codes = [a, b, c, d, a, b, c, d];
                for (i, codes) in codes.iter_mut().enumerate() {
                    *codes = bits::<S>(*codes, 4 * (i as u32 / 4), 4);
                }
                codes
            }
            5 => {
                let [a, b, c, d, e] = vectors::<S, 5>(from);
                let mut codes = [a, b, c, d, e, a, c, e];
                for (i, codes) in codes.iter_mut().enumerate() {
                    *codes =
                        bits::<S>(*codes, if i < 5 { 0 } else { 5 }, if i < 5 { 5 } else { 3 });
                }
                codes[5] = S::or(codes[5], placed::<S>(b, 5, 2, 3));
                codes[6] = S::or(codes[6], placed::<S>(d, 5, 2, 3));
                let upper = S::or(placed::<S>(b, 7, 1, 3), placed::<S>(d, 7, 1, 4));
                codes[7] = S::or(codes[7], upper);
                codes
            }
            _ => {
                let [a, b, c, d, e, f] = vectors::<S, 6>(from);
                let mut codes = [a, b, c, d, e, f, a, d];
                for (i, codes) in codes.iter_mut().enumerate() {
                    *codes =
                        bits::<S>(*codes, if i < 6 { 0 } else { 6 }, if i < 6 { 6 } else { 2 });
                }
                let upper = S::or(placed::<S>(b, 6, 2, 2), placed::<S>(c, 6, 2, 4));
                codes[6] = S::or(codes[6], upper);
                let upper = S::or(placed::<S>(e, 6, 2, 2), placed::<S>(f, 6, 2, 4));
                codes[7] = S::or(codes[7], upper);
                codes
            }
        }
    }
}

impl<S: Vectors, const N: usize> Scales<S, N> {
    /// Field `index` of the parts: the address of a byte for each lane.
    ///
    /// # Safety
    /// There are as many.
    #[inline(always)]
    unsafe fn at(&self, index: usize) -> *const u8 {
        // SAFETY: the caller's promise.
        unsafe { (&raw const self.fields).cast::<u8>().add(index * S::LANES) }
    }

    /// Unsigned field `index` of the parts of every row.
    ///
    /// # Safety
    /// There are as many, and the instructions of `S` exist.
    #[inline(always)]
    unsafe fn field(&self, index: usize) -> S::I {
        // SAFETY: the caller's promise.
        unsafe { S::load_u8(self.at(index)) }
    }
}

/// Implements `Format` for packed rows of a type.
///
/// `$fields` gives the fields of the parts, `$vectors` of them, from their `$bytes` bytes a row,
/// and `$tile` writes scales and minima of the tile with that index.
macro_rules! packed_format {
    ($name:ident, $dtype:ident, $coding:ident, bits: $bits:literal, min: $min:literal,
     fields: $bytes:literal, $vectors:literal, |$at:ident| $fields:expr,
     |$header:ident, $index:ident, $to:ident| $tile:expr) => {
        #[doc = concat!(stringify!($dtype), " in packed rows.")]
        pub(in super::super) struct $name;

        impl Format for $name {
            const DTYPE: DType = DType::$dtype;
            type Coding = codings::$coding;
            const DIRECT: bool = true;
            const PACKED: bool = true;
            const GROUP: usize = 1;
            type Header<S: Vectors> = Scales<S, $vectors>;

            #[inline(always)]
            unsafe fn header<S: Vectors>(block: Rows) -> Scales<S, $vectors> {
                const F16: usize = if $min { 4 } else { 2 };
                const { assert!(F16 + $bytes + 8 * 4 * $bits == DType::$dtype.block_bytes()) };
                // SAFETY: the caller's promise; the fields lie inside of the block.
                unsafe {
                    let $at = block.at(F16);
                    let dmin = if $min { S::load_f16(block.at(2).first) } else { S::splat(0.0) };
                    Scales {
                        d: S::load_f16(block.first),
                        minus_dmin: S::mul(dmin, S::splat(-1.0)),
                        fields: $fields,
                    }
                }
            }

            #[inline(always)]
            unsafe fn unpack<S: Vectors>(
                block: Rows,
                $header: &Scales<S, $vectors>,
                $index: usize,
                $to: *mut Tile<S>,
            ) {
                const FIRST: usize = if $min { 4 } else { 2 } + $bytes;
                // SAFETY: the fields lie inside of the block, and there is room for a tile.
                unsafe {
                    (*$to).codes = codes::<S, $bits>(block.at(FIRST + 4 * $bits * $index));
                    $tile
                }
            }
        }
    };
}

packed_format!(PackedQ2K, Q2_K, U4MinHalves, bits: 2, min: true, fields: 16, 8,
|at| low_and_high::<S>(at),
|header, index, to| for half in 0..2 {
    let index = 2 * index + half;
    (*to).scale[half] = S::mul(header.d, S::to_f32(header.field(index)));
    (*to).min[half] = S::mul(header.minus_dmin, S::to_f32(header.field(16 + index)));
});

packed_format!(PackedQ3K, Q3_K, U4Minus4Halves, bits: 3, min: false, fields: 12, 4,
|at| six_bits::<S>(at),
|header, index, to| for half in 0..2 {
    let scale = S::add_i(header.field(2 * index + half), S::splat_i(-32));
    (*to).scale[half] = S::mul(header.d, S::to_f32(scale));
});

packed_format!(PackedQ4K, Q4_K, U4Min, bits: 4, min: true, fields: 12, 4,
|at| six_bits::<S>(at),
|header, index, to| {
    (*to).scale[0] = S::mul(header.d, S::to_f32(header.field(index)));
    (*to).min[0] = S::mul(header.minus_dmin, S::to_f32(header.field(8 + index)));
});

packed_format!(PackedQ5K, Q5_K, U5Min, bits: 5, min: true, fields: 12, 4,
|at| six_bits::<S>(at),
|header, index, to| {
    (*to).scale[0] = S::mul(header.d, S::to_f32(header.field(index)));
    (*to).min[0] = S::mul(header.minus_dmin, S::to_f32(header.field(8 + index)));
});

packed_format!(PackedQ6K, Q6_K, U6Minus32Halves, bits: 6, min: false, fields: 16, 4,
|at| vectors::<S, 4>(at),
|header, index, to| for half in 0..2 {
    let scale = S::load_i8(header.at(2 * index + half));
    (*to).scale[half] = S::mul(header.d, S::to_f32(scale));
});
