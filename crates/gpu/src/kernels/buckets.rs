//! Products with sorted buckets (bucketMul) for rows of an effort below 1: the cutoffs of the rows
//! (`bucket_cutoff.wgsl`), partial sums of the selected ranks (`bucket_product.wgsl`), and the results
//! (`bucket_sums.wgsl`). No step uses atomics, so results repeat bit for bit.
//!
//! `bucket_cutoff.wgsl` searches the cutoff of each matrix bit by bit. `bucket_product.wgsl` writes
//! the selected lines of 64 inputs to a list in workgroup memory, at places from a prefix sum, and
//! adds their products to sums that one thread has. `bucket_sums.wgsl` adds the K splits in order.

use minijinja::{Value, context};
use pelton_graph::{Error, Gating};
use pelton_quant::PROBES;

use crate::{
    device::{Capabilities, KernelSource},
    kernels::template,
    weights::{self, BUCKET_CHUNK, BUCKET_LINE, BUCKET_TILE},
};

/// The most threads of the cutoff: it is one workgroup for each row and matrix.
const CUTOFF_THREADS: usize = 1024;
/// Threads of the product, which have sums of 128 bytes each in workgroup memory.
const THREADS: usize = 128;
/// Groups of threads that take lines in turn.
const GROUPS: usize = THREADS / BUCKET_LINE;
/// Lines that a thread loads before it adds their products.
const UNROLL: usize = 16;
/// Workgroups of a product, at least, if K splits can be so many: several for each multiprocessor of a
/// large GPU.
const WORKGROUPS: usize = 1024;
/// The most K splits.
const SPLITS: usize = 64;
/// Parts of the splits, which are added in order.
const PARTS: usize = 8;
/// Quads of sums of a workgroup.
const QUADS: usize = 32;

/// A matrix of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// Its shape.
    pub(crate) shape: weights::Buckets,
    /// Whether a bias is added.
    pub(crate) bias: bool,
}

/// Products of rows with one to three matrices with the same number of inputs, each of which has a cutoff of
/// its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Buckets {
    /// The matrices.
    pub(crate) sides: Vec<Side>,
    /// The `eps` of a norm before the product.
    pub(crate) norm: Option<f32>,
    /// Whether the result is added to y.
    pub(crate) add: bool,
    /// Whether the result is written to another buffer than y.
    pub(crate) apart: bool,
    /// The gated product of two sides, if it is the result.
    pub(crate) glu: Option<Gating>,
    /// The first of the rows' words in the buffer of live inputs, for the first matrix of all, and the step from row to
    /// row.
    pub(crate) rows_at: [usize; 2],
    /// Whether K splits have workgroups of their own, for up to
    /// [`GRID_ROWS`](super::live_product::GRID_ROWS) rows. The bits of the results do
    /// not depend on it.
    pub(crate) on_grid: bool,
}

impl Buckets {
    fn shape(&self) -> weights::Buckets {
        const NONE: weights::Buckets = weights::Buckets { rows: BUCKET_TILE, cols: 1, ranks: 1 };
        self.sides.first().map_or(NONE, |side| side.shape)
    }

    /// Tiles of all matrices.
    fn tiles(&self) -> usize {
        self.sides.iter().map(|side| side.shape.tiles()).sum()
    }

    /// K splits, and chunks of one.
    fn splits(&self) -> (usize, usize) {
        let chunks = self.shape().chunks();
        let wanted = WORKGROUPS.div_ceil(self.tiles()).clamp(1, SPLITS);
        let each = chunks.div_ceil(wanted);
        (chunks.div_ceil(each), each)
    }

    /// Splits whose sums are in the buffer of partial sums.
    fn written_splits(&self) -> usize {
        if self.on_grid { self.splits().0 } else { 1 }
    }

    /// Elements of the partial sums of a row.
    pub(crate) fn partial_len(&self) -> usize {
        self.tiles() * BUCKET_TILE * self.written_splits()
    }

    fn written(&self) -> &[Side] {
        &self.sides[..if self.glu.is_some() { 1 } else { self.sides.len() }]
    }

    /// Bytes of workgroup memory of the product.
    fn workgroup_bytes(&self, lanes: usize) -> usize {
        32 * THREADS * 4 + BUCKET_CHUNK * self.shape().ranks * 8 + THREADS.div_ceil(lanes) * 4
    }

    /// Whether the GPU has the threads and the workgroup memory for it.
    pub(crate) fn fits(&self, capabilities: &Capabilities) -> bool {
        let lanes = (capabilities.subgroup as usize).max(1);
        capabilities.workgroup_threads as usize >= PARTS * QUADS
            && self.workgroup_bytes(lanes) <= capabilities.workgroup_bytes as usize
    }

    /// The first tile of each matrix and its sections, for templates.
    fn contexts(&self) -> Vec<Value> {
        let mut first = 0;
        let context = |side: &Side| {
            let [means, probes, unit, _] = side.shape.sections();
            let (rows, bias, tiles) = (side.shape.rows, side.bias, side.shape.tiles());
            first += tiles;
            context! { first => first - tiles, rows, bias, tiles, means, probes, unit }
        };
        self.sides.iter().map(context).collect()
    }

    /// Workgroups of the cutoffs of a row.
    pub(crate) fn cutoff_groups(&self) -> u32 {
        self.sides.len() as u32
    }

    /// The WGSL of the cutoffs.
    pub(crate) fn cutoff_source(&self, capabilities: &Capabilities) -> Result<KernelSource, Error> {
        let threads = CUTOFF_THREADS.min(capabilities.workgroup_threads as usize);
        let lanes = (capabilities.subgroup as usize).clamp(1, threads);
        template::render(
            "bucket_cutoff.wgsl",
            context! {
                k => self.shape().cols,
                probes => PROBES,
                threads,
                each => PROBES.div_ceil(threads),
                subgroups => threads.div_ceil(lanes),
                norm => self.norm.is_some(),
                eps => self.norm.map_or_else(String::new, template::float),
                rows_at => self.rows_at[0],
                lives_step => self.rows_at[1],
                sides => self.contexts(),
            },
        )
    }

    /// Workgroups of the partial sums of a row.
    pub(crate) fn product_groups(&self) -> u32 {
        (self.tiles() * self.written_splits()) as u32
    }

    /// The WGSL of the partial sums.
    pub(crate) fn product_source(
        &self,
        capabilities: &Capabilities,
    ) -> Result<KernelSource, Error> {
        let lanes = (capabilities.subgroup as usize).clamp(1, THREADS);
        let (splits, each) = self.splits();
        template::render(
            "bucket_product.wgsl",
            context! {
                k => self.shape().cols,
                threads => THREADS,
                groups => GROUPS,
                ranks => self.shape().ranks,
                chunk => BUCKET_CHUNK,
                chunks => self.shape().chunks(),
                line => BUCKET_LINE,
                tiles => self.tiles(),
                slots => BUCKET_TILE / THREADS,
                part => splits.div_ceil(PARTS),
                unroll => UNROLL,
                subgroups => THREADS.div_ceil(lanes),
                norm => self.norm.is_some(),
                on_grid => self.on_grid,
                rows_at => self.rows_at[0],
                lives_step => self.rows_at[1],
                sides => self.contexts(),
                splits, each,
            },
        )
    }

    /// Workgroups of the results of a row.
    pub(crate) fn sum_groups(&self) -> u32 {
        let tiles: usize = self.written().iter().map(|side| side.shape.tiles()).sum();
        (tiles * (BUCKET_TILE / 4 / QUADS)) as u32
    }

    /// The WGSL of the results.
    pub(crate) fn sum_source(&self) -> Result<KernelSource, Error> {
        let (splits, sides) = (self.written_splits(), self.contexts());
        template::render(
            "bucket_sums.wgsl",
            context! {
                splits,
                part => splits.div_ceil(PARTS),
                parts => PARTS,
                quads => QUADS,
                threads => PARTS * QUADS,
                tiles => self.tiles(),
                add => self.add,
                apart => self.apart,
                glu => self.glu.is_some(),
                gating => self.glu.as_ref().map(template::gating),
                element => "f32",
                rows_at => self.rows_at[0],
                lives_step => self.rows_at[1],
                written => &sides[..self.written().len()],
                sides,
            },
        )
    }

    pub(crate) fn label(&self) -> String {
        let rows: usize = self.sides.iter().map(|side| side.shape.rows).sum();
        format!("buckets {rows}x{}", self.shape().cols)
    }
}

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    let silu = Some(Gating::Product(pelton_graph::Activation::Silu));
    let mut all = Vec::new();
    for subgroup in [8, 32, 64] {
        let capabilities = crate::testing::capabilities(subgroup);
        for ranks in [16, 11] {
            let shape = weights::Buckets { rows: 1040, cols: 333, ranks };
            let side = |bias| Side { shape, bias };
            let plain = Buckets {
                sides: vec![side(false)],
                norm: None,
                add: true,
                apart: false,
                glu: None,
                rows_at: [1, 2],
                on_grid: true,
            };
            let (norm, add) = (Some(1e-5), false);
            for product in [
                Buckets { sides: vec![side(true); 3], norm, add, ..plain.clone() },
                Buckets { sides: vec![side(false); 2], norm, add, glu: silu, ..plain.clone() },
                Buckets { apart: true, on_grid: false, ..plain.clone() },
                plain,
            ] {
                for source in [
                    product.cutoff_source(&capabilities),
                    product.product_source(&capabilities),
                    product.sum_source(),
                ] {
                    all.push((format!("{product:?}"), source.unwrap()));
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
