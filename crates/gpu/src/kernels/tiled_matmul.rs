//! Matrix products for many rows of activations, without matrix cores.
//!
//! Both operands pass through workgroup memory, and each thread keeps 16 or 32 sums in registers.
//! Weights in blocks are decoded to signed bytes, once for a tile, and multiplied by
//! `dot4I8Packed`; weights in floats are f32. K is split by its length alone. Up to 128 rows the
//! splits have workgroups of their own, and `sum_splits.wgsl` adds them in the order in which one
//! workgroup adds them for more rows.

use minijinja::context;
use pelton_graph::Error;

use crate::{
    device::{Capabilities, KernelSource},
    kernels::{experts::Experts, template},
    weights::Layout,
};

/// A product of activations in 8 bits ([`ToQ8`](super::to_q8::ToQ8)) with weights in blocks, or of
/// activations in f32 with weights in floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TiledMatmul {
    /// The layout of the weights.
    pub(crate) layout: Layout,
    /// Weights in a row.
    pub(crate) k: usize,
    /// Rows of this shard of the matrix: outputs.
    pub(crate) rows: usize,
    /// Outputs of the shards before this one.
    pub(crate) offset: usize,
    /// Outputs of all shards.
    pub(crate) stride: usize,
    /// Whether the results are multiplied by the factors of a norm, of weights in blocks alone.
    pub(crate) norm: bool,
    /// Whether a bias is added.
    pub(crate) bias: bool,
    /// Whether the result is added to y.
    pub(crate) add: bool,
    /// The index of the number of rows of activations in the numbers of a pass.
    pub(crate) count_at: usize,
    /// Whether the K splits have workgroups of their own, which write their partial sums.
    pub(crate) on_grid: bool,
    /// The matrices of this shard, if there are several, each of `rows` rows.
    pub(crate) experts: Option<Experts>,
}

/// Elements of a K split.
const SPLIT: usize = 512;

/// K splits of a product of rows of `k` elements: of any number of rows, so that all sum alike.
pub(crate) const fn splits(k: usize) -> usize {
    k.div_ceil(SPLIT)
}

/// Rows of activations up to which K splits have workgroups of their own.
pub(crate) const FEW_ROWS: usize = 128;

/// The work split of a product: the tile of y of a workgroup, and the results of each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadTile {
    /// Rows of activations of a workgroup.
    pub(crate) batch: usize,
    /// Rows of the matrix of a workgroup.
    pub(crate) rows: usize,
    /// Rows of activations of a thread.
    pub(crate) thread_batch: usize,
    /// Rows of the matrix of a thread.
    pub(crate) thread_rows: usize,
    /// Vectors of 16 bytes of each row in workgroup memory at a time.
    pub(crate) pieces: usize,
}

/// Workgroups that keep a large GPU busy, two on each multiprocessor.
const GROUPS: usize = 264;

impl ThreadTile {
    /// The tiles: of few rows of activations, and of many with few or many workgroups.
    pub(crate) const ALL: [Self; 3] = [
        Self::of([32, 64], [4, 4], 8),
        Self::of([64, 64], [4, 4], 8),
        Self::of([128, 64], [8, 4], 4),
    ];

    /// The tile of software drivers, which take long to compile more results of a thread.
    pub(crate) const SOFTWARE: Self = Self::of([32, 16], [4, 2], 4);

    const fn of(tile: [usize; 2], thread: [usize; 2], pieces: usize) -> Self {
        Self {
            batch: tile[0],
            rows: tile[1],
            thread_batch: thread[0],
            thread_rows: thread[1],
            pieces,
        }
    }

    /// Bytes of workgroup memory, for the formats that have most scales.
    const fn bytes(&self) -> usize {
        let pieces = self.pieces * (self.batch + self.rows + 2);
        16 * (pieces + self.pieces / 2 * (self.batch + self.rows))
    }

    /// Workgroups for `count` rows of activations and a matrix of `rows`.
    pub(crate) const fn groups(&self, count: usize, rows: usize) -> [u32; 3] {
        [count.div_ceil(self.batch) as u32, rows.div_ceil(self.rows) as u32, 1]
    }

    /// The tile with fewer pieces where workgroup memory is short.
    fn within(self, capabilities: &Capabilities) -> Self {
        match self.bytes() <= capabilities.workgroup_bytes as usize {
            true => self,
            false => Self { pieces: 4, ..self },
        }
    }

    /// The tile of few rows, and of products with a matrix for each head or expert, which has few
    /// rows each.
    pub(crate) fn of_few(capabilities: &Capabilities) -> Self {
        match Self::unrolls(capabilities) {
            true => Self::ALL[0].within(capabilities),
            false => Self::SOFTWARE,
        }
    }

    /// Whether kernels may be unrolled for many results of a thread.
    pub(crate) const fn unrolls(capabilities: &Capabilities) -> bool {
        capabilities.batch >= 8
    }
}

impl TiledMatmul {
    /// The tile for passes of more than [`FEW_ROWS`] rows, and of up to `most`. All tiles sum in
    /// the same order, so that a row's result does not depend on the choice.
    pub(crate) fn tile(&self, capabilities: &Capabilities, most: usize) -> ThreadTile {
        if !ThreadTile::unrolls(capabilities) {
            return ThreadTile::SOFTWARE;
        }
        let [_, middle, large] = ThreadTile::ALL.map(|tile| tile.within(capabilities));
        let [across, down, _] = large.groups(most, self.rows);
        let fits = large.bytes() <= capabilities.workgroup_bytes as usize;
        match fits && (across * down) as usize >= GROUPS {
            true => large,
            false => middle,
        }
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self, tile: &ThreadTile) -> Result<KernelSource, Error> {
        let &ThreadTile { batch, rows, thread_batch, thread_rows, pieces } = tile;
        template::render(
            "tiled_matmul.wgsl",
            context! {
                batch, rows, thread_batch, thread_rows, pieces,
                k => self.k,
                units => self.layout.units(self.k),
                matrix_rows => self.rows,
                offset => self.offset,
                stride => self.stride,
                norm => self.norm,
                bias => self.bias,
                add => self.add,
                count_at => self.count_at,
                splits => splits(self.k),
                split_units => SPLIT / self.layout.unit,
                on_grid => self.on_grid,
                slab_rows => FEW_ROWS,
                experts => self.experts.map(|experts| experts.parameters(self.rows)),
                ..template::format(&self.layout)
            },
        )
    }
}

/// Kernels for the test of translations.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    use pelton_quant::DType;

    use crate::kernels::experts::Pick;
    let mut all = Vec::new();
    for layout in DType::ALL.map(Layout::of) {
        let plain = TiledMatmul {
            layout,
            k: 768,
            rows: 70,
            offset: 10,
            stride: 90,
            norm: false,
            bias: false,
            add: false,
            count_at: 0,
            on_grid: false,
            experts: None,
        };
        let experts = |pick, own| {
            let experts = Experts { pick, count: 8, first: 2, end: 6, used: 3, own };
            TiledMatmul { offset: 0, stride: 70, experts: Some(experts), ..plain }
        };
        let blocks = layout.blocks();
        for product in [
            plain,
            TiledMatmul { k: if blocks { 768 } else { 770 }, norm: blocks, bias: true, ..plain },
            TiledMatmul { add: true, ..plain },
            TiledMatmul { k: 3 * 1024, on_grid: true, ..plain },
            TiledMatmul { k: 3 * 1024, add: true, ..plain },
            experts(Pick::Sorted, true),
            TiledMatmul { bias: true, ..experts(Pick::Sorted, false) },
            experts(Pick::Heads, true),
        ] {
            let tiles = [ThreadTile::SOFTWARE].into_iter().chain(ThreadTile::ALL);
            for tile in tiles.take(if product == plain { 4 } else { 1 }) {
                all.push((format!("{product:?} {tile:?}"), product.source(&tile).unwrap()));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
