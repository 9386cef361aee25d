//! Q1_0 and Q2_0: one and two bits per element with a scale (`block_q1_0` and `block_q2_0` of
//! `ggml-common.h`).

use bytemuck::{Pod, Zeroable};

use crate::scale::{F16Scale, extreme, reciprocal};

/// A block of Q1_0: element `i` is `d * codes[i]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..18 | `qs`: bit `i % 8` of byte `i / 8` is set if element `i` is positive |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ1_0 {
    /// The scale.
    pub d: F16Scale,
    /// The signs.
    pub qs: [u8; 16],
}

impl BlockQ1_0 {
    /// The codes in element order, −1 and 1.
    #[inline]
    pub fn codes(&self) -> [i8; 128] {
        std::array::from_fn(|i| 2 * (self.qs[i / 8] >> (i % 8) & 1) as i8 - 1)
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 128]) {
        let d = self.d.to_f32();
        for (x, q) in out.iter_mut().zip(self.codes()) {
            *x = if q > 0 { d } else { -d };
        }
    }

    /// Encodes with the mean magnitude as the scale, which has the least squared error.
    pub(crate) fn encode(values: &[f32; 128]) -> Option<Self> {
        let sum: f32 = values.iter().fold(0.0, |sum, v| sum + v.abs());
        let bit = |byte: usize, j: usize| u8::from(values[8 * byte + j] >= 0.0) << j;
        let qs = std::array::from_fn(|byte| (0..8).fold(0, |bits, j| bits | bit(byte, j)));
        Some(Self { d: F16Scale::from_f32(sum / 128.0)?, qs })
    }
}

/// A block of Q2_0: element `i` is `d * codes[i]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..18 | `qs`: bits `2 * (i % 4)` and up of byte `i / 4` are code `i` with an offset of 1 |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2_0 {
    /// The scale.
    pub d: F16Scale,
    /// The packed codes.
    pub qs: [u8; 16],
}

impl BlockQ2_0 {
    /// The codes in element order, −1 to 2; the encoder produces −1 to 1.
    #[inline]
    pub fn codes(&self) -> [i8; 64] {
        std::array::from_fn(|i| (self.qs[i / 4] >> (2 * (i % 4)) & 3) as i8 - 1)
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 64]) {
        let d = self.d.to_f32();
        for (x, q) in out.iter_mut().zip(self.codes()) {
            *x = d * f32::from(q);
        }
    }

    /// Encodes with the largest magnitude as the scale, and codes rounded to nearest.
    pub(crate) fn encode(values: &[f32; 64]) -> Option<Self> {
        let d = extreme(values).abs();
        let inverse = reciprocal(d);
        let code = |v: f32| ((v * inverse).round() + 1.0) as u8;
        let bits = |byte: usize, j: usize| code(values[4 * byte + j]) << (2 * j);
        let qs = std::array::from_fn(|byte| (0..4).fold(0, |codes, j| codes | bits(byte, j)));
        Some(Self { d: F16Scale::from_f32(d)?, qs })
    }
}
