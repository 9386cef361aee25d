//! Sums and weights of the values of a block.

/// Candidates that are tried at a time, each in a lane of its own: the sums of a lane have the
/// order of the values, so that vectors change no result.
pub(crate) const LANES: usize = 8;

/// The greatest float below 0.5: added to a magnitude below 2^22, it reaches the next integer from
/// a half on, and 0.5 would from the float before on.
const BELOW_HALF: f32 = 0.5 - f32::EPSILON / 4.0;

/// The nearest integer between `low` and `high`, which are integers of magnitudes below 2^22;
/// halves go away from zero, as with [`f32::round`], which is a call of a function on CPUs without
/// SSE4.1.
#[inline(always)]
pub(crate) fn nearest(value: f32, low: f32, high: f32) -> f32 {
    // comparisons, as maximum and minimum instructions need no care for NaN then
    let bounded = if value > low { value } else { low };
    let bounded = if bounded < high { bounded } else { high };
    // SAFETY: `bounded` is no NaN, and lies between two integers that fit
    unsafe { truncated(bounded + BELOW_HALF.copysign(bounded)) }
}

/// The nearest integer to `magnitude`, at most `limit`, which is an integer from 0 to 2^22; halves
/// go up.
///
/// # Safety
/// `magnitude` is NaN or at least 0.
#[inline(always)]
pub(crate) unsafe fn nearest_magnitude(magnitude: f32, limit: f32) -> f32 {
    let bounded = if magnitude < limit { magnitude } else { limit };
    // SAFETY: `bounded` is no NaN, and lies between 0 and the limit
    unsafe { truncated(bounded + BELOW_HALF) }
}

/// The integer part; one instruction each way, where a conversion that checks its range has more.
///
/// # Safety
/// The integer part fits into an i32.
#[inline(always)]
unsafe fn truncated(value: f32) -> f32 {
    // SAFETY: the caller's
    let integer: i32 = unsafe { value.to_int_unchecked() };
    integer as f32
}

/// The mean of the squares.
#[inline(always)]
pub(crate) fn mean_square(values: &[f32]) -> f32 {
    values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32
}

/// Weights of values by their importance: `importance · √(square + value²)`. `square` is a mean
/// square of the values' surroundings.
#[inline(always)]
pub(crate) fn important<const LEN: usize>(
    values: &[f32; LEN],
    importance: &[f32; LEN],
    square: f32,
) -> [f32; LEN] {
    std::array::from_fn(|i| importance[i] * (square + values[i] * values[i]).sqrt())
}

/// Weights without importance where there is no minimum: squares and a fraction of their mean,
/// relative to `largest`.
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

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn halves_and_their_neighbours_round_as_the_standard_library_does() {
        for half in -600..=600 {
            let half = half as f32 / 2.0;
            for value in [half.next_down().next_down(), half.next_down(), half, half.next_up()] {
                assert_eq!(nearest(value, -300.0, 300.0), value.round(), "{value:e}");
            }
        }
        for value in [f32::MIN, f32::NEG_INFINITY, f32::NAN] {
            assert_eq!(nearest(value, -4.0, 3.0), -4.0, "{value}");
        }
        for value in [f32::MAX, f32::INFINITY, 3.5] {
            assert_eq!(nearest(value, -4.0, 3.0), 3.0, "{value}");
        }
    }
}
