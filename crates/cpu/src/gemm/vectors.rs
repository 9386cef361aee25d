//! The vector operations of the kernels, one implementation per instruction set.

use crate::simd::Register;

/// The same offset in `LANES` consecutive rows of a matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// The address in the first row.
    pub(super) first: *const u8,
    /// Bytes from one row to the next; 0 loads one row into all lanes.
    pub(super) stride: usize,
    /// The rows of a panel if they are packed in one (`pack`): the bytes of a field of all rows are
    /// side by side, and `stride` is 4. Otherwise 0. A constant in every kernel.
    pub(super) packed: usize,
}

impl Rows {
    /// The address some bytes further in each row.
    ///
    /// # Safety
    /// The address lies inside of the rows.
    #[inline(always)]
    pub(super) unsafe fn at(self, bytes: usize) -> Self {
        let bytes = if self.packed > 0 { bytes * self.packed } else { bytes };
        // SAFETY: the caller's promise.
        Self { first: unsafe { self.first.add(bytes) }, ..self }
    }
}

/// The range of the bytes of a vector of codes, which bounds the products that fit into 16 bits on
/// CPUs that multiply bytes in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codes {
    /// 0 to 15.
    U4,
    /// 0 to 31.
    U5,
    /// 0 to 63.
    U6,
    /// -128 to 127, in the form that [`Vectors::from_i8`] gives.
    I8,
    /// As [`I8`](Self::I8), in a tile: eight vectors behind each are the [`Vectors::magnitudes`].
    I8InTile,
}

impl Codes {
    /// Whether codes may be negative.
    pub(super) const fn are_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I8InTile)
    }

    /// The number of sums of two products with activations (at most 127) whose total fits into an
    /// i16, for signed codes after their sign was moved to the activations.
    pub(super) const fn pairs_in_i16(self) -> usize {
        self.pairs_from(0)
    }

    /// As [`pairs_in_i16`](Self::pairs_in_i16), for codes of which `zero` has been subtracted.
    pub(super) const fn pairs_from(self, zero: usize) -> usize {
        let largest = match self {
            Self::U4 => 15,
            Self::U5 => 31,
            Self::U6 => 63,
            Self::I8 | Self::I8InTile => 128,
        };
        let largest = if zero > largest - zero { zero } else { largest - zero };
        let pairs: usize = i16::MAX as usize / (2 * 127 * largest);
        1 << pairs.ilog2() // divides the 4 or 8 vectors of a tile
    }
}

/// Vectors of `LANES` lanes of 32 bits, at most 16.
///
/// In the products of quantized matrices a lane is a row of the matrix. A vector of codes holds
/// four of them, bytes of neighbouring columns, in each lane, unless the instruction set has
/// another order: that of [`load_codes`](Self::load_codes).
///
/// # Safety
/// All functions require the instruction set of the implementation; those that take pointers read
/// or write as many bytes as they say. They are inlined into a function with the `target_feature`s
/// of the set: hence `inline(always)` everywhere.
pub(super) trait Vectors: Register {
    /// The exponent of the power of two that the codes of `from_i8` are offset by, if they are.
    const I8_ZERO: Option<u32>;
    /// Panels (1 or 2) of a tile of a large product: as many as fit into registers.
    const PANELS: usize;
    /// A vector of i32, or of four bytes a lane.
    type I: Copy;
    /// The values of a tile besides signed codes.
    type Magnitudes: Copy;

    unsafe fn splat_i(value: i32) -> Self::I;
    unsafe fn and(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn or(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn xor(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn add_i(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn sub_i(a: Self::I, b: Self::I) -> Self::I;
    /// Shifts each lane left.
    unsafe fn shl(a: Self::I, bits: u32) -> Self::I;
    /// Shifts each lane right and fills with zeros.
    unsafe fn shr(a: Self::I, bits: u32) -> Self::I;
    /// Shifts each lane right and fills with copies of the sign.
    unsafe fn sar(a: Self::I, bits: u32) -> Self::I;

    unsafe fn to_f32(a: Self::I) -> Self::F;
    /// The lanes as the bits of f32.
    unsafe fn f32_of_bits(a: Self::I) -> Self::F;
    /// The low halves of the lanes as f16.
    unsafe fn f16_to_f32(a: Self::I) -> Self::F;
    /// The low and the high halves of the lanes as f16.
    #[inline(always)]
    unsafe fn f16_pairs(a: Self::I) -> [Self::F; 2] {
        // SAFETY: the caller's promise.
        unsafe { [Self::f16_to_f32(a), Self::f16_to_f32(Self::shr(a, 16))] }
    }

    /// Four bytes of each row.
    unsafe fn load4(from: Rows) -> Self::I;
    /// Sixteen bytes of each row: vector j holds bytes 4j to 4j+3 of all rows.
    unsafe fn load16(from: Rows) -> [Self::I; 4];
    /// A line of 64 bytes of each row, as in [`load16`](Self::load16).
    #[inline(always)]
    unsafe fn load64(from: Rows) -> [Self::I; 16] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut words = [Self::splat_i(0); 16];
            for i in 0..4 {
                let four = Self::load16(from.at(16 * i));
                for (j, word) in four.into_iter().enumerate() {
                    words[4 * i + j] = word;
                }
            }
            words
        }
    }
    /// A byte of each row, from `LANES` bytes side by side.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> Self::I {
        // SAFETY: the caller's promise; a vector has at most 16 lanes.
        unsafe {
            let mut lanes = [0_u32; 16];
            for (i, lane) in lanes[..Self::LANES].iter_mut().enumerate() {
                *lane = u32::from(*from.add(i));
            }
            Self::load4(Rows { first: lanes.as_ptr().cast(), stride: 4, packed: 0 })
        }
    }
    /// As [`load_u8`](Self::load_u8), signed.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> Self::I {
        // SAFETY: the caller's promise.
        unsafe { Self::sar(Self::shl(Self::load_u8(from), 24), 24) }
    }
    /// Sixteen bytes of each row in the order of the codes of [`dot`](Self::dot).
    #[inline(always)]
    unsafe fn load_codes(from: Rows) -> [Self::I; 4] {
        // SAFETY: the caller's promise.
        unsafe { Self::load16(from) }
    }

    /// Codes for [`dot`](Self::dot) from signed bytes.
    unsafe fn from_i8(a: Self::I) -> Self::I;
    /// The values of a tile behind eight vectors of signed codes.
    unsafe fn magnitudes(codes: &[Self::I; 8]) -> Self::Magnitudes;
    /// The entries of `table` that the bytes (0 to 15) name.
    unsafe fn lookup(table: &[i8; 16], index: Self::I) -> Self::I;
    /// The words of `table` that the lanes name, at any alignment.
    unsafe fn gather(table: *const u8, index: Self::I) -> Self::I;
    /// The pairs of words of `table` that the lanes name: first words and second words.
    #[inline(always)]
    unsafe fn gather_pairs(table: *const u8, index: Self::I) -> [Self::I; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let at = Self::shl(index, 1);
            [Self::gather(table, at), Self::gather(table.add(4), at)]
        }
    }
    /// Two vectors of four and the next four columns in the order of the codes of
    /// [`dot`](Self::dot).
    #[inline(always)]
    unsafe fn order_codes(columns: [Self::I; 2]) -> [Self::I; 2] {
        columns
    }
    /// The bytes of a vector of codes, 1 to 127, negated where bits `first` and up of a lane are
    /// set, as in [`fifth_bits`](Self::fifth_bits).
    #[inline(always)]
    unsafe fn negate(codes: Self::I, bits: Self::I, first: u32) -> Self::I {
        // SAFETY: the caller's promise.
        unsafe {
            let one = Self::shr(Self::fifth_bits(bits, first), 4);
            // The complement plus 1, which does not carry, as no code is 0.
            let all = Self::sub_i(Self::shl(one, 8), one);
            Self::add_i(Self::xor(codes, all), one)
        }
    }
    /// Bits `first` to `first + 3` of each lane, each as the value 16 of a byte: what vector
    /// `first / 4` of codes lacks if bit k is that of column k. `first` is a multiple of 4.
    #[inline(always)]
    unsafe fn fifth_bits(bits: Self::I, first: u32) -> Self::I {
        // SAFETY: the caller's promise.
        unsafe {
            let nibble = Self::and(Self::shr(bits, first), Self::splat_i(0xf));
            // Bit b of the nibble belongs at bit 4 of byte b: up by 4 + 7b. The copies that
            // land elsewhere are masked away.
            let low = Self::or(Self::shl(nibble, 4), Self::shl(nibble, 11));
            let high = Self::or(Self::shl(nibble, 18), Self::shl(nibble, 25));
            Self::and(Self::or(low, high), Self::splat_i(0x1010_1010))
        }
    }

    /// The sum of two parts of a sum of activations, times two to the power of `zero`: what the
    /// offset of codes adds to a product.
    #[inline(always)]
    unsafe fn offset(parts: &[i16; 2], zero: u32) -> Self::I {
        let [even, odd] = parts.map(i32::from);
        // SAFETY: the caller's promise.
        unsafe { Self::splat_i((even + odd) << zero) }
    }

    /// As [`dot`](Self::dot), where the sums start at the offset of the codes. `minus` are minus
    /// the sums of the `4 N` activations, in the parts of a [`Block`](super::activations::Block).
    #[inline(always)]
    unsafe fn dot_from<const N: usize, const NR: usize, const MR: usize>(
        codes: Codes,
        zero: u32,
        weights: [*const Self::I; NR],
        x: [*const i8; MR],
        minus: [&[i16; 2]; MR],
    ) -> [[Self::I; MR]; NR] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut start = [Self::splat_i(0); MR];
            for (start, minus) in start.iter_mut().zip(minus) {
                *start = Self::offset(minus, zero);
            }
            Self::dot::<N, NR, MR>(codes, weights, x, start)
        }
    }

    /// For each of `NR` panels of weights and each of `MR` rows of activations: `start` plus the
    /// sum of the products of `N` vectors of codes with the `4 N` activations (-127 to 127).
    /// `codes` is a constant at every call.
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        codes: Codes,
        weights: [*const Self::I; NR],
        x: [*const i8; MR],
        start: [Self::I; MR],
    ) -> [[Self::I; MR]; NR];
}
