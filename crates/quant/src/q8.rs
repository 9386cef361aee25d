//! Q8_0: eight bits per element in blocks of 32 (`block_q8_0` of `ggml-common.h`).

use bytemuck::{Pod, Zeroable};

use crate::scale::{F16Scale, extreme, reciprocal};

/// A block of Q8_0: element `i` is `d * qs[i]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..34 | `qs`: the codes in element order, two's complement |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8_0 {
    /// The scale.
    pub d: F16Scale,
    /// The codes; the encoder produces −127 to 127, a file may also contain −128.
    pub qs: [i8; 32],
}

impl BlockQ8_0 {
    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 32]) {
        let d = self.d.to_f32();
        for (x, q) in out.iter_mut().zip(self.qs) {
            *x = d * f32::from(q);
        }
    }

    /// Encodes with codes rounded to nearest, halves away from zero.
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 32]) -> Option<Self> {
        let d = extreme(values).abs() / 127.0;
        let inverse = reciprocal(d);
        Some(Self { d: F16Scale::from_f32(d)?, qs: values.map(|v| round(v * inverse)) })
    }
}

/// `f32::round` for values in the range of an i8, in operations that vectorize on every CPU.
#[inline(always)]
fn round(x: f32) -> i8 {
    let whole = x as i32;
    let rest = x - whole as f32;
    (whole + i32::from(rest >= 0.5) - i32::from(rest <= -0.5)) as i8
}
