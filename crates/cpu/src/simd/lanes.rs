//! The operations on vectors of sixteen lanes.

use half::f16;

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// Operations on vectors of sixteen f32 lanes.
pub(crate) trait Simd: Copy {
    /// A vector.
    type V: Copy;
    /// Columns of accumulators that fit into registers with six rows and their operands.
    const WIDTH: usize;

    fn splat(self, value: f32) -> Self::V;
    fn load(self, from: &[f32; LANES]) -> Self::V;
    fn load_f16(self, from: &[f16; LANES]) -> Self::V;
    fn load_i8(self, from: &[i8; LANES]) -> Self::V;
    fn store(self, v: Self::V, to: &mut [f32; LANES]);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The nearest integers, as f32.
    fn round(self, a: Self::V) -> Self::V;
    /// `a · b + c`, rounded once.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a · 2ⁿ` for whole numbers `n` from -126 to 127, and 0 for -127.
    fn scale(self, a: Self::V, n: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// The lanes of `x` where `a < b`, of `y` elsewhere, where a NaN is compared too.
    fn select_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;

    /// The sum of the lanes, in one fixed order.
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        let mut lanes = [0.0; LANES];
        self.store(v, &mut lanes);
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        lanes[0]
    }

    /// The greatest lane.
    #[inline(always)]
    fn greatest(self, v: Self::V) -> f32 {
        let mut lanes = [0.0; LANES];
        self.store(v, &mut lanes);
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                // one instruction, other than `f32::max`
                lanes[i] = if lanes[i] > lanes[i + half] { lanes[i] } else { lanes[i + half] };
            }
        }
        lanes[0]
    }

    /// `eˣ` to within two units in the last place; 0 below -87.7, `e⁸⁷` above 87.
    ///
    /// It underflows to 0, not to the smallest normal value: products with that would be
    /// subnormal, and a CPU takes far longer for those.
    ///
    /// `x = n·ln 2 + r` with `|r| ≤ ln 2 / 2`, and `eʳ` by the polynomial of Cephes' `expf`.
    #[inline(always)]
    fn exp(self, x: Self::V) -> Self::V {
        const LN2_HIGH: f32 = 0.693_359_4;
        const LN2_LOW: f32 = -2.121_944_4e-4;
        const POLYNOMIAL: [f32; 6] =
            [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1];
        let x = self.clamp(x, -88.0, 87.0);
        let n = self.round(self.mul(x, self.splat(std::f32::consts::LOG2_E)));
        let r = self.mul_add(n, self.splat(-LN2_HIGH), x);
        let r = self.mul_add(n, self.splat(-LN2_LOW), r);
        let mut p = self.splat(POLYNOMIAL[0]);
        for c in &POLYNOMIAL[1..] {
            p = self.mul_add(p, r, self.splat(*c));
        }
        let p = self.mul_add(p, self.mul(r, r), self.add(r, self.splat(1.0)));
        self.scale(p, n)
    }

    /// `min(max(x, low), high)`; a NaN stays one.
    fn clamp(self, x: Self::V, low: f32, high: f32) -> Self::V;
}

/// A kernel, written once for all instruction sets.
pub(crate) trait Body {
    fn run<S: Simd>(self, simd: S);
}
