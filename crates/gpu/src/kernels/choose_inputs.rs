//! The choice of the live inputs of rows, for products with matrices in input-major order: the variants
//! of `choose_inputs.wgsl`.

use minijinja::context;
use pelton_graph::{Error, LOWER_HALF};

use crate::{
    device::{Capabilities, KernelSource},
    kernels::template,
    weights::{Layout, Lines},
};

/// Threads of a workgroup, where the GPU allows as many.
const THREADS: usize = 512;
/// Bytes of the bins of a choice, and of small arrays.
const BINS: usize = 8192;
const SMALL: usize = 1024;

/// The lists of a row's live inputs, for a product of one to three matrices of one format and with the
/// same number of inputs, from which each has live inputs of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChooseInputs {
    /// The first matrix.
    pub(crate) lines: Lines,
    /// Matrices.
    pub(crate) sides: usize,
    /// The `eps` of a norm before the product.
    pub(crate) norm: Option<f32>,
    /// The first of the rows' numbers of live inputs, and the step from row to row.
    pub(crate) lives_at: [usize; 2],
    /// Whether only rows of an effort below 1 are computed.
    pub(crate) only_below: bool,
    /// Whether rows can have a share of squared scores.
    pub(crate) energy: bool,
    /// Threads of the product in row-major order, so that the squares of a norm are summed in the
    /// same order.
    pub(crate) norm_threads: usize,
}

/// Vectors of 16 bytes of the lists of a matrix and row.
pub(crate) fn list_vectors(lines: &Lines) -> usize {
    let unit = Layout::of(lines.dtype).unit;
    1 + lines.cols.div_ceil(unit) * (1 + if lines.fields().blocks() { 4 } else { unit / 2 })
}

/// Threads of a subgroup, at least.
fn lanes(threads: usize, capabilities: &Capabilities) -> usize {
    (capabilities.subgroup as usize).clamp(1, threads)
}

/// The most subgroups of a workgroup.
fn subgroups(threads: usize, capabilities: &Capabilities) -> usize {
    threads.div_ceil(lanes(threads, capabilities))
}

impl ChooseInputs {
    fn threads(&self, capabilities: &Capabilities) -> usize {
        let vectors = (self.lines.cols / 4).next_power_of_two();
        let most = THREADS.min(capabilities.workgroup_threads as usize);
        vectors.max(self.norm_threads).min(most)
    }

    /// Units whose lists a workgroup writes.
    fn chunk(&self, threads: usize) -> usize {
        threads * 4 / Layout::of(self.lines.dtype).unit
    }

    /// Workgroups of a row: each chooses, and writes the lists of as many units as it has threads for.
    pub(crate) fn groups(&self, capabilities: &Capabilities) -> u32 {
        (self.sides * self.turns(self.threads(capabilities))) as u32
    }

    fn turns(&self, threads: usize) -> usize {
        (self.lines.cols / 4).div_ceil(threads)
    }

    /// Whether the GPU has the workgroup memory for the choice.
    pub(crate) fn fits(&self, capabilities: &Capabilities) -> bool {
        let threads = self.threads(capabilities);
        let chunk = self.chunk(threads);
        let lower_masks = if self.lines.nested { 4 * chunk } else { 0 };
        let bytes = match self.lines.fields().blocks() {
            true => BINS.max(64 * chunk) + (32 + 4 + 8 + 4) * chunk + lower_masks,
            false => BINS + 4 * chunk,
        };
        let square_sums = if self.energy { 32 * subgroups(threads, capabilities) } else { 0 };
        bytes + square_sums + SMALL <= capabilities.workgroup_bytes as usize
    }

    /// The WGSL of the kernel; `row_vectors` is the number of vectors of a row in the lists.
    pub(crate) fn source(
        &self,
        capabilities: &Capabilities,
        row_vectors: usize,
    ) -> Result<KernelSource, Error> {
        let threads = self.threads(capabilities);
        let layout = Layout::of(self.lines.dtype);
        let fields = self.lines.fields();
        let lanes = lanes(threads, capabilities);
        let halves = if fields.upper_bits == 2 { 2 } else { 1 };
        let candidates = self.lines.candidates();
        // as in matvec.wgsl
        let share = 1 << lanes.clamp(2, 8).ilog2();
        template::render(
            "choose_inputs.wgsl",
            context! {
                k => self.lines.cols,
                units => layout.units(self.lines.cols),
                chunk => self.chunk(threads),
                turns => self.turns(threads),
                candidates,
                halves,
                nested => self.lines.nested,
                lower => template::float(1.0 / LOWER_HALF),
                // the sums of the codes of a unit
                sums => if self.lines.nested { 2 } else { halves },
                energy => self.energy,
                late_bits => usize::BITS - (candidates - 1).leading_zeros(),
                norm => self.norm.is_some(),
                eps => self.norm.map_or_else(String::new, template::float),
                norm_threads => self.norm_threads.min(capabilities.workgroup_threads as usize),
                norm_own => if fields.blocks() { 8 / share } else { 1 },
                lives_at => self.lives_at[0],
                lives_step => self.lives_at[1],
                only_below => self.only_below,
                sides => self.sides,
                side_vectors => list_vectors(&self.lines),
                subgroups => subgroups(threads, capabilities),
                together => 1,
                share, threads, row_vectors,
                ..template::format(&layout)
            },
        )
    }

    pub(crate) fn label(&self) -> String {
        format!("choose_inputs {}", self.lines.cols)
    }
}
