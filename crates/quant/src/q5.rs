//! Q5_0 and Q5_1: five bits per element in blocks of 32 (`block_q5_0`, `block_q5_1` of
//! `ggml-common.h`).

use bytemuck::{Pod, Zeroable};

use crate::fit::{Affine, Anchor, Search, important, mean_square, nearest};
use crate::nibbles;
use crate::parts::Parts;
use crate::scale::{F16Scale, extreme, range, reciprocal};

/// A block of Q5_0: element `i` is `d * codes[i]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..6 | `qh`, a little-endian word: bit `i` is the fifth bit of code `i` |
/// | 6..22 | `qs`: byte `j` has the low bits of code `j` in its low half, of `j + 16` in its high half |
///
/// Codes are stored with an offset of 16.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_0 {
    /// The scale.
    pub d: F16Scale,
    /// The fifth bits of the codes.
    pub qh: [u8; 4],
    /// The low four bits of the codes.
    pub qs: [u8; 16],
}

impl BlockQ5_0 {
    /// The codes in element order, −16 to 15.
    #[inline]
    pub fn codes(&self) -> [i8; 32] {
        nibbles::unpack_5(&self.qs, self.qh).map(|q| q as i8 - 16)
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 32]) {
        let d = self.d.to_f32();
        for (x, q) in out.iter_mut().zip(self.codes()) {
            *x = d * f32::from(q);
        }
    }

    /// Encodes like Q4_0: the element of the largest magnitude becomes −16, its negative 15.
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 32]) -> Option<Self> {
        let Parts { d, m: _, codes } = symmetric(values);
        Some(Self {
            d: F16Scale::from_f32(d)?,
            qh: nibbles::pack_fifth(&codes),
            qs: nibbles::pack(&codes),
        })
    }

    /// Encodes with the scale that explains most of the values' weighted squares.
    #[inline(always)]
    pub(crate) fn encode_weighted(values: &[f32; 32], importance: &[f32; 32]) -> Option<Self> {
        let weights = important(values, importance, mean_square(values));
        let anchor =
            Anchor { value: extreme(values), level: -16.0, opposite: 15.0, step: 0.1, reach: 9 };
        let d = F16Scale::from_f32(anchor.fit(values, &weights, |v| nearest(v, -16.0, 15.0)))?;
        let inverse = reciprocal(d.to_f32());
        let codes = values.map(|v| (nearest(v * inverse, -16.0, 15.0) + 16.0) as u8);
        Some(Self { d, qh: nibbles::pack_fifth(&codes), qs: nibbles::pack(&codes) })
    }
}

/// A block of Q5_1: element `i` is `d * codes[i] + m`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..4 | `m` |
/// | 4..8 | `qh`, a little-endian word: bit `i` is the fifth bit of code `i` |
/// | 8..24 | `qs`: byte `j` has the low bits of code `j` in its low half, of `j + 16` in its high half |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_1 {
    /// The scale.
    pub d: F16Scale,
    /// The minimum: the value of code 0.
    pub m: F16Scale,
    /// The fifth bits of the codes.
    pub qh: [u8; 4],
    /// The low four bits of the codes.
    pub qs: [u8; 16],
}

impl BlockQ5_1 {
    /// The codes in element order, 0 to 31.
    #[inline]
    pub fn codes(&self) -> [u8; 32] {
        nibbles::unpack_5(&self.qs, self.qh)
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 32]) {
        let (d, m) = (self.d.to_f32(), self.m.to_f32());
        for (x, q) in out.iter_mut().zip(self.codes()) {
            *x = d * f32::from(q) + m;
        }
    }

    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 32]) -> Option<Self> {
        let Parts { d, m, codes } = affine(values);
        Some(Self {
            d: F16Scale::from_f32(d)?,
            m: F16Scale::from_f32(m)?,
            qh: nibbles::pack_fifth(&codes),
            qs: nibbles::pack(&codes),
        })
    }

    /// Encodes with the scale and the minimum of the least weighted squared error among some
    /// candidates.
    #[inline(always)]
    pub(crate) fn encode_weighted(values: &[f32; 32], importance: &[f32; 32]) -> Option<Self> {
        let weights = important(values, importance, 4.0 * mean_square(values));
        // below the largest value the minimum is positive, which the fit asks for
        let (_, max) = range(values);
        let fit = Affine::fit(&values.map(|v| v - max), &weights, 31.0, Search::IMPORTANT);
        let (d, m) = (F16Scale::from_f32(fit.scale)?, F16Scale::from_f32(max - fit.min)?);
        let inverse = reciprocal(d.to_f32());
        let codes = values.map(|v| nearest((v - m.to_f32()) * inverse, 0.0, 31.0) as u8);
        Some(Self { d, m, qh: nibbles::pack_fifth(&codes), qs: nibbles::pack(&codes) })
    }
}

/// The parts of a block of Q5_0.
#[inline(always)]
pub(crate) fn symmetric(values: &[f32; 32]) -> Parts {
    let d = extreme(values) / -16.0;
    let inverse = reciprocal(d);
    let codes = values.map(|v| ((v * inverse + 16.5) as u8).min(31));
    Parts { d, m: 0.0, codes }
}

/// The parts of a block of Q5_1.
#[inline(always)]
pub(crate) fn affine(values: &[f32; 32]) -> Parts {
    let (min, max) = range(values);
    let d = (max - min) / 31.0;
    let inverse = reciprocal(d);
    let codes = values.map(|v| (((v - min) * inverse + 0.5) as u8).min(31));
    Parts { d, m: min, codes }
}
