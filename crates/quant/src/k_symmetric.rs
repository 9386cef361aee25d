//! Encoders of Q3_K and Q6_K: for each sub-block the scale that explains most of the values' weighted squares among
//! some candidates, then codes for it as it is stored.

use crate::fit::{Anchor, LANES, important, mean_square, nearest, part, scale_errors, squares};
use crate::k_quants::{BlockQ3K, BlockQ6K, pack_run};
use crate::scale::{F16Scale, extreme, reciprocal};

/// Fits `codes · scale` with codes from `-bound` to `bound − 1` to values.
#[inline(always)]
fn symmetric<const LEN: usize>(values: &[f32; LEN], weights: &[f32; LEN], bound: f32) -> f32 {
    // the two ends of many codes differ little
    let opposite = if bound > 8.0 { 0.0 } else { bound - 1.0 };
    let anchor = Anchor { value: extreme(values), level: -bound, opposite, step: 0.1, reach: 9 };
    anchor.fit(values, weights, |v| nearest(v, -bound, bound - 1.0))
}

impl BlockQ6K {
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 256], importance: Option<&[f32; 256]>) -> Option<Self> {
        let quantize = |v: f32| nearest(v, -32.0, 31.0);
        let (parts, _) = values.as_chunks::<16>();
        let (mut fits, mut all_weights) = ([0.0; 16], [[0.0; 16]; 16]);
        for (p, values) in parts.iter().enumerate() {
            all_weights[p] = match importance {
                None => squares(values, extreme(values)),
                Some(importance) => *part(importance, p),
            };
            fits[p] = symmetric(values, &all_weights[p], 32.0);
        }
        let d = F16Scale::reaching(extreme(&fits) / -128.0)?;
        let unit = d.to_f32();
        let (mut scales, mut codes) = ([0i8; 16], [0u8; 256]);
        for (p, (values, codes)) in parts.iter().zip(codes.as_chunks_mut::<16>().0).enumerate() {
            let (_, scale) =
                nearest_scale(fits[p], (unit, 128.0), values, &all_weights[p], quantize);
            scales[p] = scale as i8;
            let inverse = reciprocal(unit * scale);
            *codes = values.map(|v| (quantize(v * inverse) + 32.0) as u8);
        }
        let (mut ql, mut qh) = ([0; 128], [0; 64]);
        for (run, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
            // the middle two of each four runs are swapped relative to Q4_K
            let low = [0, 2, 1, 3, 4, 6, 5, 7][run];
            pack_run(&mut ql, 4, low, &codes.map(|q| q & 15));
            pack_run(&mut qh, 2, run, &codes.map(|q| q >> 4));
        }
        Some(Self { ql, qh, scales, d })
    }
}

/// Differences from the rounded code of a scale.
const STEPS: [f32; LANES] = [-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0];

impl BlockQ3K {
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 256], importance: Option<&[f32; 256]>) -> Option<Self> {
        let quantize = |v: f32| nearest(v, -4.0, 3.0);
        let (parts, _) = values.as_chunks::<16>();
        let square = importance.map_or(0.0, |_| 2.0 * mean_square(values));
        let largest = extreme(values);
        let (mut fits, mut sums, mut all_weights) = ([0.0; 16], [0.0; 16], [[0.0; 16]; 16]);
        for (p, values) in parts.iter().enumerate() {
            let weights = match importance {
                None => squares(values, largest),
                Some(importance) => important(values, part(importance, p), square),
            };
            fits[p] = symmetric(values, &weights, 4.0);
            (sums[p], all_weights[p]) = (weights.iter().sum(), weights);
        }
        let d = F16Scale::from_f32(symmetric(&fits, &sums, 32.0))?;
        let super_block = SuperBlock { fits: &fits, values: parts, weights: &all_weights };
        let Scaled { d, codes: of_scales } = super_block.scaled(d, quantize);
        let (mut scales, mut codes) = ([0; 12], [0u8; 256]);
        for (p, (values, codes)) in parts.iter().zip(codes.as_chunks_mut::<16>().0).enumerate() {
            set_scale(&mut scales, p, (of_scales[p] + 32.0) as u8);
            let inverse = reciprocal(d.to_f32() * of_scales[p]);
            *codes = values.map(|v| (quantize(v * inverse) + 4.0) as u8);
        }
        let (mut qs, mut hmask) = ([0; 64], [0; 32]);
        for (run, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
            pack_run(&mut qs, 2, run, &codes.map(|q| q & 3));
            pack_run(&mut hmask, 1, run, &codes.map(|q| q >> 2));
        }
        Some(Self { hmask, qs, scales, d })
    }
}

/// The sub-blocks of a super-block whose scales have six bits, with the scale that fits each.
pub(crate) struct SuperBlock<'a, const PARTS: usize, const LEN: usize> {
    pub(crate) fits: &'a [f32; PARTS],
    pub(crate) values: &'a [[f32; LEN]],
    pub(crate) weights: &'a [[f32; LEN]; PARTS],
}

/// The scale of a super-block and the codes of those of its sub-blocks, −32 to 31.
pub(crate) struct Scaled<const PARTS: usize> {
    pub(crate) d: F16Scale,
    pub(crate) codes: [f32; PARTS],
}

impl<const PARTS: usize, const LEN: usize> SuperBlock<'_, PARTS, LEN> {
    /// The codes of the sub-blocks' scales in units of `d`, or of the regression of the values on the codes that `d`
    /// gives, if its error is less.
    #[inline(always)]
    pub(crate) fn scaled(
        &self,
        d: F16Scale,
        quantize: impl Fn(f32) -> f32 + Copy,
    ) -> Scaled<PARTS> {
        let (error, first) = self.codes(d, quantize);
        let (mut xq, mut qq) = (0.0, 0.0);
        for ((values, weights), code) in self.values.iter().zip(self.weights).zip(first.codes) {
            let inverse = reciprocal(d.to_f32() * code);
            for (&x, &w) in values.iter().zip(weights) {
                let q = code * quantize(x * inverse);
                xq += w * x * q;
                qq += w * q * q;
            }
        }
        let Some(d) = F16Scale::from_f32(xq / qq) else { return first };
        let (error_again, again) = self.codes(d, quantize);
        if error_again < error { again } else { first }
    }

    /// The weighted squared error of a scale of the super-block, with the codes of the sub-blocks' scales.
    #[inline(always)]
    fn codes(&self, d: F16Scale, quantize: impl Fn(f32) -> f32 + Copy) -> (f32, Scaled<PARTS>) {
        let (mut sum, mut codes) = (0.0, [0.0; PARTS]);
        for (p, code) in codes.iter_mut().enumerate() {
            let (values, weights) = (&self.values[p], &self.weights[p]);
            let (error, nearest) =
                nearest_scale(self.fits[p], (d.to_f32(), 32.0), values, weights, quantize);
            sum += error;
            *code = nearest;
        }
        (sum, Scaled { d, codes })
    }
}

/// The error and the code of a scale in units of `unit`, from `-bound` to `bound − 1`, with the least error of those
/// near the rounded one.
#[inline(always)]
fn nearest_scale<const LEN: usize>(
    scale: f32,
    (unit, bound): (f32, f32),
    values: &[f32; LEN],
    weights: &[f32; LEN],
    quantize: impl Fn(f32) -> f32 + Copy,
) -> (f32, f32) {
    let center = nearest(scale * reciprocal(unit), -bound, bound - 1.0);
    let [error, ..] = scale_errors(&[unit * center; LANES], values, weights, quantize);
    let around = STEPS.map(|step| (center + step).clamp(-bound, bound - 1.0));
    let mut best = (error, center);
    let errors = scale_errors(&around.map(|code| unit * code), values, weights, quantize);
    for (error, code) in errors.into_iter().zip(around) {
        if error < best.0 {
            best = (error, code);
        }
    }
    best
}

/// Packs a scale with its offset of 32 where [`BlockQ3K::scales`] finds it.
#[inline(always)]
fn set_scale(scales: &mut [u8; 12], index: usize, scale: u8) {
    scales[index % 8] |= (scale & 15) << (4 * (index / 8));
    scales[8 + index % 4] |= (scale >> 4) << (2 * (index / 4));
}
