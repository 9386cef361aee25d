//! The live inputs of a row: those whose score |x|·‖W‖ exceeds a threshold. The score is that
//! of WINA (arXiv 2505.19427), the threshold that of TEAL (arXiv 2408.14690): a quantile of
//! the scores on a text.

use pelton_graph::LOWER_HALF;

/// The factor of the score of a lower half.
pub(super) const OF_LOWER: f32 = 1.0 / LOWER_HALF;

/// The live ones of up to 32 inputs, a bit for each: their scores, times a factor, have at least
/// the bits `least` ([`EffortCurve::least`](pelton_graph::EffortCurve::least)). A NaN is live.
#[inline(always)]
pub(super) fn mask(x: &[f32], norms: &[f32], factor: f32, least: u32) -> u32 {
    let mut mask = 0;
    for (i, (x, norm)) in x.iter().zip(norms).enumerate().take(32) {
        // without their signs, bits have the order of numbers
        let score = (x * norm * factor).to_bits() as i32 & i32::MAX;
        mask |= u32::from(score >= least as i32) << i;
    }
    mask
}
