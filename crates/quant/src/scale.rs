//! The half-precision scale of a block.

use bytemuck::{Pod, Zeroable};
use half::f16;

/// An f16 as stored in a block: two little-endian bytes of alignment 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct F16Scale(pub [u8; 2]);

impl F16Scale {
    /// The exact value as an f32.
    #[inline]
    pub fn to_f32(self) -> f32 {
        f16::from_le_bytes(self.0).to_f32()
    }

    /// The nearest f16, ties to even, or `None` if it is not finite.
    #[inline(always)]
    pub(crate) fn from_f32(value: f32) -> Option<Self> {
        let nearest = f16::from_f32(value);
        nearest.is_finite().then(|| Self(nearest.to_le_bytes()))
    }

    /// The nearest f16, or the next one away from 0 where a subnormal one is too small: below by
    /// more than one part of 512, which the largest of 8-bit codes cannot make up for.
    #[inline(always)]
    pub(crate) fn reaching(value: f32) -> Option<Self> {
        let nearest = f16::from_f32(value);
        let short = nearest.to_f32().abs() < value.abs() * (511.0 / 512.0);
        let next = f16::from_bits(nearest.to_bits() + u16::from(short && nearest != f16::ZERO));
        next.is_finite().then(|| Self(next.to_le_bytes()))
    }
}

/// `1 / scale`, or 0 where the reciprocal is not finite.
///
/// Such a scale (below 2^-128) underflows to 0 as an f16, so that all codes decode to the same
/// value. The encoder then uses those of 0.
#[inline(always)]
pub(crate) fn reciprocal(scale: f32) -> f32 {
    let inverse = 1.0 / scale;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// The element of the largest magnitude, the first among equals.
#[inline(always)]
pub(crate) fn extreme<const LEN: usize>(values: &[f32; LEN]) -> f32 {
    // Finite magnitudes have the order of their bit patterns, and an integer maximum vectorizes.
    let magnitude = |v: f32| v.to_bits() << 1;
    let largest = values.iter().fold(0, |largest, &v| magnitude(v).max(largest));
    values.iter().copied().find(|&v| magnitude(v) == largest).unwrap_or(values[0])
}

/// The smallest and the largest element, the first among equals.
#[inline(always)]
pub(crate) fn range(values: &[f32; 32]) -> (f32, f32) {
    values.iter().copied().fold((values[0], values[0]), |(min, max), v| {
        (if v < min { v } else { min }, if v > max { v } else { max })
    })
}
