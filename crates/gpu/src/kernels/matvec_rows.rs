//! Matrix products for several rows of activations, of weights in blocks.

use minijinja::{Value, context};
use pelton_graph::{Error, Gating};

use crate::{
    device::{Capabilities, KernelSource},
    kernels::{experts::Experts, template},
    weights::Layout,
};

/// A product of quantized activations ([`ToQ8`](super::to_q8::ToQ8)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MatVecRows {
    /// The layout of the weights, in blocks.
    pub(crate) layout: Layout,
    /// Weights in a row.
    pub(crate) k: usize,
    /// Rows of this shard of the matrix: outputs.
    pub(crate) rows: usize,
    /// Outputs of the shards before this one.
    pub(crate) offset: usize,
    /// Outputs of all shards.
    pub(crate) stride: usize,
    /// Rows of activations that one reading of the weights serves.
    pub(crate) batch: usize,
    /// Whether there was a norm before the product.
    pub(crate) norm: bool,
    /// Whether a bias is added.
    pub(crate) bias: bool,
    /// Whether the result is added to y.
    pub(crate) add: bool,
    /// The gated product of two matrices, gate and up, if it is the result.
    pub(crate) glu: Option<Gating>,
    /// The index of the number of rows of activations in the numbers of a pass.
    pub(crate) count_at: usize,
    /// The matrices of this shard, if there are several, each of `rows` rows.
    pub(crate) experts: Option<Experts>,
}

/// Threads of a workgroup: with twice as many a lane has too few registers for its sums.
const THREADS: usize = 256;
/// Sums of a lane: rows of activations times rows of matrices.
const SUMS: usize = 32;
/// The most workgroups along the rows of the matrix: four for each multiprocessor of a large GPU,
/// or two where more than [`FEW`] rows of activations leave room for no more of them.
const GROUPS: [usize; 2] = [528, 264];
/// Rows of activations up to which a multiprocessor has four workgroups.
const FEW: usize = 8;
/// Bytes of a unit of activations: codes, scale and sums.
const UNIT_BYTES: usize = 40;

/// The launch configuration of a product.
struct LaunchShape {
    /// Rows of the matrix that a subgroup takes at a time.
    each: usize,
    /// Rows of the matrix of a workgroup.
    tile: usize,
    /// Units of activations in workgroup memory.
    chunk: usize,
}

impl MatVecRows {
    fn launch(&self, capabilities: &Capabilities) -> LaunchShape {
        let width = (capabilities.subgroup as usize).clamp(1, THREADS);
        let widest = (capabilities.widest_subgroup as usize).clamp(width, THREADS);
        let units = self.layout.units(self.k);
        let matrices = 1 + usize::from(self.glu.is_some());
        let subgroups = THREADS / width;
        let groups = GROUPS[usize::from(self.batch > FEW)];
        // fewer rows at a time where there would be too few workgroups
        let most = (SUMS / self.batch / matrices).clamp(1, 4);
        let each = self.rows.div_ceil(subgroups * groups / 2).clamp(1, most);
        let step = each * subgroups;
        let turns = self.rows.div_ceil(step * groups);
        let room = (capabilities.workgroup_bytes as usize).min(24 << 10);
        let fit = (room / (UNIT_BYTES * self.batch) / widest).max(1) * widest;
        let chunk = fit.min(units.next_multiple_of(widest));
        LaunchShape { each, tile: step * turns, chunk }
    }

    /// Workgroups along the rows of the matrix.
    pub(crate) fn groups(&self, capabilities: &Capabilities) -> u32 {
        self.rows.div_ceil(self.launch(capabilities).tile) as u32
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self, capabilities: &Capabilities) -> Result<KernelSource, Error> {
        let LaunchShape { each, tile, chunk } = self.launch(capabilities);
        let fixed = (capabilities.subgroup == capabilities.widest_subgroup)
            .then_some(capabilities.subgroup as usize)
            .filter(|width| THREADS.is_multiple_of(*width));
        let format = template::format(&self.layout);
        let matrices: Vec<Value> = (0..1 + usize::from(self.glu.is_some()))
            .map(|i| context! { kind => "", defines => i == 0, of => format.clone() })
            .collect();
        template::render(
            "matvec_rows.wgsl",
            context! {
                k => self.k,
                units => self.layout.units(self.k),
                rows => self.rows,
                offset => self.offset,
                stride => self.stride,
                batch => self.batch,
                norm => self.norm,
                bias => self.bias,
                add => self.add,
                glu => self.glu.is_some(),
                gating => self.glu.as_ref().map(template::gating),
                element => "f32",
                experts => self.experts.map(|experts| experts.parameters(self.rows)),
                count_at => self.count_at,
                threads => THREADS,
                lanes => (capabilities.subgroup as usize).clamp(1, THREADS),
                fixed_width => fixed.unwrap_or(0),
                each, tile, chunk, matrices,
                ..template::format(&self.layout)
            },
        )
    }
}

#[cfg(test)]
const SILU: Option<Gating> = Some(Gating::Product(pelton_graph::Activation::Silu));

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    use pelton_quant::DType;
    let mut all = Vec::new();
    for layout in DType::ALL.iter().map(|&dtype| Layout::of(dtype)).filter(Layout::blocks) {
        for (norm, bias, add, glu) in [
            (false, false, false, None),
            (true, true, false, None),
            (false, true, true, None),
            (true, false, false, SILU),
        ] {
            for (batch, subgroup) in [(4, 8), (16, 32)] {
                let product = MatVecRows {
                    layout,
                    k: 2816,
                    rows: 70,
                    offset: 30,
                    stride: 100,
                    batch,
                    norm,
                    bias,
                    add,
                    glu,
                    count_at: 0,
                    experts: None,
                };
                let source = product.source(&crate::testing::capabilities(subgroup)).unwrap();
                all.push((format!("{product:?}"), source));
            }
        }
    }
    all
}
