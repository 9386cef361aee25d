//! IQ2_XXS, IQ2_XS and IQ2_S: about two bits per element, in codebooks of eight magnitudes
//! (`block_iq2_xxs`, `block_iq2_xs` and `block_iq2_s` of `ggml-common.h`).
//!
//! Element `i` of a super-block is `d * (scale + 0.5) / 4 * codes[i]`, with codes that are the
//! magnitudes of a codebook, signed.

use bytemuck::{Pod, Zeroable};

use crate::grids::{IQ2_S_GRID, IQ2_XS_GRID, IQ2_XXS_GRID, even_signs, signed};
use crate::scale::F16Scale;

/// A super-block of IQ2_XXS, with a scale for every 32 elements.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..66 | `qs`: for each 32 elements four bytes, the indices of 8 elements each, and a word: at bits `7 * l` the signs of 8 elements ([`even_signs`]), at bit 28 the scale |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2Xxs {
    /// The super-block scale.
    pub d: F16Scale,
    /// Indices, signs and scales.
    pub qs: [[u8; 8]; 8],
}

impl BlockIq2Xxs {
    /// The word of signs and scale of 32 elements.
    #[inline]
    fn word(part: &[u8; 8]) -> u32 {
        u32::from_le_bytes([part[4], part[5], part[6], part[7]])
    }

    /// The codes in element order.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        eights(|i| {
            let part = &self.qs[i / 4];
            let signs = even_signs((Self::word(part) >> (7 * (i % 4))) as u8);
            signed(IQ2_XXS_GRID.0[usize::from(part[i % 4])], signs)
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let scales = self.qs.each_ref().map(|part| (Self::word(part) >> 28) as u8);
        scale_codes(self.d, &self.codes(), |i| scales[i / 2], 0.25, out);
    }
}

/// A super-block of IQ2_XS, with a scale for every 16 elements.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..66 | `qs`: little-endian words of 16 bits for every 8 elements: the index, and at bit 9 the signs ([`even_signs`]) |
/// | 66..74 | `scales`: the scale of elements `32 * j` and up in the low half of byte `j`, of `32 * j + 16` and up in the high half |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2Xs {
    /// The super-block scale.
    pub d: F16Scale,
    /// Indices and signs.
    pub qs: [[u8; 2]; 32],
    /// The packed scales.
    pub scales: [u8; 8],
}

impl BlockIq2Xs {
    /// The codes in element order.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        eights(|i| {
            let word = u16::from_le_bytes(self.qs[i]);
            signed(IQ2_XS_GRID.0[usize::from(word & 511)], even_signs((word >> 9) as u8))
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        scale_codes(self.d, &self.codes(), |i| half(&self.scales, i), 0.25, out);
    }
}

/// A super-block of IQ2_S, with a scale for every 16 elements.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..34 | `qs`: the low eight bits of the index of every 8 elements |
/// | 34..66 | `signs`: the signs of every 8 elements |
/// | 66..74 | `qh`: bits `2 * (i % 4)` and up of byte `i / 4` are the upper two bits of index `i` |
/// | 74..82 | `scales`, as in [`BlockIq2Xs`] |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq2S {
    /// The super-block scale.
    pub d: F16Scale,
    /// The low bits of the indices.
    pub qs: [u8; 32],
    /// The signs.
    pub signs: [u8; 32],
    /// The upper bits of the indices.
    pub qh: [u8; 8],
    /// The packed scales.
    pub scales: [u8; 8],
}

impl BlockIq2S {
    /// The codes in element order.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        eights(|i| {
            let high = usize::from(self.qh[i / 4] >> (2 * (i % 4)) & 3);
            signed(IQ2_S_GRID.0[usize::from(self.qs[i]) | high << 8], self.signs[i])
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        scale_codes(self.d, &self.codes(), |i| half(&self.scales, i), 0.25, out);
    }
}

/// Collects 256 codes, eight at a time.
#[inline]
pub(crate) fn eights(codes_of: impl Fn(usize) -> [i8; 8]) -> [i8; 256] {
    let mut codes = [0; 256];
    for (i, codes) in codes.as_chunks_mut().0.iter_mut().enumerate() {
        *codes = codes_of(i);
    }
    codes
}

/// The four-bit scale of sub-block `i` of 16 elements.
#[inline]
fn half(scales: &[u8; 8], i: usize) -> u8 {
    scales[i / 2] >> (4 * (i % 2)) & 15
}

/// Decodes codes with scales of sub-blocks of 16: `d * (scale + 0.5) * factor * code`.
#[inline]
pub(crate) fn scale_codes(
    d: F16Scale,
    codes: &[i8; 256],
    scale_of: impl Fn(usize) -> u8,
    factor: f32,
    out: &mut [f32; 256],
) {
    let d = d.to_f32();
    let parts = out.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0);
    for (i, (out, codes)) in parts.enumerate() {
        let scale = d * (0.5 + f32::from(scale_of(i))) * factor;
        for (x, &q) in out.iter_mut().zip(codes) {
            *x = scale * f32::from(q);
        }
    }
}
