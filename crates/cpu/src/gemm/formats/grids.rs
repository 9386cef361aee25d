//! Codes from the codebooks of the IQ formats: look-ups and signs.

use pelton_quant::Grid;

use super::super::vectors::Vectors;

/// Eight codes of each row from a codebook of eight values.
///
/// # Safety
/// Every lane of `index` is below the number of entries, and the instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn eight<S: Vectors, const ENTRIES: usize>(
    grid: &Grid<8, ENTRIES>,
    index: S::I,
) -> [S::I; 2] {
    // SAFETY: the caller's promise; an entry has two words.
    unsafe { S::gather_pairs(grid.bytes().as_ptr(), index) }
}

/// Four codes of each row from a codebook of four values.
///
/// # Safety
/// Every lane of `index` is below the number of entries, and the instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn four<S: Vectors, const ENTRIES: usize>(
    grid: &Grid<4, ENTRIES>,
    index: S::I,
) -> S::I {
    // SAFETY: the caller's promise; an entry is a word.
    unsafe { S::gather(grid.bytes().as_ptr(), index) }
}

/// Brings codes of neighbouring columns to the order of [`Vectors::dot`].
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn ordered<S: Vectors>(mut codes: [S::I; 8]) -> [S::I; 8] {
    for i in (0..8).step_by(2) {
        // SAFETY: the caller's promise.
        [codes[i], codes[i + 1]] = unsafe { S::order_codes([codes[i], codes[i + 1]]) };
    }
    codes
}

/// Codes of positive values of neighbouring columns, negated where bits of `signs` are set: bit k
/// is that of column k.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn signed<S: Vectors>(values: [S::I; 8], signs: S::I) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut codes = ordered::<S>(values);
        for (i, codes) in codes.iter_mut().enumerate() {
            *codes = S::from_i8(S::negate(*codes, signs, 4 * i as u32));
        }
        codes
    }
}

/// In every byte the eighth bit that makes the number of bits even.
///
/// # Safety
/// The upper bit of every byte is zero, and the instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn even<S: Vectors>(sevens: S::I) -> S::I {
    // SAFETY: the caller's promise.
    unsafe {
        // Bits that come from the next byte stay in the upper part, which does not matter.
        let parity = S::xor(sevens, S::shr(sevens, 4));
        let parity = S::xor(parity, S::shr(parity, 2));
        let parity = S::xor(parity, S::shr(parity, 1));
        S::or(sevens, S::shl(S::and(parity, S::splat_i(0x0101_0101)), 7))
    }
}

/// The 32 signs of four fields of seven bits from the lowest bit on.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn signs_of_sevens<S: Vectors>(word: S::I) -> S::I {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sevens = S::and(word, S::splat_i(0x7f));
        for byte in 1..4 {
            let field = S::and(S::shl(word, byte), S::splat_i(0x7f << (8 * byte)));
            sevens = S::or(sevens, field);
        }
        even::<S>(sevens)
    }
}

/// `width` bits of every lane, from bit `first` on.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn field<S: Vectors>(lanes: S::I, first: u32, width: u32) -> S::I {
    // SAFETY: the caller's promise.
    unsafe { S::and(S::shr(lanes, first), S::splat_i((1 << width) - 1)) }
}

/// `unit * (2 * number + 1)`: the scale of all IQ formats with codebooks.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn odd_multiple<S: Vectors>(unit: S::F, number: S::I) -> S::F {
    // SAFETY: the caller's promise.
    unsafe { S::mul(unit, S::to_f32(S::or(S::shl(number, 1), S::splat_i(1)))) }
}
