//! The weights of a resampled axis.

use super::filter::Filter;
use std::ops::Range;

/// Fraction bits of a weight.
pub(super) const BITS: u32 = 32 - 8 - 2;

/// For each output position the first input position and the weights from there on.
pub(super) struct Weights {
    spans: Vec<(usize, Range<usize>)>,
    values: Vec<i32>,
}

impl Weights {
    /// The weights from `input` to `output` positions: Pillow's `precompute_coeffs` and
    /// `normalize_coeffs_8bpc`.
    pub(super) fn new(filter: Filter, input: u32, output: u32) -> Self {
        let scale = f64::from(input) / f64::from(output);
        let stretch = scale.max(1.0);
        let support = filter.support() * stretch;
        let inverse = 1.0 / stretch;
        let mut weights = Self { spans: Vec::with_capacity(output as usize), values: Vec::new() };
        let mut exact = Vec::new();
        for i in 0..output {
            let center = (f64::from(i) + 0.5) * scale;
            // a conversion truncates, and makes negative values zero
            let first = (center - support + 0.5) as u32;
            let end = ((center + support + 0.5) as u32).min(input);
            exact.clear();
            exact.extend((first..end).map(|x| filter.at((f64::from(x) - center + 0.5) * inverse)));
            let sum: f64 = exact.iter().sum();
            let start = weights.values.len();
            weights.values.extend(exact.iter().map(|weight| fixed(weight / sum)));
            weights.spans.push((first as usize, start..weights.values.len()));
        }
        weights
    }

    /// The first input position of an output position, and its weights.
    pub(super) fn of(&self, i: usize) -> (usize, &[i32]) {
        let (first, span) = &self.spans[i];
        (*first, &self.values[span.clone()])
    }
}

/// A weight in fixed point, rounded half away from zero.
fn fixed(weight: f64) -> i32 {
    (weight * f64::from(1 << BITS) + 0.5_f64.copysign(weight)) as i32
}
