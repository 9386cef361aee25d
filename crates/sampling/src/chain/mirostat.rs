//! Mirostat 1 and 2 (Basu et al., arXiv 2007.14966).

use super::{candidates::Candidates, stage::ChainState};
use crate::noise::Noise;

/// Likeliest tokens from which version 1 estimates the exponent of the distribution.
const ESTIMATED: usize = 100;

pub(super) fn first(
    candidates: &mut Candidates,
    vocab: usize,
    target: f64,
    rate: f64,
    state: &mut ChainState,
    noise: &mut Noise,
) -> Option<u32> {
    candidates.softmax();
    let pairs = candidates.sort().windows(2).take(ESTIMATED - 1).enumerate();
    let (mut products, mut squares) = (0.0, 0.0);
    for (i, pair) in pairs {
        let t = ((i + 2) as f64 / (i + 1) as f64).ln();
        products += t * (pair[0].logit - pair[1].logit);
        squares += t * t;
    }
    if squares > 0.0 {
        let exponent = products / squares;
        let epsilon = exponent - 1.0;
        let scale = epsilon * state.surprise.exp2() / (1.0 - (vocab as f64).powf(-epsilon));
        // a cast from f64 saturates, and NaN becomes 0
        candidates.keep_likeliest((scale.powf(1.0 / exponent) as usize).max(1));
    }
    draw(candidates, target, rate, state, noise)
}

pub(super) fn second(
    candidates: &mut Candidates,
    target: f64,
    rate: f64,
    state: &mut ChainState,
    noise: &mut Noise,
) -> Option<u32> {
    candidates.softmax();
    let kept = candidates.sort().iter().take_while(|c| -c.p.log2() <= state.surprise).count();
    candidates.keep_likeliest(kept.max(1));
    draw(candidates, target, rate, state, noise)
}

/// Draws, and corrects the bound by the surprise of the token.
fn draw(
    candidates: &mut Candidates,
    target: f64,
    rate: f64,
    state: &mut ChainState,
    noise: &mut Noise,
) -> Option<u32> {
    candidates.softmax();
    let token = candidates.draw(noise)?;
    let surprise = candidates.of(token).map_or(0.0, |c| -c.p.log2());
    state.surprise -= rate * (surprise - target);
    Some(token)
}
