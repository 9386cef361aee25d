//! MXFP4: four-bit floats with a power of two as scale, in blocks of 32 (`block_mxfp4` and
//! `kvalues_mxfp4` of `ggml-common.h`; OCP Microscaling Formats, version 1.0).

use bytemuck::{Pod, Zeroable};

use crate::nibbles;
use crate::scale::extreme;

/// Twice the values of the 16 codes of E2M1 floats, so that all are integers.
pub const FP4_LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// A block of MXFP4: element `i` is `scale() * FP4_LEVELS[codes[i]]`.
///
/// | bytes | field |
/// |---|---|
/// | 0 | `e`: the scale's exponent, see [`scale`](Self::scale) |
/// | 1..17 | `qs`: byte `j` has the code of element `j` in its low half, of `j + 16` in its high half |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMxfp4 {
    /// The exponent of the scale (E8M0).
    pub e: u8,
    /// The packed codes.
    pub qs: [u8; 16],
}

impl BlockMxfp4 {
    /// The codes in element order, 0 to 15.
    #[inline]
    pub fn codes(&self) -> [u8; 32] {
        nibbles::unpack(&self.qs)
    }

    /// The scale of the integer levels: half of that of the floats, 2^(e − 128).
    #[inline]
    pub fn scale(&self) -> f32 {
        // the smallest two are subnormal
        f32::from_bits(match self.e {
            0 | 1 => 0x0020_0000 << self.e,
            e => u32::from(e - 1) << 23,
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 32]) {
        let scale = self.scale();
        for (x, q) in out.iter_mut().zip(self.codes()) {
            *x = scale * f32::from(FP4_LEVELS[usize::from(q)]);
        }
    }

    /// Encodes with the exponent for which the largest magnitude is below twice that of the code 4;
    /// codes are those of the nearest level, the first among equals.
    pub(crate) fn encode(values: &[f32; 32]) -> Option<Self> {
        let exponent = extreme(values).to_bits() >> 23 & 0xff;
        let mut block = Self { e: exponent.saturating_sub(2) as u8, qs: [0; 16] };
        let scale = block.scale();
        block.qs = nibbles::pack(&values.map(|v| nearest(v, scale)));
        Some(block)
    }
}

/// The code whose level times `scale` is nearest to `x`, the first among equals.
fn nearest(x: f32, scale: f32) -> u8 {
    let mut best = (0, f32::INFINITY);
    for (code, level) in (0..).zip(FP4_LEVELS) {
        let error = (scale * f32::from(level) - x).abs();
        if error < best.1 {
            best = (code, error);
        }
    }
    best.0
}
