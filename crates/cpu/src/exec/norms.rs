//! Norms of rows and heads.

use pelton_graph::{Error, Norm, NormKind};

use crate::memory::Weights;
use crate::simd::{Body, LANES, Simd};

/// A norm with its factors and summands.
#[derive(Clone, Copy, Debug)]
pub(super) struct NormWeights<'a> {
    kind: NormKind,
    eps: f32,
    weight: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
}

impl<'a> NormWeights<'a> {
    /// # Errors
    /// If a weight is not a vector.
    pub(super) fn new(weights: &'a Weights, norm: &Norm) -> Result<Self, Error> {
        let &Norm { kind, weight, bias, eps } = norm;
        let (weight, bias) = (weights.optional(weight)?, weights.optional(bias)?);
        Ok(Self { kind, eps, weight, bias })
    }

    /// Its weights for head `head` of a row, from those of a head or of all heads.
    fn of_head(self, head: usize, head_dim: usize) -> Self {
        let part = |all: &'a [f32]| match all.len() == head_dim {
            true => all,
            false => &all[head * head_dim..(head + 1) * head_dim],
        };
        Self { weight: self.weight.map(part), bias: self.bias.map(part), ..self }
    }
}

/// [`Op::Norm`](pelton_graph::Op::Norm) of one row, from `x` to `y`.
pub(super) struct NormRow<'a> {
    pub(super) x: &'a [f32],
    pub(super) norm: NormWeights<'a>,
    pub(super) y: &'a mut [f32],
}

impl Body for NormRow<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, norm, y } = self;
        y.copy_from_slice(x);
        normalize(simd, norm, y);
    }
}

/// [`Op::HeadNorm`](pelton_graph::Op::HeadNorm) of one row, in place.
pub(super) struct HeadNormRow<'a> {
    pub(super) x: &'a mut [f32],
    pub(super) head_dim: usize,
    pub(super) norm: NormWeights<'a>,
}

impl Body for HeadNormRow<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, head_dim, norm } = self;
        for (head, x) in x.chunks_exact_mut(head_dim).enumerate() {
            normalize(simd, norm.of_head(head, head_dim), x);
        }
    }
}

/// The norm of `x`, in place.
#[inline(always)]
fn normalize<S: Simd>(simd: S, norm: NormWeights<'_>, x: &mut [f32]) {
    let NormWeights { kind, eps, weight, bias } = norm;
    let len = x.len() as f32;
    if kind == NormKind::Layer {
        let mean = sum(simd, x, |_, x| x, |x| x) / len;
        for x in x.iter_mut() {
            *x -= mean;
        }
    }
    let squares = sum(simd, x, |simd, x| simd.mul(x, x), |x| x * x);
    let factor = match kind {
        NormKind::Rms | NormKind::Layer => 1.0 / (squares / len + eps).sqrt(),
        NormKind::L2 => 1.0 / (squares + eps).sqrt(),
    };
    match weight {
        Some(weight) => {
            for (x, &weight) in x.iter_mut().zip(weight) {
                *x = *x * factor * weight;
            }
        }
        None => {
            for x in x.iter_mut() {
                *x *= factor;
            }
        }
    }
    for (x, &bias) in x.iter_mut().zip(bias.unwrap_or(&[])) {
        *x += bias;
    }
}

/// The sum of a function of each element.
#[inline(always)]
fn sum<S: Simd>(
    simd: S,
    x: &[f32],
    of_lanes: impl Fn(S, S::V) -> S::V,
    of_one: impl Fn(f32) -> f32,
) -> f32 {
    let (lanes, tail) = x.as_chunks::<LANES>();
    let mut sums = simd.splat(0.0);
    for lane in lanes {
        sums = simd.add(sums, of_lanes(simd, simd.load(lane)));
    }
    simd.sum(sums) + tail.iter().map(|&x| of_one(x)).sum::<f32>()
}
