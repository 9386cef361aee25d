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
    /// The weights of a norm.
    ///
    /// # Errors
    /// If a weight is not a vector.
    pub(super) fn new(weights: &'a Weights, norm: &Norm) -> Result<Self, Error> {
        let &Norm { kind, weight, bias, eps } = norm;
        let (weight, bias) = (weights.optional(weight)?, weights.optional(bias)?);
        Ok(Self { kind, eps, weight, bias })
    }

    /// The weights of head `head` of a row, from those of a head or of all heads.
    #[inline(always)]
    fn of_head(self, head: usize, head_dim: usize) -> Self {
        let part = |all: &'a [f32]| match all.len() == head_dim {
            true => all,
            false => &all[head * head_dim..(head + 1) * head_dim],
        };
        Self { weight: self.weight.map(part), bias: self.bias.map(part), ..self }
    }
}

/// [`Op::Norm`](pelton_graph::Op::Norm) of one row, from `x` to `y`, or in place without `x`.
pub(super) struct NormRow<'a> {
    pub(super) x: Option<&'a [f32]>,
    pub(super) norm: NormWeights<'a>,
    pub(super) y: &'a mut [f32],
}

impl Body for NormRow<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, norm, y } = self;
        match x {
            Some(x) => {
                let moments = Moments::of(simd, norm, x);
                let elements = y.iter_mut().zip(x).map(|(y, &x)| (x, y));
                moments.apply(norm, elements);
            }
            None => normalize(simd, norm, y),
        }
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
    let moments = Moments::of(simd, norm, x);
    moments.apply(norm, x.iter_mut().map(|x| (*x, x)));
}

/// The mean that is subtracted from the elements, and the factor of the differences.
#[derive(Clone, Copy)]
struct Moments {
    mean: f32,
    factor: f32,
}

impl Moments {
    #[inline(always)]
    fn of<S: Simd>(simd: S, norm: NormWeights<'_>, x: &[f32]) -> Self {
        let len = x.len() as f32;
        let mean = match norm.kind {
            NormKind::Rms | NormKind::L2 => 0.0,
            NormKind::Layer => sum(simd, x) / len,
        };
        let squares = squares(simd, x, mean);
        let square = match norm.kind {
            NormKind::Rms | NormKind::Layer => squares / len,
            NormKind::L2 => squares,
        };
        Self { mean, factor: 1.0 / (square + norm.eps).sqrt() }
    }

    /// Writes the norm of each element, given with the place of its result.
    #[inline(always)]
    fn apply<'a>(self, norm: NormWeights<'_>, elements: impl Iterator<Item = (f32, &'a mut f32)>) {
        let Self { mean, factor } = self;
        match (norm.weight, norm.bias) {
            (Some(weight), None) => {
                for ((x, y), &weight) in elements.zip(weight) {
                    *y = (x - mean) * factor * weight;
                }
            }
            (Some(weight), Some(bias)) => {
                for (((x, y), &weight), &bias) in elements.zip(weight).zip(bias) {
                    *y = (x - mean) * factor * weight + bias;
                }
            }
            (None, Some(bias)) => {
                for ((x, y), &bias) in elements.zip(bias) {
                    *y = (x - mean) * factor + bias;
                }
            }
            (None, None) => {
                for (x, y) in elements {
                    *y = (x - mean) * factor;
                }
            }
        }
    }
}

/// `Σ x`.
#[inline(always)]
fn sum<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let (lanes, tail) = x.as_chunks::<LANES>();
    let mut sums = simd.splat(0.0);
    for lane in lanes {
        sums = simd.add(sums, simd.load(lane));
    }
    simd.sum(sums) + tail.iter().sum::<f32>()
}

/// `Σ (x - mean)²`.
#[inline(always)]
fn squares<S: Simd>(simd: S, x: &[f32], mean: f32) -> f32 {
    let (lanes, tail) = x.as_chunks::<LANES>();
    let mut squares = simd.splat(0.0);
    let minus_mean = simd.splat(-mean);
    for lane in lanes {
        let x = simd.add(simd.load(lane), minus_mean);
        squares = simd.mul_add(x, x, squares);
    }
    simd.sum(squares) + tail.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>()
}
