//! Temperature, constant or by entropy.

use super::candidates::Candidates;

pub(super) fn apply(candidates: &mut Candidates, value: f64, range: f64, exponent: f64) {
    if range <= 0.0 {
        return divide(candidates, value);
    }
    if candidates.len() <= 1 {
        return;
    }
    candidates.softmax();
    let (least, most) = ((value - range).max(0.0), value + range);
    let share = candidates.entropy() / (candidates.len() as f64).ln();
    divide(candidates, least + (most - least) * share.powf(exponent));
}

fn divide(candidates: &mut Candidates, temperature: f64) {
    // a temperature so small that a quotient overflows leaves the likeliest alone, as 0 does
    if temperature <= f64::from(f32::MIN_POSITIVE) {
        candidates.sort();
        return candidates.keep_likeliest(1);
    }
    for c in candidates.change() {
        c.logit /= temperature;
    }
}
