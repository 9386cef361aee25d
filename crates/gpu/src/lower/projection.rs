//! The matrix products of steps.

use pelton_graph::{Linear, Norm};

/// A linear projection `y = W · x (+ bias)`, of x or of its norm; with `add`, `y += …`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Projection<'b> {
    pub(super) linear: &'b Linear,
    pub(super) norm: Option<&'b Norm>,
    pub(super) x: &'b wgpu::Buffer,
    pub(super) y: &'b wgpu::Buffer,
    pub(super) add: bool,
}

/// Linear projections of one x, of which a norm may come first, each to an output of its own; of a
/// gate and its value the only output is their gated product.
#[derive(Clone, Copy, Debug)]
pub(super) struct NormedProjections<'b> {
    pub(super) norm: Option<&'b Norm>,
    pub(super) linears: &'b [Linear],
    pub(super) x: &'b wgpu::Buffer,
    pub(super) outputs: &'b [&'b wgpu::Buffer],
}
