//! The definition of each elementary op on the elements of one row.
//!
//! Sums run in f64, so that these functions are a reference for any order of summation.

use pelton_graph::{Activation, Gating, NormKind, Rope, StridedCopy, Xielu};

/// `y[i] = weight[i] · normed(x)[i] + bias[i]`.
pub(super) fn norm(
    kind: NormKind,
    eps: f32,
    weight: Option<&[f32]>,
    bias: Option<&[f32]>,
    x: &[f32],
    y: &mut [f32],
) {
    let values = || x.iter().map(|&v| f64::from(v));
    let (len, eps) = (x.len() as f64, f64::from(eps));
    let (mean, square) = match kind {
        NormKind::Rms => (0.0, values().map(|v| v * v).sum::<f64>() / len),
        NormKind::L2 => (0.0, values().map(|v| v * v).sum()),
        NormKind::Layer => {
            let mean = values().sum::<f64>() / len;
            (mean, values().map(|v| (v - mean).powi(2)).sum::<f64>() / len)
        }
    };
    let scale = 1.0 / (square + eps).sqrt();
    for (i, (y, x)) in y.iter_mut().zip(values()).enumerate() {
        let weight = weight.map_or(1.0, |weight| f64::from(weight[i]));
        let bias = bias.map_or(0.0, |bias| f64::from(bias[i]));
        *y = ((x - mean) * scale * weight + bias) as f32;
    }
}

/// `Σ_k weight[k] · x[k]`.
pub(super) fn dot(weight: &[f32], x: &[f32]) -> f32 {
    weight.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum::<f64>() as f32
}

/// Rotates pair `i` of a head by `position · frequencies[i]`, times the factor.
pub(super) fn rope(head: &mut [f32], at: [u32; 3], rope: &Rope) {
    for (i, &frequency) in rope.frequencies.iter().enumerate() {
        let position = rope.coordinate(i, at);
        let (sin, cos) = (f64::from(position) * f64::from(frequency)).sin_cos();
        let (a, b) = rope.pair(i);
        let factor = f64::from(rope.factor);
        let (x, y) = (f64::from(head[a]) * factor, f64::from(head[b]) * factor);
        head[a] = (x * cos - y * sin) as f32;
        head[b] = (x * sin + y * cos) as f32;
    }
}

/// The function of one element.
pub(super) fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            let root = (2.0 / std::f64::consts::PI).sqrt();
            x / 2.0 * (1.0 + (root * (x + 0.044715 * x.powi(3))).tanh())
        }
        Activation::GeluErf => x / 2.0 * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        Activation::GeluQuick => x / (1.0 + (-1.702 * x).exp()),
        Activation::Relu => x.max(0.0),
        Activation::ReluSquared => x.max(0.0).powi(2),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
        Activation::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
    }
}

/// The activation xIELU of one element.
pub(super) fn xielu(xielu: Xielu, x: f64) -> f64 {
    let Xielu { positive, negative, linear, bound } = xielu;
    let curved = match x > 0.0 {
        true => f64::from(positive) * x * x,
        false => f64::from(negative) * (x.min(f64::from(bound)).exp_m1() - x),
    };
    curved + f64::from(linear) * x
}

/// The error function: `2/√π · e^(-x²) · Σ 2ⁿ x^(2n + 1) / (2n + 1)!!` (Abramowitz and Stegun
/// 7.1.6), whose summands have one sign.
pub(super) fn erf(x: f64) -> f64 {
    // from here on the nearest f64 is 1
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > sum.abs() * f64::EPSILON / 4.0 {
        n += 2.0;
        term *= 2.0 * x * x / n;
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// The gated product of one element.
pub(super) fn gate(gating: Gating, gate: f32, up: f32) -> f32 {
    let (gate, up) = (f64::from(gate), f64::from(up));
    (match gating {
        Gating::Product(activation) => activate(activation, gate) * up,
        Gating::Clamped { alpha, limit } => {
            let limit = f64::from(limit);
            let gate = gate.min(limit);
            let sigmoid = activate(Activation::Sigmoid, f64::from(alpha) * gate);
            (up.clamp(-limit, limit) + 1.0) * gate * sigmoid
        }
    }) as f32
}

/// `1 + beta · ln(1 + ⌊(position + offset) / interval⌋)`.
pub(super) fn temper(beta: f32, interval: usize, offset: usize, position: u32) -> f64 {
    let steps = (position as usize).saturating_add(offset) / interval;
    1.0 + f64::from(beta) * (1.0 + steps as f64).ln()
}

/// A strided copy from one row to another.
pub(super) fn copy(copy: &StridedCopy, x: &[f32], y: &mut [f32]) {
    let &StridedCopy { count, width, from, to } = copy;
    for i in 0..count {
        let (from, to) = (from.offset + i * from.stride, to.offset + i * to.stride);
        y[to..to + width].copy_from_slice(&x[from..from + width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Abramowitz and Stegun, table 7.1, and of the complement at 3.
    #[test]
    fn erf_of_the_tables() {
        for (x, expected) in [
            (0.0, 0.0),
            (0.1, 0.112_462_916_0),
            (0.5, 0.520_499_877_8),
            (1.0, 0.842_700_792_9),
            (2.0, 0.995_322_265_0),
            (3.0, 1.0 - 2.209_049_699_9e-5),
            (7.0, 1.0),
        ] {
            assert!((erf(x) - expected).abs() < 1e-10, "{x}: {}", erf(x));
            assert!((erf(-x) + expected).abs() < 1e-10, "-{x}: {}", erf(-x));
        }
    }
}
