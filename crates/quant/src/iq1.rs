//! IQ1_S and IQ1_M: less than two bits per element, in a codebook of eight values −1, 0 and 1
//! (`block_iq1_s` and `block_iq1_m` of `ggml-common.h`).
//!
//! Element `i` of a super-block is `d * (2 * scale + 1) * (value + δ)`, with δ = ⅛ or −⅛.

use bytemuck::{Pod, Zeroable};

use crate::grids::IQ1_GRID;
use crate::iq2::eights;
use crate::scale::F16Scale;

/// A super-block of IQ1_S, with a scale and a δ for every 32 elements.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..34 | `qs`: the low eight bits of the index of every 8 elements |
/// | 34..50 | `qh`: a little-endian word of 16 bits for every 32 elements: at bits `3 * l` the upper three bits of index `l`, at bit 12 the scale, and at bit 15 whether δ is negative |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq1S {
    /// The super-block scale.
    pub d: F16Scale,
    /// The low bits of the indices.
    pub qs: [u8; 32],
    /// Upper bits of the indices, scales and signs.
    pub qh: [[u8; 2]; 8],
}

impl BlockIq1S {
    /// The codes `8 * (value + δ)` in element order.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        eights(|i| {
            let word = u16::from_le_bytes(self.qh[i / 4]);
            let high = usize::from(word >> (3 * (i % 4)) & 7);
            codes(usize::from(self.qs[i]) | high << 8, word >> 15 != 0)
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let scale = |i: usize| (u16::from_le_bytes(self.qh[i / 2]) >> 12 & 7) as u8;
        scale_codes(self.d, &self.codes(), scale, out);
    }
}

/// A super-block of IQ1_M, with a scale for every 16 elements and a δ for every 8.
///
/// | bytes | field |
/// |---|---|
/// | 0..32 | `qs`: the low eight bits of the index of every 8 elements |
/// | 32..48 | `qh`: in the half `i % 2` of byte `i / 2` the upper three bits of index `i`, and whether δ is negative |
/// | 48..56 | `scales`: four little-endian words of 16 bits: at bits `3 * (i % 4)` of word `i / 4` the scale of sub-block `i`; the upper four bits of each are four bits of `d` |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq1M {
    /// The low bits of the indices.
    pub qs: [u8; 32],
    /// Upper bits of the indices, and signs.
    pub qh: [u8; 16],
    /// The scales of sub-blocks and of the super-block.
    pub scales: [[u8; 2]; 4],
}

impl BlockIq1M {
    /// The super-block scale.
    #[inline]
    pub fn d(&self) -> F16Scale {
        let [a, b, c, d] = self.scales.map(|word| word[1] >> 4);
        F16Scale([a | b << 4, c | d << 4])
    }

    /// The scales of the 16 sub-blocks, 0 to 7.
    #[inline]
    pub fn scales(&self) -> [u8; 16] {
        std::array::from_fn(|i| (u16::from_le_bytes(self.scales[i / 4]) >> (3 * (i % 4)) & 7) as u8)
    }

    /// The codes `8 * (value + δ)` in element order.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        eights(|i| {
            let half = self.qh[i / 2] >> (4 * (i % 2)) & 15;
            codes(usize::from(self.qs[i]) | usize::from(half & 7) << 8, half & 8 != 0)
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let scales = self.scales();
        scale_codes(self.d(), &self.codes(), |i| scales[i], out);
    }
}

/// The codes of an entry of the codebook.
#[inline]
fn codes(index: usize, negative: bool) -> [i8; 8] {
    IQ1_GRID.0[index].map(|code| code - if negative { 18 } else { 16 })
}

/// Decodes codes with scales of sub-blocks of 16.
#[inline]
fn scale_codes(
    d: F16Scale,
    codes: &[i8; 256],
    scale_of: impl Fn(usize) -> u8,
    out: &mut [f32; 256],
) {
    let d = d.to_f32();
    let parts = out.as_chunks_mut::<16>().0.iter_mut().zip(codes.as_chunks::<16>().0);
    for (i, (out, codes)) in parts.enumerate() {
        let scale = d * f32::from(2 * scale_of(i) + 1);
        for (x, &q) in out.iter_mut().zip(codes) {
            *x = scale * (f32::from(q) * 0.125);
        }
    }
}
