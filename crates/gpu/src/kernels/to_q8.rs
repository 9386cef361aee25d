//! Activations in 8 bits, as products of several rows take them.

use minijinja::context;
use pelton_graph::Error;

use crate::{
    device::{Capabilities, KernelSource},
    kernels::template,
};

/// Weights in a unit, which have one scale of activations.
pub(crate) const UNIT: usize = 32;

/// A quantization of rows of `k` elements, a multiple of [`UNIT`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ToQ8 {
    /// Elements of a row.
    pub(crate) k: usize,
    /// Such rows in a row of the pass: one for each head or chosen expert.
    pub(crate) per_row: usize,
    /// The `eps` of a norm before.
    pub(crate) norm: Option<f32>,
    /// Threads of a workgroup, at most those that the GPU allows. They are as many as in `matvec`,
    /// so that a norm sums its squares in the same order for any number of rows.
    pub(crate) threads: usize,
}

impl ToQ8 {
    /// The WGSL of the kernel.
    pub(crate) fn source(&self, capabilities: &Capabilities) -> Result<KernelSource, Error> {
        let threads = self.threads.min(capabilities.workgroup_threads as usize);
        let width = (capabilities.subgroup as usize).clamp(1, threads);
        let units = self.k / UNIT;
        let share = 1 << width.clamp(2, 8).ilog2();
        template::render(
            "to_q8.wgsl",
            context! {
                k => self.k,
                per_row => self.per_row,
                units,
                chunk => units,
                threads,
                share,
                together => (units * share).div_ceil(threads).clamp(1, 4),
                subgroups => threads.div_ceil(width),
                norm => self.norm.is_some(),
                eps => self.norm.map_or_else(String::new, template::float),
            },
        )
    }
}

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    let mut all = Vec::new();
    for k in [32, 768, 8192] {
        for norm in [None, Some(1e-5)] {
            for subgroup in [4, 32] {
                let quantize =
                    ToQ8 { k, per_row: 1 + 2 * usize::from(norm.is_none()), norm, threads: 512 };
                let source = quantize.source(&crate::testing::capabilities(subgroup)).unwrap();
                all.push((format!("{quantize:?} by {subgroup}"), source));
            }
        }
    }
    all
}
