//! Norms and gated activations of one row.

use pelton_graph::{Activation, Norm};

use crate::simd::{Body, LANES, Simd};

/// [`Op::Norm`](pelton_graph::Op::Norm) of one row, from `x` to `y`.
pub(super) struct NormRow<'a> {
    pub(super) x: &'a [f32],
    pub(super) weight: &'a [f32],
    pub(super) norm: Norm,
    pub(super) y: &'a mut [f32],
}

impl Body for NormRow<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, weight, norm: Norm { weight: _, eps }, y } = self;
        let factor = rms_factor(simd, x, eps);
        for ((y, &x), &weight) in y.iter_mut().zip(x).zip(weight) {
            *y = x * factor * weight;
        }
    }
}

/// [`Op::HeadNorm`](pelton_graph::Op::HeadNorm) of one row, in place.
pub(super) struct HeadNormRow<'a> {
    pub(super) x: &'a mut [f32],
    pub(super) weight: &'a [f32],
    pub(super) norm: Norm,
}

impl Body for HeadNormRow<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, weight, norm: Norm { weight: _, eps } } = self;
        for head in x.chunks_exact_mut(weight.len()) {
            let factor = rms_factor(simd, head, eps);
            for (x, &weight) in head.iter_mut().zip(weight) {
                *x = *x * factor * weight;
            }
        }
    }
}

/// `1 / sqrt(mean(x²) + eps)`.
#[inline(always)]
fn rms_factor<S: Simd>(simd: S, x: &[f32], eps: f32) -> f32 {
    let (lanes, tail) = x.as_chunks::<LANES>();
    let mut squares = simd.splat(0.0);
    for lane in lanes {
        let x = simd.load(lane);
        squares = simd.mul_add(x, x, squares);
    }
    let sum = simd.sum(squares) + tail.iter().map(|x| x * x).sum::<f32>();
    1.0 / (sum / x.len() as f32 + eps).sqrt()
}

/// [`Op::Glu`](pelton_graph::Op::Glu) of neighbouring elements, written over `gate`.
pub(super) struct GluRow<'a> {
    pub(super) activation: Activation,
    pub(super) gate: &'a mut [f32],
    pub(super) up: &'a [f32],
}

impl Body for GluRow<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (gates, gate_tail) = self.gate.as_chunks_mut::<LANES>();
        let (ups, up_tail) = self.up.as_chunks::<LANES>();
        for (gate, up) in gates.iter_mut().zip(ups) {
            let value = activate(simd, self.activation, simd.load(gate));
            simd.store(simd.mul(value, simd.load(up)), gate);
        }
        if !gate_tail.is_empty() {
            let mut lanes = [0.0; LANES];
            lanes[..gate_tail.len()].copy_from_slice(gate_tail);
            let value = activate(simd, self.activation, simd.load(&lanes));
            simd.store(value, &mut lanes);
            for ((gate, value), up) in gate_tail.iter_mut().zip(lanes).zip(up_tail) {
                *gate = value * up;
            }
        }
    }
}

#[inline(always)]
fn activate<S: Simd>(simd: S, activation: Activation, x: S::V) -> S::V {
    match activation {
        // x / (1 + e⁻ˣ)
        Activation::Silu => {
            let negative = simd.mul(x, simd.splat(-1.0));
            simd.div(x, simd.add(simd.exp(negative), simd.splat(1.0)))
        }
    }
}
