//! Filters and temperature in whole numbers.

use std::f64::consts::LOG2_E;

use crate::{
    distance::floor,
    fixed_point::{FRACTION, Scale},
};

/// Filters and temperature of a draw in whole numbers, the same on every backend.
///
/// The distance of a token from the likeliest one is the difference of their logits times
/// [`NATURAL`](Self::NATURAL), in units of 2⁻²⁵ octaves (factors of two in probability).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedParams {
    /// Number of likeliest tokens to keep; `u32::MAX` keeps all.
    pub top_k: u32,
    /// Fraction of the sum of weights that the kept likeliest tokens must reach, in units of 2⁻³²;
    /// `u32::MAX` keeps all.
    pub top_p: u32,
    /// The greatest distance of a kept token.
    pub reach: u32,
    /// Factor from a difference of logits to a distance in the draw: log2(e) / temperature.
    pub scale: Scale,
}

impl FixedParams {
    /// Factor from a difference of logits to a distance: log2(e) in units of 2⁻²⁵.
    pub const NATURAL: Scale = Scale { mantissa: 0xB8AA_3B29, exponent: FRACTION as i32 - 31 };
    /// Cap of distances in a draw. It exceeds the difference of any two noise values, so a token at
    /// this distance is never drawn.
    pub const FAR: u32 = 48 << FRACTION;

    /// From options that are in the [ranges](crate::Sampling::check) of
    /// [`Sampling`](crate::Sampling); `None` where the likeliest token is taken always.
    pub fn new(temperature: f32, top_k: usize, top_p: f32, min_p: f32) -> Option<Self> {
        if temperature == 0.0 || top_k == 1 {
            return None;
        }
        let unit = f64::from(1u32 << FRACTION);
        // casts from f64 saturate
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

    /// The least logit that can be drawn, or that has a weight in the sum of top-p, given the
    /// greatest logit.
    pub(crate) fn floor(&self, greatest: f32) -> f32 {
        match self.top_p {
            u32::MAX => floor(greatest, self.reach, Self::NATURAL).max(floor(
                greatest,
                Self::FAR,
                self.scale,
            )),
            _ => floor(greatest, LAST_WEIGHT, Self::NATURAL),
        }
    }
}

/// Beyond this distance, every weight underflows to 0.
const LAST_WEIGHT: u32 = 31 << FRACTION;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_ranges() {
        let all = FixedParams::new(1.0, 0, 1.0, 0.0).unwrap();
        assert_eq!((all.top_k, all.top_p, all.reach), (u32::MAX, u32::MAX, u32::MAX));
        assert_eq!(all.scale, FixedParams::NATURAL);
        assert_eq!(FixedParams::NATURAL, Scale::new(LOG2_E * f64::from(1 << FRACTION)));
        let least = FixedParams::new(f32::MIN_POSITIVE, usize::MAX, 0.0, 1.0).unwrap();
        assert_eq!((least.top_p, least.reach), (0, 0));
        assert!(FixedParams::new(1.0, 2, 1.0f32.next_down(), 0.0).unwrap().top_p < u32::MAX);
        assert_eq!(FixedParams::new(0.0, 40, 0.9, 0.1), None);
        assert_eq!(FixedParams::new(1.0, 1, 0.9, 0.1), None);
    }
}
