//! IQ4_NL: four-bit indices into 16 unevenly spaced levels, in blocks of 32 (`block_iq4_nl` and
//! `kvalues_iq4nl` of `ggml-common.h`).

use bytemuck::{Pod, Zeroable};

use crate::nibbles;
use crate::scale::F16Scale;

/// The values of the 16 codes of IQ4_NL before scaling.
pub const IQ4_NL_LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// A block of IQ4_NL: element `i` is `d * IQ4_NL_LEVELS[codes[i]]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..18 | `qs`: byte `j` has the code of element `j` in its low half, of `j + 16` in its high half |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq4Nl {
    /// The scale.
    pub d: F16Scale,
    /// The packed codes.
    pub qs: [u8; 16],
}

impl BlockIq4Nl {
    /// The codes in element order, 0 to 15.
    #[inline]
    pub fn codes(&self) -> [u8; 32] {
        nibbles::unpack(&self.qs)
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 32]) {
        let d = self.d.to_f32();
        for (x, q) in out.iter_mut().zip(self.codes()) {
            *x = d * f32::from(IQ4_NL_LEVELS[usize::from(q)]);
        }
    }
}
