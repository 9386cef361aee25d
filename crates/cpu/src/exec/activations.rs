//! Functions of elements and gated products.

use pelton_graph::{Activation, Gating, Xielu};

use crate::simd::{Body, LANES, Simd, normal_cdf, sigmoid, softplus, tanh};

/// An op in place on each element.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    Activate(Activation),
    Scale(f32),
    Softcap(f32),
    Clamp(f32, f32),
    Xielu(Xielu),
}

/// A [`Function`] of neighbouring elements, in place.
pub(super) struct Each<'a> {
    pub(super) function: Function,
    pub(super) x: &'a mut [f32],
}

impl Body for Each<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { function, x } = self;
        let (lanes, tail) = x.as_chunks_mut::<LANES>();
        for lane in lanes {
            let value = apply(simd, function, simd.load(lane));
            simd.store(value, lane);
        }
        if !tail.is_empty() {
            let mut lane = [0.0; LANES];
            lane[..tail.len()].copy_from_slice(tail);
            let value = apply(simd, function, simd.load(&lane));
            simd.store(value, &mut lane);
            tail.copy_from_slice(&lane[..tail.len()]);
        }
    }
}

#[inline(always)]
fn apply<S: Simd>(simd: S, function: Function, x: S::V) -> S::V {
    match function {
        Function::Activate(activation) => activate(simd, activation, x),
        Function::Scale(factor) => simd.mul(x, simd.splat(factor)),
        Function::Softcap(cap) => {
            simd.mul(tanh(simd, simd.div(x, simd.splat(cap))), simd.splat(cap))
        }
        Function::Clamp(low, high) => simd.clamp(x, low, high),
        Function::Xielu(factors) => xielu(simd, factors, x),
    }
}

#[inline(always)]
fn xielu<S: Simd>(simd: S, factors: Xielu, x: S::V) -> S::V {
    let Xielu { positive, negative, linear, bound } = factors;
    let above = simd.mul(simd.mul(x, x), simd.splat(positive));
    let e = simd.exp(simd.clamp(x, f32::NEG_INFINITY, bound));
    let less = simd.add(simd.add(e, simd.splat(-1.0)), simd.mul(x, simd.splat(-1.0)));
    let below = simd.mul(less, simd.splat(negative));
    let curved = simd.select_less(simd.splat(0.0), x, above, below);
    simd.mul_add(x, simd.splat(linear), curved)
}

/// A factor of a gated product.
#[derive(Clone, Copy, Debug)]
pub(super) enum Factor<'a> {
    /// Its elements.
    Elements(&'a [f32]),
    /// The elements that the product replaces.
    Replaced,
    /// The same for all elements.
    One(f32),
}

impl Factor<'_> {
    #[inline(always)]
    fn load<S: Simd>(self, simd: S, at: usize, replaced: &[f32; LANES]) -> S::V {
        match self {
            Self::Replaced => simd.load(replaced),
            Self::One(value) => simd.splat(value),
            Self::Elements(elements) => match elements[at..].first_chunk() {
                Some(lanes) => simd.load(lanes),
                None => {
                    let mut lanes = [0.0; LANES];
                    lanes[..elements.len() - at].copy_from_slice(&elements[at..]);
                    simd.load(&lanes)
                }
            },
        }
    }
}

/// [`Op::Glu`](pelton_graph::Op::Glu) of neighbouring elements.
pub(super) struct Glu<'a> {
    pub(super) gating: Gating,
    pub(super) gate: Factor<'a>,
    pub(super) up: Factor<'a>,
    pub(super) to: &'a mut [f32],
}

impl Body for Glu<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { gating, gate, up, to } = self;
        let (lanes, tail) = to.as_chunks_mut::<LANES>();
        let whole = lanes.len() * LANES;
        for (i, lane) in lanes.iter_mut().enumerate() {
            let gate = gate.load(simd, i * LANES, lane);
            let up = up.load(simd, i * LANES, lane);
            simd.store(gated(simd, gating, gate, up), lane);
        }
        if !tail.is_empty() {
            let mut lane = [0.0; LANES];
            lane[..tail.len()].copy_from_slice(tail);
            let (gate, up) = (gate.load(simd, whole, &lane), up.load(simd, whole, &lane));
            simd.store(gated(simd, gating, gate, up), &mut lane);
            tail.copy_from_slice(&lane[..tail.len()]);
        }
    }
}

#[inline(always)]
fn gated<S: Simd>(simd: S, gating: Gating, gate: S::V, up: S::V) -> S::V {
    match gating {
        Gating::Product(activation) => simd.mul(activate(simd, activation, gate), up),
        Gating::Clamped { alpha, limit } => {
            let gate = simd.clamp(gate, f32::NEG_INFINITY, limit);
            let up = simd.clamp(up, -limit, limit);
            let opened = simd.mul(gate, sigmoid(simd, simd.mul(gate, simd.splat(alpha))));
            simd.mul(simd.add(up, simd.splat(1.0)), opened)
        }
    }
}

/// The function of each element.
#[inline(always)]
pub(super) fn activate<S: Simd>(simd: S, activation: Activation, x: S::V) -> S::V {
    match activation {
        Activation::Identity => x,
        Activation::Silu => swish(simd, x, x),
        Activation::GeluTanh => {
            // (1 + tanh u) / 2 is the sigmoid of 2u
            const ROOT: f32 = 1.595_769;
            let cubic =
                simd.mul_add(simd.mul(x, x), simd.splat(0.044_715 * ROOT), simd.splat(ROOT));
            swish(simd, x, simd.mul(x, cubic))
        }
        Activation::GeluErf => simd.mul(x, normal_cdf(simd, x)),
        Activation::GeluQuick => swish(simd, x, simd.mul(x, simd.splat(1.702))),
        Activation::Relu => simd.clamp(x, 0.0, f32::INFINITY),
        Activation::ReluSquared => {
            let x = simd.clamp(x, 0.0, f32::INFINITY);
            simd.mul(x, x)
        }
        Activation::Sigmoid => sigmoid(simd, x),
        Activation::Tanh => tanh(simd, x),
        Activation::Softplus => softplus(simd, x),
    }
}

/// `x / (1 + e⁻ᵘ)`.
#[inline(always)]
fn swish<S: Simd>(simd: S, x: S::V, u: S::V) -> S::V {
    let negative = simd.mul(u, simd.splat(-1.0));
    simd.div(x, simd.add(simd.exp(negative), simd.splat(1.0)))
}
