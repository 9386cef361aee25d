//! Fits of a scale alone: a value is `scale · level`.

use super::values::LANES;
use crate::scale::reciprocal;

/// The candidates of a scale: those that map `value` to the level `level` or `opposite`, to one
/// `step` farther from 0 or nearer to it, and so on up to `reach` steps. `opposite` is the last
/// level on the other side of 0, if there is one.
#[derive(Clone, Copy)]
pub(crate) struct Anchor {
    pub(crate) value: f32,
    pub(crate) level: f32,
    pub(crate) opposite: f32,
    pub(crate) step: f32,
    pub(crate) reach: usize,
}

impl Anchor {
    /// The scale that explains most of the values' weighted squares; that of the anchor itself if
    /// the squares underflow, and 0 if its reciprocal overflows. `quantize` gives the level nearest
    /// to a scaled value.
    #[inline(always)]
    pub(crate) fn fit<const LEN: usize>(
        self,
        values: &[f32; LEN],
        weights: &[f32; LEN],
        quantize: impl Fn(f32) -> f32,
    ) -> f32 {
        let Self { value, level, opposite, step, reach } = self;
        if reciprocal(value / level) == 0.0 {
            return 0.0;
        }
        let of_level = 2 * reach + 1;
        let candidates = if opposite == 0.0 { of_level } else { 2 * of_level };
        let mut best = (0.0, value / level);
        for first in (0..candidates).step_by(LANES) {
            let inverses: [f32; LANES] = std::array::from_fn(|lane| {
                let i = first + lane;
                let level = if i < of_level { level } else { opposite };
                let steps = (i % of_level) as i32 - reach as i32;
                (level.abs() + step * steps as f32).copysign(level) / value
            });
            let (mut xq, mut qq) = ([0.0f32; LANES], [0.0f32; LANES]);
            for (&x, &w) in values.iter().zip(weights) {
                for lane in 0..LANES {
                    let q = quantize(x * inverses[lane]);
                    xq[lane] += w * x * q;
                    qq[lane] += w * q * q;
                }
            }
            for (&xq, &qq) in xq.iter().zip(&qq).take(candidates - first) {
                if qq > 0.0 && xq * (xq / qq) > best.0 {
                    best = (xq * (xq / qq), xq / qq);
                }
            }
        }
        best.1
    }
}
