//! Sampling values as the whole numbers that candidates are filtered and drawn by.

use std::f64::consts::LOG2_E;

use crate::{
    Sampling,
    candidates::floor,
    fixed::{FRACTION, Scale},
};

/// How to draw, in whole numbers: what a processor and a device share.
///
/// The distance of a token from the likeliest is the difference of their logits times
/// [`NATURAL`](Self::NATURAL): in units of 2⁻²⁵ of a factor of two in probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Only this many of the likeliest tokens are left.
    pub top_k: u32,
    /// Of the weights' sum the likeliest tokens must reach this part, in units of 2⁻³²; `u32::MAX`
    /// leaves all.
    pub top_p: u32,
    /// The greatest distance of a token that is left.
    pub reach: u32,
    /// What a difference of logits is multiplied with for the draw.
    pub scale: Scale,
}

impl Rule {
    /// From a difference of logits to a distance: log2(e) in units of 2⁻²⁵.
    pub const NATURAL: Scale = Scale { mantissa: 0xB8AA_3B29, exponent: FRACTION as i32 - 31 };
    /// No distance in a draw counts for more: beyond the difference of any two draws of noise, so
    /// that no token so far away is chosen.
    pub const FAR: u32 = 48 << FRACTION;

    /// The rule of sampling values that are in their ranges; `None` where the likeliest token is
    /// taken always.
    pub fn new(temperature: f32, top_k: usize, top_p: f32, min_p: f32) -> Option<Self> {
        if temperature == 0.0 || top_k == 1 {
            return None;
        }
        let unit = f64::from(1u32 << FRACTION);
        // casts from floats saturate
        Some(Self {
            top_k: match top_k {
                0 => u32::MAX,
                k => k.min(u32::MAX as usize) as u32,
            },
            top_p: (f64::from(top_p) * 4_294_967_296.0) as u32,
            reach: match min_p {
                0.0 => u32::MAX,
                p => (-f64::from(p).log2() * unit) as u32,
            },
            scale: Scale::new(LOG2_E / f64::from(temperature) * unit),
        })
    }

    /// The least logit that can be chosen, or that has a weight in a sum, where this is the
    /// greatest.
    pub(crate) fn floor(&self, greatest: f32) -> f32 {
        match self.top_p {
            u32::MAX => floor(greatest, self.reach, Self::NATURAL).max(floor(
                greatest,
                Self::FAR,
                self.scale,
            )),
            _ => floor(greatest, WEIGHTLESS, Self::NATURAL),
        }
    }
}

/// From this distance on all weights but none are 0.
const WEIGHTLESS: u32 = 31 << FRACTION;

impl From<&Sampling> for Option<Rule> {
    fn from(s: &Sampling) -> Self {
        Rule::new(s.temperature, s.top_k, s.top_p, s.min_p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_ranges() {
        let all = Rule::new(1.0, 0, 1.0, 0.0).unwrap();
        assert_eq!((all.top_k, all.top_p, all.reach), (u32::MAX, u32::MAX, u32::MAX));
        assert_eq!(all.scale, Rule::NATURAL);
        assert_eq!(Rule::NATURAL, Scale::new(LOG2_E * f64::from(1 << FRACTION)));
        let least = Rule::new(f32::MIN_POSITIVE, usize::MAX, 0.0, 1.0).unwrap();
        assert_eq!((least.top_p, least.reach), (0, 0));
        assert!(Rule::new(1.0, 2, 1.0f32.next_down(), 0.0).unwrap().top_p < u32::MAX);
        assert_eq!(Rule::new(0.0, 40, 0.9, 0.1), None);
        assert_eq!(Rule::new(1.0, 1, 0.9, 0.1), None);
    }
}
