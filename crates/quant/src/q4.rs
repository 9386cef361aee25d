//! Q4_0 and Q4_1: four bits per element in blocks of 32 (`block_q4_0`, `block_q4_1` of
//! `ggml-common.h`).

use bytemuck::{Pod, Zeroable};

use crate::fit::{Affine, Anchor, Search, important, mean_square, nearest};
use crate::nibbles;
use crate::parts::Parts;
use crate::scale::{F16Scale, extreme, range, reciprocal};

/// A block of Q4_0: element `i` is `d * codes[i]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..18 | `qs`: byte `j` has the code of element `j` in its low half, of `j + 16` in its high half, each with an offset of 8 |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_0 {
    /// The scale.
    pub d: F16Scale,
    /// The packed codes.
    pub qs: [u8; 16],
}

impl BlockQ4_0 {
    /// The codes in element order, −8 to 7.
    #[inline]
    pub fn codes(&self) -> [i8; 32] {
        nibbles::unpack(&self.qs).map(|q| q as i8 - 8)
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 32]) {
        let d = self.d.to_f32();
        for (x, q) in out.iter_mut().zip(self.codes()) {
            *x = d * f32::from(q);
        }
    }

    /// Encodes with a scale that maps the element of the largest magnitude to −8. This code has no
    /// positive counterpart, so an element of the same magnitude and the other sign becomes 7.
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 32]) -> Option<Self> {
        let Parts { d, m: _, codes } = symmetric(values);
        Some(Self { d: F16Scale::from_f32(d)?, qs: nibbles::pack(&codes) })
    }

    /// Encodes with the scale that explains most of the values' weighted squares.
    #[inline(always)]
    pub(crate) fn encode_weighted(values: &[f32; 32], importance: &[f32; 32]) -> Option<Self> {
        let weights = important(values, importance, mean_square(values));
        let anchor =
            Anchor { value: extreme(values), level: -8.0, opposite: 7.0, step: 0.1, reach: 9 };
        let d = F16Scale::from_f32(anchor.fit(values, &weights, |v| nearest(v, -8.0, 7.0)))?;
        let inverse = reciprocal(d.to_f32());
        let codes = values.map(|v| (nearest(v * inverse, -8.0, 7.0) + 8.0) as u8);
        Some(Self { d, qs: nibbles::pack(&codes) })
    }
}

/// A block of Q4_1: element `i` is `d * codes[i] + m`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..4 | `m` |
/// | 4..20 | `qs`: byte `j` has the code of element `j` in its low half, of `j + 16` in its high half |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_1 {
    /// The scale.
    pub d: F16Scale,
    /// The minimum: the value of code 0.
    pub m: F16Scale,
    /// The packed codes.
    pub qs: [u8; 16],
}

impl BlockQ4_1 {
    /// The codes in element order, 0 to 15.
    #[inline]
    pub fn codes(&self) -> [u8; 32] {
        nibbles::unpack(&self.qs)
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
        let fit = Affine::fit(&values.map(|v| v - max), &weights, 15.0, Search::IMPORTANT);
        let (d, m) = (F16Scale::from_f32(fit.scale)?, F16Scale::from_f32(max - fit.min)?);
        let inverse = reciprocal(d.to_f32());
        let codes = values.map(|v| nearest((v - m.to_f32()) * inverse, 0.0, 15.0) as u8);
        Some(Self { d, m, qs: nibbles::pack(&codes) })
    }
}

/// The parts of a block of Q4_0.
#[inline(always)]
pub(crate) fn symmetric(values: &[f32; 32]) -> Parts {
    let d = extreme(values) / -8.0;
    let inverse = reciprocal(d);
    let codes = values.map(|v| ((v * inverse + 8.5) as u8).min(15));
    Parts { d, m: 0.0, codes }
}

/// The parts of a block of Q4_1.
#[inline(always)]
pub(crate) fn affine(values: &[f32; 32]) -> Parts {
    let (min, max) = range(values);
    let d = (max - min) / 15.0;
    let inverse = reciprocal(d);
    let codes = values.map(|v| (((v - min) * inverse + 0.5) as u8).min(15));
    Parts { d, m: min, codes }
}
