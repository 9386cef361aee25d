//! Every instruction set of this machine compared with arithmetic in f64.

use half::f16;

use super::*;
use crate::isa::Isa;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Load,
    LoadCodes,
    Add,
    Mul,
    Div,
    Max,
    Round,
    Clamp,
    MulAdd,
    Scale,
    Exp,
    Sum,
    Greatest,
    Select,
    Sigmoid,
    Tanh,
    NormalCdf,
}

impl Operation {
    const ALL: [Self; 17] = [
        Self::Load,
        Self::LoadCodes,
        Self::Add,
        Self::Mul,
        Self::Div,
        Self::Max,
        Self::Round,
        Self::Clamp,
        Self::MulAdd,
        Self::Scale,
        Self::Exp,
        Self::Sum,
        Self::Greatest,
        Self::Select,
        Self::Sigmoid,
        Self::Tanh,
        Self::NormalCdf,
    ];

    /// The expected value of lane `i` in f64, and its tolerance.
    fn expected(self, x: &[f32; LANES], y: &[f32; LANES], i: usize) -> (f64, f64) {
        let (a, b) = (f64::from(x[i]), f64::from(y[i]));
        let half = f64::from(f32::EPSILON) / 2.0;
        match self {
            Self::Load => (f16::from_f32(x[i]).into(), 0.0),
            Self::LoadCodes => (f64::from(x[i] as i8), 0.0),
            Self::Add => (a + b, half * (a + b).abs()),
            Self::Mul => (a * b, half * (a * b).abs()),
            Self::Div => (a / b, half * (a / b).abs()),
            Self::Max => (a.max(b), 0.0),
            Self::Round => (a.round_ties_even(), 0.0),
            Self::Clamp => (a.clamp(-2.5, 7.0), 0.0),
            Self::MulAdd => (a * b + a, half * (a * b + a).abs()),
            Self::Scale => (a * f64::from(y[i].round_ties_even()).exp2(), 0.0),
            Self::Exp => {
                let exp = a.clamp(-88.0, 87.0).exp();
                // below -87 it ends in 0
                (exp, if a < -87.0 { exp } else { 4.0 * half * exp })
            }
            Self::Sum => {
                let sum = x.iter().map(|&x| f64::from(x.abs())).sum();
                (sum, 5.0 * half * sum)
            }
            Self::Select => (if a < b { a } else { -b }, 0.0),
            Self::Sigmoid => {
                let sigmoid = 1.0 / (1.0 + (-a).exp());
                (sigmoid, 7.0 * half * sigmoid + 2e-38)
            }
            Self::Tanh => (a.tanh(), 6.0 * half * a.tanh().abs()),
            Self::NormalCdf => {
                let cdf = normal_cdf_f64(a);
                let relative = if a > -5.0 { 1e-6 } else { 1e-5 };
                (cdf, relative * cdf + 2e-38)
            }
            Self::Greatest => (x.iter().copied().fold(f32::NEG_INFINITY, f32::max).into(), 0.0),
        }
    }
}

/// The distribution function in f64: the series of the error function near 0, and Laplace's
/// continued fraction of its complement far from it (Abramowitz and Stegun 7.1.6 and 7.1.14).
fn normal_cdf_f64(x: f64) -> f64 {
    let z = x.abs() / std::f64::consts::SQRT_2;
    let below = if z < 2.0 {
        let (mut term, mut sum) = (z, z);
        for n in 1..100 {
            term *= 2.0 * z * z / f64::from(2 * n + 1);
            sum += term;
        }
        0.5 - sum * (-z * z).exp() / std::f64::consts::PI.sqrt()
    } else {
        let fraction = (1..200).rev().fold(z, |rest, n| z + f64::from(n) / 2.0 / rest);
        (-z * z).exp() / fraction / std::f64::consts::PI.sqrt() / 2.0
    };
    if x < 0.0 { below } else { 1.0 - below }
}

/// Applies an operation to two vectors.
struct Apply<'a>(Operation, &'a [f32; LANES], &'a [f32; LANES], &'a mut [f32; LANES]);

impl Body for Apply<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(operation, x, y, to) = self;
        let (a, b) = (simd.load(x), simd.load(y));
        let result = match operation {
            Operation::Load => simd.load_f16(&x.map(f16::from_f32)),
            Operation::LoadCodes => simd.load_i8(&x.map(|x| x as i8)),
            Operation::Add => simd.add(a, b),
            Operation::Mul => simd.mul(a, b),
            Operation::Div => simd.div(a, b),
            Operation::Max => simd.max(a, b),
            Operation::Round => simd.round(a),
            Operation::Clamp => simd.clamp(a, -2.5, 7.0),
            Operation::MulAdd => simd.mul_add(a, b, a),
            Operation::Scale => simd.scale(a, simd.round(b)),
            Operation::Exp => simd.exp(a),
            Operation::Sum => simd.splat(simd.sum(simd.load(&x.map(f32::abs)))),
            Operation::Greatest => simd.splat(simd.greatest(a)),
            Operation::Select => simd.select_less(a, b, a, simd.mul(b, simd.splat(-1.0))),
            Operation::Sigmoid => sigmoid(simd, a),
            Operation::Tanh => tanh(simd, a),
            Operation::NormalCdf => normal_cdf(simd, a),
        };
        simd.store(result, to);
    }
}

fn apply(isa: Isa, operation: Operation, x: &[f32; LANES], y: &[f32; LANES]) -> [f32; LANES] {
    let mut to = [f32::NAN; LANES];
    dispatch(isa, Apply(operation, x, y, &mut to));
    to
}

#[test]
fn each_operation_is_its_arithmetic() {
    // from -100 to 100 with integers, halves and odd fractions among them, near 0 and far from it
    let values: Vec<f32> =
        (-400..=400).map(|i| i as f32 * if i % 3 == 0 { 0.25 } else { 0.2431 }).collect();
    for isa in Isa::available() {
        for operation in Operation::ALL {
            for start in 0..values.len() - 34 {
                let x = std::array::from_fn(|i| values[start + i]);
                let y = std::array::from_fn(|i| values[start + 2 * i + 3]);
                let found = apply(isa, operation, &x, &y);
                for i in 0..16 {
                    let (expected, tolerance) = operation.expected(&x, &y, i);
                    let same = f64::from(found[i]) == expected;
                    assert!(
                        same || (f64::from(found[i]) - expected).abs() <= tolerance,
                        "{operation:?} of {} and {} with {isa}: {} instead of {expected}",
                        x[i],
                        y[i],
                        found[i]
                    );
                }
            }
        }
    }
}

/// Scores of masked positions are infinite, and a model with broken weights computes NaN.
#[test]
fn infinities_and_nans() {
    let x = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 1.0].repeat(4);
    let x = x.first_chunk().unwrap();
    let zeros = [0.0; LANES];
    for isa in Isa::available() {
        let exp = apply(isa, Operation::Exp, x, &zeros);
        assert!(exp[0] < 2e-38 && exp[1] > 6e37 && exp[2].is_nan(), "{isa}: {exp:?}");
        let clamped = apply(isa, Operation::Clamp, x, &zeros);
        assert_eq!(clamped[..2], [-2.5, 7.0], "{isa}");
        assert!(clamped[2].is_nan(), "{isa}");
        assert_eq!(apply(isa, Operation::Max, x, &zeros)[..2], [0.0, f32::INFINITY], "{isa}");
    }
}

#[test]
fn exp_is_within_two_units_and_ends_in_zero() {
    for isa in Isa::available() {
        let exp = |x: f32| apply(isa, Operation::Exp, &[x; LANES], &[0.0; LANES])[7];
        for i in -87_000..=87_000 {
            let x = i as f32 / 1000.0;
            let expected = f64::from(x).exp();
            let unit = f64::from((expected as f32).next_up()) - f64::from(expected as f32);
            assert!((f64::from(exp(x)) - expected).abs() <= 2.0 * unit, "{isa}: e^{x}");
        }
        for x in [-88.0, -100.0, -1e30, f32::NEG_INFINITY] {
            assert_eq!(exp(x), 0.0, "{isa}: e^{x}");
        }
        assert!(exp(f32::INFINITY).is_finite() && exp(f32::NAN).is_nan());
    }
}
