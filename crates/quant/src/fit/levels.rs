//! The levels that codes stand for, in the form in which lanes search them.

use super::values::nearest_magnitude;

/// Levels of a type, before they are multiplied by a scale.
pub(crate) trait Levels: Copy {
    /// A value or a scale in the form that [`Self::of`] takes: levels that depend on the sign of
    /// the scaled value in their range alone are searched by magnitudes.
    fn folded(self, value: f32) -> f32;

    /// Gives a folded result the sign of the scale that it is of.
    fn unfolded(self, folded: f32, scale: f32) -> f32;

    /// The greatest magnitude of a level on the side of 0 of `value`, at a positive scale.
    fn limit(self, value: f32) -> f32;

    /// The level nearest to a scaled and folded value, of at most the magnitude `limit`.
    fn of(self, scaled: f32, limit: f32) -> f32;
}

/// All integers from `-bound` to `bound − 1`.
#[derive(Clone, Copy)]
pub(crate) struct Integers {
    pub(crate) bound: f32,
}

impl Levels for Integers {
    #[inline(always)]
    fn folded(self, value: f32) -> f32 {
        value.abs()
    }

    #[inline(always)]
    fn unfolded(self, folded: f32, scale: f32) -> f32 {
        folded.copysign(scale)
    }

    #[inline(always)]
    fn limit(self, value: f32) -> f32 {
        if value.is_sign_negative() { self.bound } else { self.bound - 1.0 }
    }

    #[inline(always)]
    fn of(self, scaled: f32, limit: f32) -> f32 {
        // SAFETY: a magnitude is not negative
        unsafe { nearest_magnitude(scaled.abs(), limit) }
    }
}
