//! Searches of the scales of all sub-blocks of a super-block at a time, each sub-block in a lane of
//! its own: the sums of a lane have the order of the values.

use super::levels::Levels;
use super::values::nearest;
use crate::scale::{F16Scale, reciprocal};

/// A value of each sub-block in each of the rows.
type Rows<const PARTS: usize, const LEN: usize> = [[f32; PARTS]; LEN];

/// The values of `PARTS` sub-blocks, with their weights.
pub(crate) struct SubBlocks<L, const PARTS: usize, const LEN: usize> {
    levels: L,
    /// The value of the largest magnitude of each sub-block, the first among equals.
    extremes: [f32; PARTS],
    folded: Rows<PARTS, LEN>,
    weights: Rows<PARTS, LEN>,
    /// Products of the two above.
    weighted: Rows<PARTS, LEN>,
    /// The greatest magnitudes of levels at positive scales.
    limits: Rows<PARTS, LEN>,
    /// The bits that differ in those at negative scales.
    flips: [[u32; PARTS]; LEN],
}

/// Candidates of a scale, as those of [`Anchor`](super::Anchor): those that map the value of the
/// largest magnitude to `level` or to `opposite`, and up to `reach` steps around both.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) level: f32,
    /// 0 if there is none.
    pub(crate) opposite: f32,
    pub(crate) step: f32,
    pub(crate) reach: usize,
}

/// The scale of a super-block and the codes of those of its sub-blocks.
pub(crate) struct Scaled<const PARTS: usize> {
    pub(crate) d: F16Scale,
    pub(crate) codes: [f32; PARTS],
}

/// Differences from the rounded code of a scale.
const STEPS: [f32; 8] = [-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0];

impl<L: Levels, const PARTS: usize, const LEN: usize> SubBlocks<L, PARTS, LEN> {
    #[inline(always)]
    pub(crate) fn new(values: &[[f32; LEN]], weights: &[[f32; LEN]; PARTS], levels: L) -> Self {
        let (mut by_row, mut of_rows) = ([[0.0; PARTS]; LEN], [[0.0; PARTS]; LEN]);
        for p in 0..PARTS {
            for i in 0..LEN {
                (by_row[i][p], of_rows[i][p]) = (values[p][i], weights[p][i]);
            }
        }
        let mut found = Self {
            levels,
            extremes: by_row[0],
            folded: by_row,
            weights: of_rows,
            weighted: of_rows,
            limits: by_row,
            flips: [[0; PARTS]; LEN],
        };
        for i in 0..LEN {
            for p in 0..PARTS {
                let (x, extreme) = (by_row[i][p], found.extremes[p]);
                found.extremes[p] = if x.abs() > extreme.abs() { x } else { extreme };
                found.folded[i][p] = levels.folded(x);
                found.weighted[i][p] *= levels.folded(x);
                found.limits[i][p] = levels.limit(x);
                found.flips[i][p] = levels.limit(x).to_bits() ^ levels.limit(-x).to_bits();
            }
        }
        found
    }

    /// For each sub-block the scale that explains most of the values' weighted squares; that of the
    /// largest value itself if the squares underflow, and 0 if its reciprocal overflows.
    #[inline(always)]
    pub(crate) fn fits(&self, ends: Ends) -> [f32; PARTS] {
        let Ends { level, opposite, step, reach } = ends;
        let (mut most, mut fits) = ([0.0; PARTS], self.extremes);
        for fit in &mut fits {
            *fit /= level;
        }
        for level in [level, opposite] {
            if level == 0.0 {
                continue;
            }
            let mut inverses = self.extremes;
            for inverse in &mut inverses {
                *inverse *= level;
            }
            let limits = self.limits_of(&inverses);
            for i in 0..=2 * reach {
                let steps = i as i32 - reach as i32;
                let numerator = (level.abs() + step * steps as f32).copysign(level);
                self.improve(numerator, &limits, &mut most, &mut fits);
            }
        }
        for (fit, value) in fits.iter_mut().zip(self.extremes) {
            *fit = if reciprocal(value / level) == 0.0 { 0.0 } else { *fit };
        }
        fits
    }

    /// Replaces the fits that explain less than the regression on the codes that map the largest
    /// values to `level`.
    #[inline(always)]
    fn improve(
        &self,
        level: f32,
        limits: &Rows<PARTS, LEN>,
        most: &mut [f32; PARTS],
        fits: &mut [f32; PARTS],
    ) {
        let mut inverses = self.extremes;
        for inverse in &mut inverses {
            *inverse = level / *inverse;
        }
        let (xq, qq) = self.products(&inverses, limits);
        for p in 0..PARTS {
            let scale = xq[p] / qq[p];
            let explained = xq[p] * scale;
            let better = qq[p] > 0.0 && explained > most[p];
            most[p] = if better { explained } else { most[p] };
            fits[p] = if better { self.levels.unfolded(scale, inverses[p]) } else { fits[p] };
        }
    }

    /// The weighted sums of the products of folded values and levels, and of the levels' squares.
    #[inline(always)]
    fn products(
        &self,
        inverses: &[f32; PARTS],
        limits: &Rows<PARTS, LEN>,
    ) -> ([f32; PARTS], [f32; PARTS]) {
        let (mut folded, mut xq, mut qq) = (*inverses, [0.0f32; PARTS], [0.0f32; PARTS]);
        for inverse in &mut folded {
            *inverse = self.levels.folded(*inverse);
        }
        for i in 0..LEN {
            for p in 0..PARTS {
                let q = self.levels.of(self.folded[i][p] * folded[p], limits[i][p]);
                xq[p] += self.weighted[i][p] * q;
                qq[p] += self.weights[i][p] * q * q;
            }
        }
        (xq, qq)
    }

    /// The greatest magnitudes of levels at scales of these signs.
    #[inline(always)]
    fn limits_of(&self, scales: &[f32; PARTS]) -> Rows<PARTS, LEN> {
        let mut limits = self.limits;
        for (row, flips) in limits.iter_mut().zip(&self.flips) {
            for p in 0..PARTS {
                let mask = if scales[p] < 0.0 { u32::MAX } else { 0 };
                row[p] = f32::from_bits(row[p].to_bits() ^ flips[p] & mask);
            }
        }
        limits
    }

    /// The weighted squared errors at scales, where the levels have these greatest magnitudes.
    #[inline(always)]
    fn errors(&self, scales: &[f32; PARTS], limits: &Rows<PARTS, LEN>) -> [f32; PARTS] {
        let (mut inverses, mut folded, mut sums) = ([0.0; PARTS], [0.0; PARTS], [0.0; PARTS]);
        for p in 0..PARTS {
            inverses[p] = self.levels.folded(reciprocal(scales[p]));
            folded[p] = self.levels.folded(scales[p]);
        }
        for i in 0..LEN {
            for p in 0..PARTS {
                let q = self.levels.of(self.folded[i][p] * inverses[p], limits[i][p]);
                let d = folded[p] * q - self.folded[i][p];
                sums[p] += self.weights[i][p] * d * d;
            }
        }
        sums
    }

    /// The codes of scales in units of `unit`, from `-bound` to `bound − 1`, with the least errors
    /// of those near the rounded ones, and the errors.
    #[inline(always)]
    pub(crate) fn nearest_codes(
        &self,
        fits: &[f32; PARTS],
        unit: f32,
        bound: f32,
    ) -> ([f32; PARTS], [f32; PARTS]) {
        let inverse = reciprocal(unit);
        let (mut centers, mut scales) = ([0.0; PARTS], [0.0; PARTS]);
        for p in 0..PARTS {
            centers[p] = nearest(fits[p] * inverse, -bound, bound - 1.0);
            scales[p] = unit * centers[p];
        }
        let mut limits = self.limits_of(&scales);
        let (mut codes, mut errors) = (centers, self.errors(&scales, &limits));
        for step in STEPS {
            let (mut others, mut turned) = ([0.0; PARTS], false);
            for p in 0..PARTS {
                others[p] = (centers[p] + step).clamp(-bound, bound - 1.0);
                let scale = unit * others[p];
                turned |= (scale < 0.0) != (scales[p] < 0.0);
                scales[p] = scale;
            }
            if turned {
                limits = self.limits_of(&scales);
            }
            let found = self.errors(&scales, &limits);
            for p in 0..PARTS {
                let better = found[p] < errors[p];
                errors[p] = if better { found[p] } else { errors[p] };
                codes[p] = if better { others[p] } else { codes[p] };
            }
        }
        (codes, errors)
    }

    /// The codes of scales of six bits in units of `d`, or of the regression of the values on the
    /// codes that `d` gives, if its error is less.
    #[inline(always)]
    pub(crate) fn scaled(&self, fits: &[f32; PARTS], d: F16Scale) -> Scaled<PARTS> {
        let (codes, errors) = self.nearest_codes(fits, d.to_f32(), 32.0);
        let first = Scaled { d, codes };
        let Some(d) = F16Scale::from_f32(self.regression(&first)) else { return first };
        if d == first.d {
            return first;
        }
        let (codes, errors_again) = self.nearest_codes(fits, d.to_f32(), 32.0);
        if in_order(&errors_again) < in_order(&errors) { Scaled { d, codes } } else { first }
    }

    /// The regression of the values of all sub-blocks on their levels.
    #[inline(always)]
    fn regression(&self, of: &Scaled<PARTS>) -> f32 {
        let unit = of.d.to_f32();
        let (mut scales, mut inverses, mut folded) = ([0.0; PARTS], [0.0; PARTS], [0.0; PARTS]);
        for p in 0..PARTS {
            scales[p] = unit * of.codes[p];
            inverses[p] = self.levels.folded(reciprocal(scales[p]));
            folded[p] = self.levels.folded(of.codes[p]);
        }
        let (mut limits, mut squares) = (self.limits_of(&scales), [[0.0; PARTS]; LEN]);
        for i in 0..LEN {
            for p in 0..PARTS {
                let q = folded[p] * self.levels.of(self.folded[i][p] * inverses[p], limits[i][p]);
                limits[i][p] = self.weighted[i][p] * q;
                squares[i][p] = self.weights[i][p] * q * q;
            }
        }
        let (mut xq, mut qq) = (0.0, 0.0);
        for p in 0..PARTS {
            for i in 0..LEN {
                xq += limits[i][p];
                qq += squares[i][p];
            }
        }
        self.levels.unfolded(xq / qq, unit)
    }
}

/// The sum, in the order of the values.
#[inline(always)]
fn in_order<const PARTS: usize>(values: &[f32; PARTS]) -> f32 {
    let mut sum = 0.0;
    for value in values {
        sum += value;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::{Anchor, Integers};
    use crate::scale::extreme;

    const ENDS: Ends = Ends { level: -4.0, opposite: 3.0, step: 0.1, reach: 9 };

    /// Sub-blocks of values with and without ties, of one sign, and of zeros; and positive weights.
    fn sub_blocks(seed: u32) -> ([[f32; 16]; 8], [[f32; 16]; 8]) {
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        let (mut values, mut weights) = ([[0.0; 16]; 8], [[0.0; 16]; 8]);
        for (p, (values, weights)) in values.iter_mut().zip(&mut weights).enumerate() {
            for (value, weight) in values.iter_mut().zip(weights) {
                let x = random();
                *value = [x, (8.0 * x).round() / 8.0, x.abs(), 0.0, -x.abs(), x * x * x][p % 6];
                *weight = 0.01 + random().abs();
            }
        }
        (values, weights)
    }

    /// The search of one sub-block by itself, whose lanes are candidates, has the same sums.
    #[test]
    fn fits_are_those_of_each_sub_block() {
        let Ends { level, opposite, step, reach } = ENDS;
        for seed in 0..200 {
            let (values, weights) = sub_blocks(seed);
            let found = SubBlocks::<_, 8, 16>::new(&values, &weights, Integers { bound: 4.0 });
            for (p, fit) in found.fits(ENDS).into_iter().enumerate() {
                let value = extreme(&values[p]);
                let anchor = Anchor { value, level, opposite, step, reach };
                let expected = anchor.fit(&values[p], &weights[p], |v| nearest(v, -4.0, 3.0));
                assert_eq!(fit, expected, "seed {seed}, sub-block {p}");
            }
        }
    }

    /// The errors of all 64 codes, computed one by one, near the rounded one.
    #[test]
    fn codes_have_the_least_errors() {
        for seed in 0..200 {
            let (values, weights) = sub_blocks(seed);
            let found = SubBlocks::<_, 8, 16>::new(&values, &weights, Integers { bound: 4.0 });
            let fits = found.fits(ENDS);
            // a unit of each sign; scales change their sign near 0
            let unit =
                if seed % 2 == 0 { 1.0 } else { -1.0 } * fits[0].abs() / (seed % 31 + 1) as f32;
            let (codes, errors) = found.nearest_codes(&fits, unit, 32.0);
            for p in 0..8 {
                let error = |code: f32| {
                    let (scale, mut sum) = (unit * code, 0.0);
                    for (x, w) in values[p].iter().zip(&weights[p]) {
                        let d = scale * (x * reciprocal(scale)).round().clamp(-4.0, 3.0) - x;
                        sum += w * d * d;
                    }
                    sum
                };
                let center = (fits[p] * reciprocal(unit)).round().clamp(-32.0, 31.0);
                let near = (-4..=4).map(|step| (center + step as f32).clamp(-32.0, 31.0));
                let least = near.map(error).fold(f32::INFINITY, f32::min);
                assert_eq!((errors[p], error(codes[p])), (least, least), "seed {seed}, {p}");
            }
        }
    }
}
