//! MXFP4 and NVFP4: four-bit floats with a scale for every 32 or 16 elements (`block_mxfp4`,
//! `block_nvfp4` and `kvalues_mxfp4` of `ggml-common.h`; OCP Microscaling Formats, version 1.0).

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

    /// Encodes with the exponent for which the largest magnitude is below twice that of the code 4.
    /// Codes are those of the nearest level, the first among equals.
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 32]) -> Option<Self> {
        let exponent = extreme(values).to_bits() >> 23 & 0xff;
        let mut block = Self { e: exponent.saturating_sub(2) as u8, qs: [0; 16] };
        let scale = block.scale();
        block.qs = nibbles::pack(&values.map(|v| nearest(v, scale)));
        Some(block)
    }
}

/// The code whose level times `scale` is nearest to `x`, the first among equals.
#[inline(always)]
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

/// A block of NVFP4: element `i` of 64 is `scales()[i / 16] * FP4_LEVELS[codes[i]]`. A tensor of
/// this type also has a factor of its own, in another tensor.
///
/// | bytes | field |
/// |---|---|
/// | 0..4 | `d`: the scales of 16 elements each, see [`scales`](Self::scales) |
/// | 4..36 | `qs`: byte `8 * p + j` has the code of element `16 * p + j` in its low half, of `16 * p + j + 8` in its high half |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockNvfp4 {
    /// The scales: floats with a four-bit exponent and a three-bit mantissa.
    pub d: [u8; 4],
    /// The packed codes.
    pub qs: [u8; 32],
}

impl BlockNvfp4 {
    /// The codes in element order, 0 to 15.
    #[inline]
    pub fn codes(&self) -> [u8; 64] {
        std::array::from_fn(|i| self.qs[i / 16 * 8 + i % 8] >> (4 * (i / 8 % 2)) & 15)
    }

    /// The scales of the integer levels: half of those of the floats. The sign bit is ignored, and
    /// 0x7f, a NaN of E4M3, is 0.
    #[inline]
    pub fn scales(&self) -> [f32; 4] {
        self.d.map(half_of_e4m3)
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 64]) {
        let codes = self.codes();
        let parts = out.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0);
        for ((out, codes), scale) in parts.zip(self.scales()) {
            for (x, &q) in out.iter_mut().zip(codes) {
                *x = scale * f32::from(FP4_LEVELS[usize::from(q)]);
            }
        }
    }

    /// Encodes with scales that map the largest magnitude of 16 elements to 6, rounded; codes are
    /// those of the nearest level, the first among equals.
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 64]) -> Option<Self> {
        let mut block = Self { d: [0; 4], qs: [0; 32] };
        for (p, values) in values.as_chunks::<16>().0.iter().enumerate() {
            let d = e4m3(extreme(values).abs() / 6.0)?;
            block.d[p] = d;
            let codes = values.map(|v| nearest(v, half_of_e4m3(d)));
            for j in 0..8 {
                block.qs[8 * p + j] = codes[j] | codes[j + 8] << 4;
            }
        }
        Some(block)
    }
}

/// Half of the value of an unsigned E4M3 float.
fn half_of_e4m3(bits: u8) -> f32 {
    if bits == 0x7f {
        return 0.0;
    }
    let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    match exponent {
        0 => mantissa * 2f32.powi(-10),
        _ => (8.0 + mantissa) * 2f32.powi(exponent - 11),
    }
}

/// The nearest E4M3 float to `value`, which is not negative, halves up; `None` if it is above the
/// largest.
fn e4m3(value: f32) -> Option<u8> {
    // f16 has the same mantissa with seven bits more: subnormal values of both are 2⁸ apart
    let scaled = half::f16::from_f32(value * 2f32.powi(-8)).to_bits();
    let rounded = (scaled + 0x40) >> 7;
    (rounded < 0x7f).then_some(rounded as u8)
}
