//! Encoders of Q4_K, Q5_K and Q6_K: for each sub-block the scale (and minimum) of the least weighted
//! squared error among some candidates, then codes for the scales as they are stored.

use crate::k_quants::{BlockQ4K, BlockQ5K, BlockQ6K, pack_run};
use crate::scale::{F16Scale, extreme, reciprocal};

/// The largest scale or minimum of a sub-block of Q4_K or Q5_K.
const SCALE_MAX: f32 = 63.0;

/// `codes · scale − min` for a sub-block.
#[derive(Clone, Copy, Default)]
struct Affine {
    scale: f32,
    /// At least 0.
    min: f32,
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

/// Candidates that are tried at a time, each in a lane of its own: the sums of a lane have the order of the values,
/// so that vectors change no result.
const LANES: usize = 8;

/// 2^23, the least magnitude from which f32 has integers alone.
const NO_FRACTION: f32 = 8_388_608.0;

/// The nearest integer between `low` and `high`, which are integers; halves go away from zero, as with
/// [`f32::round`], which is a call of a function on CPUs without SSE4.1.
fn nearest(value: f32, low: f32, high: f32) -> f32 {
    // comparisons, as maximum and minimum instructions need no care for NaN then
    let bounded = if value > low { value } else { low };
    let bounded = if bounded < high { bounded } else { high };
    let magnitude = bounded.abs();
    // the sum has no bits for a fraction, and is rounded to even
    let even = (magnitude + NO_FRACTION) - NO_FRACTION;
    let up = if magnitude - even == 0.5 { 1.0 } else { 0.0 };
    (even + up).copysign(bounded)
}

impl Affine {
    /// The code of a value, at most `top`.
    fn code(self, inverse: f32, top: f32, value: f32) -> f32 {
        nearest((value + self.min) * inverse, 0.0, top)
    }

    /// Fits codes 0 to `top` to values: from the range of the values and some narrower and wider
    /// ones, each improved by a regression on its codes.
    fn fit(values: &[f32; 32], top: f32) -> Self {
        const CANDIDATES: usize = 21;
        let unit = (values.iter().map(|v| v * v).sum::<f32>() / 32.0).sqrt();
        // elements of large magnitude count more
        let weights = values.map(|v| unit + v.abs());
        let low = values.iter().fold(0.0f32, |low, &v| low.min(v));
        let high = values.iter().fold(low, |high, &v| high.max(v));
        let range = Self { scale: (high - low) / top, min: -low };
        if reciprocal(range.scale) == 0.0 {
            return Self { scale: 0.0, min: -low };
        }
        let [error, ..] = errors(&[range; LANES], values, &weights, top);
        let mut best = (error, range);
        for first in (0..CANDIDATES).step_by(LANES) {
            let candidates = improved(range, first, high - low, values, &weights, top);
            let errors = errors(&candidates, values, &weights, top);
            let of_steps = candidates.iter().zip(errors).take(CANDIDATES - first);
            for (&candidate, error) in of_steps {
                if candidate.scale > 0.0 && error < best.0 {
                    best = (error, candidate);
                }
            }
        }
        best.1
    }
}

/// The weighted squared errors of candidates.
fn errors(
    candidates: &[Affine; LANES],
    values: &[f32; 32],
    weights: &[f32; 32],
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

/// The regressions on the codes of the ranges from step `first` on: each is a tenth of a code wider than the one
/// before.
fn improved(
    range: Affine,
    first: usize,
    width: f32,
    values: &[f32; 32],
    weights: &[f32; 32],
    top: f32,
) -> [Affine; LANES] {
    let inverses: [f32; LANES] =
        std::array::from_fn(|lane| (top - 1.0 + 0.1 * (first + lane) as f32) / width);
    let (mut w_sum, mut x_sum) = (0.0, 0.0);
    let (mut q_sums, mut qq_sums, mut xq_sums) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    for (&x, &w) in values.iter().zip(weights) {
        w_sum += w;
        x_sum += w * x;
        for lane in 0..LANES {
            let q = range.code(inverses[lane], top, x);
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

impl Sums {
    /// The scale and the minimum of the least squared error, the minimum at least 0.
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

/// The scales and minima of a super-block as they are stored, with the codes.
struct K4 {
    d: F16Scale,
    dmin: F16Scale,
    scales: [u8; 12],
    codes: [u8; 256],
}

/// Encodes a super-block with codes 0 to `top`; `None` if a scale is no finite f16.
fn k4(values: &[f32; 256], top: f32) -> Option<K4> {
    let (parts, _) = values.as_chunks::<32>();
    let mut fits = [Affine::default(); 8];
    for (fit, part) in fits.iter_mut().zip(parts) {
        *fit = Affine::fit(part, top);
    }
    let largest = |of: fn(&Affine) -> f32| fits.iter().map(of).fold(0.0f32, f32::max);
    let d = F16Scale::from_f32(largest(|fit| fit.scale) / SCALE_MAX)?;
    let dmin = F16Scale::from_f32(largest(|fit| fit.min) / SCALE_MAX)?;
    let stored =
        |value: f32, unit: f32| (value * reciprocal(unit)).round().clamp(0.0, SCALE_MAX) as u8;
    let (mut scales, mut codes) = ([0; 12], [0; 256]);
    let all = fits.iter().zip(parts).zip(codes.as_chunks_mut::<32>().0);
    for (i, ((fit, part), codes)) in all.enumerate() {
        let scale = stored(fit.scale, d.to_f32());
        let min = stored(fit.min, dmin.to_f32());
        set_scale_min(&mut scales, i, scale, min);
        let exact =
            Affine { scale: d.to_f32() * f32::from(scale), min: dmin.to_f32() * f32::from(min) };
        let inverse = reciprocal(exact.scale);
        *codes = part.map(|v| exact.code(inverse, top, v) as u8);
    }
    Some(K4 { d, dmin, scales, codes })
}

/// Packs a scale and a minimum where [`scale_min_k4`](crate::scale_min_k4) finds them.
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
    pub(crate) fn encode(values: &[f32; 256]) -> Option<Self> {
        let K4 { d, dmin, scales, codes } = k4(values, 15.0)?;
        let mut qs = [0; 128];
        for (run, codes) in codes.as_chunks().0.iter().enumerate() {
            pack_run(&mut qs, 4, run, codes);
        }
        Some(Self { d, dmin, scales, qs })
    }
}

impl BlockQ5K {
    pub(crate) fn encode(values: &[f32; 256]) -> Option<Self> {
        let K4 { d, dmin, scales, codes } = k4(values, 31.0)?;
        let (mut qs, mut qh) = ([0; 128], [0; 32]);
        for (run, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
            pack_run(&mut qs, 4, run, &codes.map(|q| q & 15));
            pack_run(&mut qh, 1, run, &codes.map(|q| q >> 4));
        }
        Some(Self { d, dmin, scales, qh, qs })
    }
}

/// Fits `codes · scale` with codes −32 to 31 to values: the scale that explains most of the values'
/// squares, of some near that which gives the largest value the code −32.
fn symmetric(values: &[f32; 16]) -> f32 {
    const CANDIDATES: usize = 19;
    let largest = extreme(values);
    if reciprocal(largest / -32.0) == 0.0 {
        return 0.0;
    }
    // each element counts by its square, relative to the largest
    let weights = values.map(|x| (x / largest) * (x / largest));
    let mut best = (0.0, largest / -32.0);
    for first in (0..CANDIDATES).step_by(LANES) {
        let inverses: [f32; LANES] = std::array::from_fn(|lane| {
            let step = (first + lane) as i32 - 9;
            -(32.0 + 0.1 * step as f32) / largest
        });
        let (mut xq, mut qq) = ([0.0f32; LANES], [0.0f32; LANES]);
        for (&x, &w) in values.iter().zip(&weights) {
            for lane in 0..LANES {
                let q = nearest(x * inverses[lane], -32.0, 31.0);
                xq[lane] += w * x * q;
                qq[lane] += w * q * q;
            }
        }
        for (&xq, &qq) in xq.iter().zip(&qq).take(CANDIDATES - first) {
            if qq > 0.0 && xq * (xq / qq) > best.0 {
                best = (xq * (xq / qq), xq / qq);
            }
        }
    }
    best.1
}

impl BlockQ6K {
    pub(crate) fn encode(values: &[f32; 256]) -> Option<Self> {
        let (parts, _) = values.as_chunks::<16>();
        let mut fits = [0.0; 16];
        for (fit, part) in fits.iter_mut().zip(parts) {
            *fit = symmetric(part);
        }
        let d = F16Scale::from_f32(extreme(&fits) / -128.0)?;
        let unit = reciprocal(d.to_f32());
        let (mut scales, mut codes) = ([0i8; 16], [0u8; 256]);
        let all = fits.iter().zip(parts).zip(codes.as_chunks_mut::<16>().0);
        for (stored, ((fit, part), codes)) in scales.iter_mut().zip(all) {
            *stored = (fit * unit).round().clamp(-128.0, 127.0) as i8;
            let inverse = reciprocal(d.to_f32() * f32::from(*stored));
            *codes = part.map(|v| (nearest(v * inverse, -32.0, 31.0) + 32.0) as u8);
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
