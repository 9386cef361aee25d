//! Distances of logits from the greatest one, as whole numbers.

use crate::fixed_point::Scale;

/// Whether any of the logits is at least `floor`. A NaN never is. The loop has no branch, so it
/// becomes vector instructions.
pub(crate) fn any_reaches(floor: f32, logits: &[f32]) -> bool {
    logits.iter().fold(false, |any, &logit| any | (logit >= floor))
}

/// The difference of a logit from the greatest one, times `scale`; 0 between equal infinities.
pub(crate) fn distance(greatest: f32, logit: f32, scale: Scale) -> u32 {
    scale.times(if logit == greatest { 0.0 } else { greatest - logit })
}

/// The least logit whose distance from the greatest one is at most `reach`.
///
/// Distances do not increase with the logit, so a bisection over the ordered f32 values finds it.
/// The bits of an f32 as an i32 are in that order once those of negative values are inverted.
pub(crate) fn floor(greatest: f32, reach: u32, scale: Scale) -> f32 {
    let ordered = |bits: i32| bits ^ ((bits >> 31) as u32 >> 1) as i32;
    let place = |logit: f32| ordered(logit.to_bits() as i32);
    let (mut least, mut most) = (place(f32::NEG_INFINITY), place(greatest));
    while least < most {
        let middle = least.midpoint(most);
        // midpoint rounds towards 0
        let middle = if middle == most { most - 1 } else { middle };
        match distance(greatest, f32::from_bits(ordered(middle) as u32), scale) <= reach {
            true => most = middle,
            false => least = middle + 1,
        }
    }
    f32::from_bits(ordered(most) as u32)
}
