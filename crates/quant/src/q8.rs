//! Q8_0: eight bits a number in blocks of 32 (`block_q8_0` of `ggml-common.h`).

use bytemuck::{Pod, Zeroable};

use crate::scale::{F16Scale, extreme, reciprocal};

/// A block of Q8_0: number `i` is `d * qs[i]`.
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
    /// The codes; the encoder stays within ±127, a file may hold −128.
    pub qs: [i8; 32],
}

impl BlockQ8_0 {
    /// The numbers.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 32]) {
        let d = self.d.to_f32();
        for (x, q) in out.iter_mut().zip(self.qs) {
            *x = d * f32::from(q);
        }
    }

    /// Codes are rounded to the nearest, halves away from zero.
    pub(crate) fn encode(values: &[f32; 32]) -> Option<Self> {
        let d = extreme(values).abs() / 127.0;
        let inverse = reciprocal(d);
        Some(Self { d: F16Scale::from_f32(d)?, qs: values.map(|v| round(v * inverse)) })
    }
}

/// As `f32::round`, for numbers that fit an i8, in steps that vectorize on any processor.
fn round(x: f32) -> i8 {
    let whole = x as i32;
    let rest = x - whole as f32;
    (whole + i32::from(rest >= 0.5) - i32::from(rest <= -0.5)) as i8
}
