//! Encoders of Q2_K, Q4_K and Q5_K: for each sub-block the scale and the minimum of the least
//! weighted squared error among some candidates, then codes for both as they are stored.

use crate::fit::{Affine, Anchor, Search, important, mean_square, nearest, part};
use crate::k_quants::{BlockQ2K, BlockQ4K, BlockQ5K, pack_run};
use crate::scale::{F16Scale, reciprocal};

/// The largest scale or minimum of a sub-block of Q4_K or Q5_K.
const SCALE_MAX: f32 = 63.0;

/// The largest scale or minimum of a sub-block of Q2_K.
const SCALE_MAX_2: f32 = 15.0;

/// The candidates of Q4_K and Q5_K without importance.
const PLAIN: Search = Search { first: -1.0, step: 0.1, count: 21 };

/// The candidates of Q2_K without importance.
const PLAIN_2: Search = Search { first: -0.5, step: 0.1, count: 15 };

/// Weights without importance, each value's magnitude above `unit`.
#[inline(always)]
fn plain_weights<const LEN: usize>(values: &[f32; LEN]) -> [f32; LEN] {
    let unit = mean_square(values).sqrt();
    values.map(|v| unit + v.abs())
}

/// The units of `PARTS` scales and minima whose codes go to `top`: the largest becomes `top`, or
/// with weights of sub-blocks, the unit is that of the least weighted error.
#[inline(always)]
fn units<const PARTS: usize>(
    fits: &[Affine; PARTS],
    weights: Option<&[f32; PARTS]>,
    top: f32,
) -> Option<(F16Scale, F16Scale)> {
    let unit = |of: fn(&Affine) -> f32| {
        let largest = fits.iter().map(of).fold(0.0f32, f32::max);
        let unit = match weights {
            None => largest / top,
            Some(weights) => {
                let values = std::array::from_fn(|p| of(&fits[p]));
                let anchor =
                    Anchor { value: largest, level: top, opposite: 0.0, step: 0.1, reach: 7 };
                anchor.fit(&values, weights, |v| nearest(v, 0.0, top))
            }
        };
        F16Scale::from_f32(unit)
    };
    Some((unit(|fit| fit.scale)?, unit(|fit| fit.min)?))
}

/// The scales and minima of a super-block as they are stored, with the codes.
struct K4 {
    d: F16Scale,
    dmin: F16Scale,
    scales: [u8; 12],
    codes: [u8; 256],
}

/// Encodes a super-block with codes 0 to `top`; `None` if a scale is no finite f16.
#[inline(always)]
fn k4(values: &[f32; 256], importance: Option<&[f32; 256]>, top: f32) -> Option<K4> {
    let (parts, _) = values.as_chunks::<32>();
    let (mut fits, mut sums) = ([Affine::default(); 8], [0.0; 8]);
    let mut all_weights = [[0.0; 32]; 8];
    let square = importance.map_or(0.0, |_| 2.0 * mean_square(values));
    let search = importance.map_or(PLAIN, |_| Search::IMPORTANT);
    for (p, values) in parts.iter().enumerate() {
        let weights = match importance {
            None => plain_weights(values),
            Some(importance) => important(values, part(importance, p), square),
        };
        fits[p] = Affine::fit(values, &weights, top, search);
        (sums[p], all_weights[p]) = (weights.iter().sum(), weights);
    }
    let (d, dmin) = units(&fits, importance.map(|_| &sums), SCALE_MAX)?;
    let units = Affine { scale: d.to_f32(), min: dmin.to_f32() };
    let (mut scales, mut codes) = ([0; 12], [0; 256]);
    for (p, (values, codes)) in parts.iter().zip(codes.as_chunks_mut::<32>().0).enumerate() {
        let stored = fits[p].stored(units, SCALE_MAX, values, &all_weights[p], top);
        set_scale_min(&mut scales, p, stored.scale, stored.min);
        let inverse = reciprocal(stored.exact.scale);
        *codes = values.map(|v| stored.exact.code(inverse, top, v) as u8);
    }
    Some(K4 { d, dmin, scales, codes })
}

/// Packs a scale and a minimum where [`scale_min_k4`](crate::scale_min_k4) finds them.
#[inline(always)]
fn set_scale_min(scales: &mut [u8; 12], index: usize, scale: u8, min: u8) {
    if index < 4 {
        scales[index] |= scale;
        scales[index + 4] |= min;
    } else {
        scales[index + 4] = scale & 15 | (min & 15) << 4;
        scales[index - 4] |= scale >> 4 << 6;
        scales[index] |= min >> 4 << 6;
    }
}

impl BlockQ4K {
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 256], importance: Option<&[f32; 256]>) -> Option<Self> {
        let K4 { d, dmin, scales, codes } = k4(values, importance, 15.0)?;
        let mut qs = [0; 128];
        for (run, codes) in codes.as_chunks().0.iter().enumerate() {
            pack_run(&mut qs, 4, run, codes);
        }
        Some(Self { d, dmin, scales, qs })
    }
}

impl BlockQ5K {
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 256], importance: Option<&[f32; 256]>) -> Option<Self> {
        let K4 { d, dmin, scales, codes } = k4(values, importance, 31.0)?;
        let (mut qs, mut qh) = ([0; 128], [0; 32]);
        for (run, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
            pack_run(&mut qs, 4, run, &codes.map(|q| q & 15));
            pack_run(&mut qh, 1, run, &codes.map(|q| q >> 4));
        }
        Some(Self { d, dmin, scales, qh, qs })
    }
}

impl BlockQ2K {
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 256], importance: Option<&[f32; 256]>) -> Option<Self> {
        const TOP: f32 = 3.0;
        let (parts, _) = values.as_chunks::<16>();
        let square = importance.map_or(0.0, |_| mean_square(values));
        let search = importance.map_or(PLAIN_2, |_| Search::IMPORTANT);
        let (mut fits, mut sums, mut all_weights) =
            ([Affine::default(); 16], [0.0; 16], [[0.0; 16]; 16]);
        for (p, values) in parts.iter().enumerate() {
            let weights = match importance {
                None => plain_weights(values),
                Some(importance) => important(values, part(importance, p), square),
            };
            fits[p] = Affine::fit(values, &weights, TOP, search);
            (sums[p], all_weights[p]) = (weights.iter().sum(), weights);
        }
        let (d, dmin) = units(&fits, Some(&sums), SCALE_MAX_2)?;
        let units = Affine { scale: d.to_f32(), min: dmin.to_f32() };
        let (mut scales, mut codes) = ([0; 16], [0; 256]);
        for (p, (values, codes)) in parts.iter().zip(codes.as_chunks_mut::<16>().0).enumerate() {
            let stored = fits[p].stored(units, SCALE_MAX_2, values, &all_weights[p], TOP);
            scales[p] = stored.scale | stored.min << 4;
            let inverse = reciprocal(stored.exact.scale);
            *codes = values.map(|v| stored.exact.code(inverse, TOP, v) as u8);
        }
        let mut qs = [0; 64];
        for (run, codes) in codes.as_chunks().0.iter().enumerate() {
            pack_run(&mut qs, 2, run, codes);
        }
        Some(Self { scales, qs, d, dmin })
    }
}
