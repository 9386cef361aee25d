//! IQ3_XXS and IQ3_S: about three bits per element, in codebooks of four magnitudes
//! (`block_iq3_xxs` and `block_iq3_s` of `ggml-common.h`).

use bytemuck::{Pod, Zeroable};

use crate::grids::{IQ3_S_GRID, IQ3_XXS_GRID, even_signs, signed};
use crate::iq2::{eights, scale_codes};
use crate::scale::F16Scale;

/// A super-block of IQ3_XXS: element `i` is `d * (scale + 0.5) / 2 * codes[i]`, with the scale of
/// elements `i / 32 * 32` and up.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..66 | `qs`: the index of every 4 elements |
/// | 66..98 | `signs`: a word for every 32 elements: at bits `7 * l` the signs of 8 elements ([`even_signs`]), at bit 28 the scale |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq3Xxs {
    /// The super-block scale.
    pub d: F16Scale,
    /// The indices.
    pub qs: [[u8; 2]; 32],
    /// Signs and scales, little-endian words.
    pub signs: [[u8; 4]; 8],
}

impl BlockIq3Xxs {
    /// The codes in element order.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        eights(|i| {
            let word = u32::from_le_bytes(self.signs[i / 4]);
            let values = self.qs[i].map(|index| IQ3_XXS_GRID.0[usize::from(index)]);
            signed(joined(values), even_signs((word >> (7 * (i % 4))) as u8))
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        scale_codes(self.d, &self.codes(), |i| self.signs[i / 2][3] >> 4, 0.5, out);
    }
}

/// A super-block of IQ3_S: element `i` is `d * (1 + 2 * scale) * codes[i]`, with the scale of
/// elements `i / 32 * 32` and up.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..66 | `qs`: the low eight bits of the index of every 4 elements |
/// | 66..74 | `qh`: bit `i % 8` of byte `i / 8` is the ninth bit of index `i` |
/// | 74..106 | `signs`: the signs of every 8 elements |
/// | 106..110 | `scales`: the scale of elements `64 * j` and up in the low half of byte `j`, of `64 * j + 32` and up in the high half |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq3S {
    /// The super-block scale.
    pub d: F16Scale,
    /// The low bits of the indices.
    pub qs: [u8; 64],
    /// The ninth bits of the indices.
    pub qh: [u8; 8],
    /// The signs.
    pub signs: [u8; 32],
    /// The packed scales.
    pub scales: [u8; 4],
}

impl BlockIq3S {
    /// The codes in element order.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        eights(|i| {
            let values = [2 * i, 2 * i + 1].map(|i| {
                let high = usize::from(self.qh[i / 8] >> (i % 8) & 1);
                IQ3_S_GRID.0[usize::from(self.qs[i]) | high << 8]
            });
            signed(joined(values), self.signs[i])
        })
    }

    /// The scales of the 8 sub-blocks of 32, 0 to 15.
    #[inline]
    pub fn scales(&self) -> [u8; 8] {
        std::array::from_fn(|i| self.scales[i / 2] >> (4 * (i % 2)) & 15)
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let codes = self.codes();
        let parts = out.as_chunks_mut::<32>().0.iter_mut().zip(codes.as_chunks::<32>().0);
        for ((out, codes), scale) in parts.zip(self.scales()) {
            let scale = d * f32::from(1 + 2 * scale);
            for (x, &q) in out.iter_mut().zip(codes) {
                *x = scale * f32::from(q);
            }
        }
    }
}

/// Eight values of two entries of a codebook.
#[inline]
fn joined(entries: [[i8; 4]; 2]) -> [i8; 8] {
    std::array::from_fn(|i| entries[i / 4][i % 4])
}
