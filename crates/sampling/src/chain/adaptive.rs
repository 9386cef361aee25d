//! Adaptive-p: a draw near a target probability.

use super::{candidates::Candidates, stage::ChainState};
use crate::noise::Noise;

/// The width of the peak around the target, in probability.
const WIDTH: f64 = 0.3;
/// The logit of a token exactly at the target.
const PEAK: f64 = 5.0;
/// The slope of the tails.
const SHARPNESS: f64 = 10.0;

pub(super) fn draw(
    candidates: &mut Candidates,
    target: f64,
    decay: f64,
    state: &mut ChainState,
    noise: &mut Noise,
) -> Option<u32> {
    if target < 0.0 {
        return candidates.draw(noise);
    }
    candidates.softmax();
    let adapted = (2.0 * target - state.sum / state.weight).clamp(0.0, 1.0);
    for c in candidates.change() {
        let distance = (c.p - adapted).abs() / WIDTH;
        c.logit = PEAK - SHARPNESS * distance * distance / (1.0 + distance);
    }
    let token = candidates.draw(noise)?;
    // the probability before the change
    let p = candidates.of(token).map_or(0.0, |c| c.p);
    state.sum = p + decay * state.sum;
    state.weight = 1.0 + decay * state.weight;
    Some(token)
}
