//! Fits of a scale and a minimum: a value is `scale · code − min`.

use super::values::{LANES, nearest};
use crate::scale::reciprocal;

/// `codes · scale − min` for a sub-block.
#[derive(Clone, Copy, Default)]
pub(crate) struct Affine {
    pub(crate) scale: f32,
    /// At least 0.
    pub(crate) min: f32,
}

/// The candidates: ranges of `top + first + step · i` codes for `i` below `count`, where that of
/// the values has `top`.
#[derive(Clone, Copy)]
pub(crate) struct Search {
    pub(crate) first: f32,
    pub(crate) step: f32,
    pub(crate) count: usize,
}

impl Search {
    /// For weights by importance.
    pub(crate) const IMPORTANT: Self = Self { first: -0.9, step: 0.05, count: 37 };
}

/// The sums of a weighted linear regression of values on codes.
#[derive(Clone, Copy, Default)]
struct Sums {
    w: f32,
    q: f32,
    qq: f32,
    x: f32,
    xq: f32,
}

/// A scale and a minimum as they are stored.
pub(crate) struct Stored {
    pub(crate) scale: u8,
    pub(crate) min: u8,
    /// The values that the codes stand for.
    pub(crate) exact: Affine,
}

/// The differences of a scale's and a minimum's codes from the rounded ones.
const AROUND: [(f32, f32); LANES] = [
    (-1.0, -1.0),
    (-1.0, 0.0),
    (-1.0, 1.0),
    (0.0, -1.0),
    (0.0, 1.0),
    (1.0, -1.0),
    (1.0, 0.0),
    (1.0, 1.0),
];

impl Affine {
    /// The code of a value, at most `top`.
    #[inline(always)]
    pub(crate) fn code(self, inverse: f32, top: f32, value: f32) -> f32 {
        nearest((value + self.min) * inverse, 0.0, top)
    }

    /// Fits codes 0 to `top` to values: from the range of the values and some narrower and wider
    /// ones, each improved by a regression on its codes.
    #[inline(always)]
    pub(crate) fn fit<const LEN: usize>(
        values: &[f32; LEN],
        weights: &[f32; LEN],
        top: f32,
        search: Search,
    ) -> Self {
        let low = values.iter().fold(0.0f32, |low, &v| low.min(v));
        let high = values.iter().fold(low, |high, &v| high.max(v));
        let range = Self { scale: (high - low) / top, min: -low };
        if reciprocal(range.scale) == 0.0 {
            return Self { scale: 0.0, min: -low };
        }
        let mut best = (f32::INFINITY, range);
        // the last candidate is the range itself
        for first in (0..=search.count).step_by(LANES) {
            let inverses: [f32; LANES] = std::array::from_fn(|lane| {
                (top + search.first + search.step * (first + lane) as f32) / (high - low)
            });
            let mut candidates = range.improved(&inverses, values, weights, top);
            if let Some(last) = candidates.get_mut(search.count - first) {
                *last = range;
            }
            let errors = Self::errors(&candidates, values, weights, top);
            let of_steps = candidates.iter().zip(errors).take(search.count + 1 - first);
            for (&candidate, error) in of_steps {
                if candidate.scale > 0.0 && error < best.0 {
                    best = (error, candidate);
                }
            }
        }
        let (error, fit) = best;
        let [again, ..] = fit.improved(&[reciprocal(fit.scale); LANES], values, weights, top);
        let [error_again, ..] = Self::errors(&[again; LANES], values, weights, top);
        if again.scale > 0.0 && error_again < error { again } else { fit }
    }

    /// The codes of the scale and the minimum in units of `units`, at most `code_top`: those of the
    /// least error among the rounded ones and their neighbours.
    #[inline(always)]
    pub(crate) fn stored<const LEN: usize>(
        self,
        units: Self,
        code_top: f32,
        values: &[f32; LEN],
        weights: &[f32; LEN],
        top: f32,
    ) -> Stored {
        let rounded = |value: f32, unit: f32| nearest(value * reciprocal(unit), 0.0, code_top);
        let center = (rounded(self.scale, units.scale), rounded(self.min, units.min));
        let around = AROUND.map(|(scale, min)| {
            let bounded = |code: f32| code.clamp(0.0, code_top);
            (bounded(center.0 + scale), bounded(center.1 + min))
        });
        let exact =
            |(scale, min): (f32, f32)| Self { scale: units.scale * scale, min: units.min * min };
        let [error, ..] = Self::errors(&[exact(center); LANES], values, weights, top);
        let mut best = (error, center);
        let errors = Self::errors(&around.map(exact), values, weights, top);
        for (error, codes) in errors.into_iter().zip(around) {
            if error < best.0 {
                best = (error, codes);
            }
        }
        let (_, codes) = best;
        Stored { scale: codes.0 as u8, min: codes.1 as u8, exact: exact(codes) }
    }

    /// The weighted squared errors of candidates.
    #[inline(always)]
    pub(crate) fn errors<const LEN: usize>(
        candidates: &[Self; LANES],
        values: &[f32; LEN],
        weights: &[f32; LEN],
        top: f32,
    ) -> [f32; LANES] {
        let scales = candidates.map(|candidate| candidate.scale);
        let mins = candidates.map(|candidate| candidate.min);
        let inverses = scales.map(reciprocal);
        let mut sums = [0.0; LANES];
        for (&v, &w) in values.iter().zip(weights) {
            for lane in 0..LANES {
                let q = nearest((v + mins[lane]) * inverses[lane], 0.0, top);
                let d = scales[lane] * q - mins[lane] - v;
                sums[lane] += w * d * d;
            }
        }
        sums
    }

    /// The regressions on the codes that ranges give, by the reciprocals of their scales.
    #[inline(always)]
    fn improved<const LEN: usize>(
        self,
        inverses: &[f32; LANES],
        values: &[f32; LEN],
        weights: &[f32; LEN],
        top: f32,
    ) -> [Self; LANES] {
        let (mut w_sum, mut x_sum) = (0.0, 0.0);
        let (mut q_sums, mut qq_sums, mut xq_sums) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        for (&x, &w) in values.iter().zip(weights) {
            w_sum += w;
            x_sum += w * x;
            for lane in 0..LANES {
                let q = self.code(inverses[lane], top, x);
                q_sums[lane] += w * q;
                qq_sums[lane] += w * q * q;
                xq_sums[lane] += w * x * q;
            }
        }
        std::array::from_fn(|lane| {
            let (q, qq, xq) = (q_sums[lane], qq_sums[lane], xq_sums[lane]);
            Sums { w: w_sum, q, qq, x: x_sum, xq }.solve()
        })
    }
}

impl Sums {
    /// The scale and the minimum of the least squared error, the minimum at least 0.
    #[inline(always)]
    fn solve(self) -> Affine {
        let Self { w, q, qq, x, xq } = self;
        let determinant = w * qq - q * q;
        if determinant > 0.0 {
            let affine = Affine {
                scale: (w * xq - q * x) / determinant,
                min: (q * xq - qq * x) / determinant,
            };
            if affine.min >= 0.0 {
                return affine;
            }
        }
        Affine { scale: if qq > 0.0 { xq / qq } else { 0.0 }, min: 0.0 }
    }
}
