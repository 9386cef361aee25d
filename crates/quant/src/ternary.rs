//! TQ1_0 and TQ2_0: the values −1, 0 and 1 with a scale, in super-blocks of 256 (`block_tq1_0` and
//! `block_tq2_0` of `ggml-common.h`).

use bytemuck::{Pod, Zeroable};

use crate::scale::{F16Scale, extreme, reciprocal};

/// The powers of 3 whose product with a byte of TQ1_0, modulo 256, has each of five digits on top.
const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

/// A super-block of TQ1_0: element `i` is `d * codes[i]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..48 | `qs`: five codes a byte, as digits to base 3: byte `j` below 32 has elements `32 * n + j`, byte `32 + j` elements `160 + 16 * n + j` |
/// | 48..52 | `qh`: four codes a byte: byte `j` has elements `240 + 4 * n + j` |
/// | 52..54 | `d` |
///
/// A byte is 256 / 243 times the number, rounded up, so that the digits are the carries of repeated
/// multiplications by 3. Codes are stored with an offset of 1.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTq1_0 {
    /// Five codes a byte.
    pub qs: [u8; 48],
    /// Four codes a byte.
    pub qh: [u8; 4],
    /// The scale.
    pub d: F16Scale,
}

impl BlockTq1_0 {
    /// The codes in element order, −1 to 1.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        std::array::from_fn(|i| {
            let (byte, n) = Self::place(i);
            let byte = if byte < 48 { self.qs[byte] } else { self.qh[byte - 48] };
            let digit = (u16::from(byte.wrapping_mul(POWERS[n])) * 3) >> 8;
            digit as i8 - 1
        })
    }

    /// The byte and the digit of element `i`.
    #[inline]
    const fn place(i: usize) -> (usize, usize) {
        match i {
            0..160 => (i % 32, i / 32),
            160..240 => (32 + i % 16, (i - 160) / 16),
            _ => (48 + i % 4, (i - 240) / 4),
        }
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        scale_codes(self.d, &self.codes(), out);
    }

    /// Encodes with the largest magnitude as the scale, and codes rounded to nearest.
    pub(crate) fn encode(values: &[f32; 256]) -> Option<Self> {
        let (d, digits) = digits(values)?;
        let mut numbers = [0u16; 52];
        for (i, digit) in digits.into_iter().enumerate() {
            let (byte, n) = Self::place(i);
            numbers[byte] += u16::from(digit) * u16::from(POWERS[4 - n]);
        }
        // at most 242, which becomes 255
        let bytes = numbers.map(|number| (number * 256).div_ceil(243) as u8);
        let (qs, qh) = (bytes.first_chunk().copied()?, bytes.last_chunk().copied()?);
        Some(Self { qs, qh, d })
    }
}

/// A super-block of TQ2_0: element `i` is `d * codes[i]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..64 | `qs`: two-bit codes; those of elements `128 * g + 32 * n + j` are bits `2 * n` and up of byte `32 * g + j` |
/// | 64..66 | `d` |
///
/// Codes are stored with an offset of 1.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockTq2_0 {
    /// The packed codes.
    pub qs: [u8; 64],
    /// The scale.
    pub d: F16Scale,
}

impl BlockTq2_0 {
    /// The codes in element order: the encoder produces −1 to 1, a file may also contain 2.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        std::array::from_fn(|i| {
            let byte = self.qs[i / 128 * 32 + i % 32];
            (byte >> (2 * (i / 32 % 4)) & 3) as i8 - 1
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        scale_codes(self.d, &self.codes(), out);
    }

    /// Encodes with the largest magnitude as the scale, and codes rounded to nearest.
    pub(crate) fn encode(values: &[f32; 256]) -> Option<Self> {
        let (d, digits) = digits(values)?;
        let mut qs = [0; 64];
        for (i, digit) in digits.into_iter().enumerate() {
            qs[i / 128 * 32 + i % 32] |= digit << (2 * (i / 32 % 4));
        }
        Some(Self { qs, d })
    }
}

/// The scale of a super-block, and its codes plus 1.
fn digits(values: &[f32; 256]) -> Option<(F16Scale, [u8; 256])> {
    let d = extreme(values).abs();
    let inverse = reciprocal(d);
    Some((F16Scale::from_f32(d)?, values.map(|v| ((v * inverse).round() + 1.0) as u8)))
}

fn scale_codes(d: F16Scale, codes: &[i8; 256], out: &mut [f32; 256]) {
    let d = d.to_f32();
    for (x, &q) in out.iter_mut().zip(codes) {
        *x = d * f32::from(q);
    }
}
