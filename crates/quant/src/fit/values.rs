//! Sums and weights of the values of a block.

/// Candidates that are tried at a time, each in a lane of its own: the sums of a lane have the order of the values,
/// so that vectors change no result.
pub(crate) const LANES: usize = 8;

/// 2^23, the least magnitude from which f32 has integers alone.
const NO_FRACTION: f32 = 8_388_608.0;

/// The nearest integer between `low` and `high`, which are integers; halves go away from zero, as with
/// [`f32::round`], which is a call of a function on CPUs without SSE4.1.
#[inline(always)]
pub(crate) fn nearest(value: f32, low: f32, high: f32) -> f32 {
    // comparisons, as maximum and minimum instructions need no care for NaN then
    let bounded = if value > low { value } else { low };
    let bounded = if bounded < high { bounded } else { high };
    let magnitude = bounded.abs();
    // the sum has no bits for a fraction, and is rounded to even
    let even = (magnitude + NO_FRACTION) - NO_FRACTION;
    let up = if magnitude - even == 0.5 { 1.0 } else { 0.0 };
    (even + up).copysign(bounded)
}

/// The mean of the squares.
#[inline(always)]
pub(crate) fn mean_square(values: &[f32]) -> f32 {
    values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32
}

/// Weights of values by their importance: `importance · √(square + value²)`. `square` is a mean square of the
/// values' surroundings.
#[inline(always)]
pub(crate) fn important<const LEN: usize>(
    values: &[f32; LEN],
    importance: &[f32; LEN],
    square: f32,
) -> [f32; LEN] {
    std::array::from_fn(|i| importance[i] * (square + values[i] * values[i]).sqrt())
}

/// Weights without importance where there is no minimum: squares and a fraction of their mean, relative to `largest`.
#[inline(always)]
pub(crate) fn squares<const LEN: usize>(values: &[f32; LEN], largest: f32) -> [f32; LEN] {
    let relative = values.map(|v| v / largest);
    let least = FLAT * mean_square(&relative);
    relative.map(|v| least + v * v)
}

/// The part of the mean square in the weights of [`squares`]: small values count too.
const FLAT: f32 = 2.0;

/// Sub-block `index` of `LEN` values.
#[inline(always)]
pub(crate) fn part<const LEN: usize>(values: &[f32; 256], index: usize) -> &[f32; LEN] {
    &values.as_chunks().0[index]
}
