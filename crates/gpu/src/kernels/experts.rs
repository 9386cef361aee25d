//! Mixtures of experts: the choice of experts, and the choice of a matrix by the
//! kernels of products.

use minijinja::{Value, context};
use pelton_graph::{Error, ExpertGroups, Route as RouteOp, Scores};

use crate::{
    device::{Capabilities, KernelSource},
    kernels::template,
};

/// The way in which a workgroup of a product chooses one of several matrices (`experts.wgsl`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// By the id of one row and chosen expert: decoding rows.
    Ids,
    /// By a tile of rows that chose one expert: prompt rows.
    Sorted,
    /// By its head.
    Heads,
}

/// The matrices of a shard, and the rows that a product with them has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Experts {
    /// The choice of a matrix.
    pub(crate) pick: Pick,
    /// Matrices of all shards: experts or heads.
    pub(crate) count: usize,
    /// The matrices `first..end` of this shard.
    pub(crate) first: usize,
    pub(crate) end: usize,
    /// Chosen experts of a row.
    pub(crate) used: usize,
    /// Whether activations have a row for each chosen expert or head, not one for all.
    pub(crate) own: bool,
}

impl Experts {
    /// The parameters of `experts.wgsl`, for matrices of `rows` rows.
    pub(crate) fn parameters(&self, rows: usize) -> Value {
        let &Self { pick, count, first, end, used, own } = self;
        let pick = match pick {
            Pick::Ids => "ids",
            Pick::Sorted => "sorted",
            Pick::Heads => "heads",
        };
        context! { pick, count, first, end, used, own, rows }
    }
}

/// The kernel that chooses experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Route(pub(crate) RouteOp);

impl Route {
    /// Threads of a workgroup.
    const THREADS: usize = 256;
    /// Maximum experts: 12 bytes of workgroup memory for each.
    const EXPERTS: usize = 1024;

    /// Whether the kernel can compute it.
    pub(crate) fn fits(&self, capabilities: &Capabilities) -> bool {
        let RouteOp {
            experts,
            used,
            scores,
            bias: _,
            groups,
            normalize: _,
            scale: _,
            expert_scale: _,
        } = self.0;
        let grouped = groups.is_none_or(|ExpertGroups { count, used: open, best }| {
            count > 0
                && experts.is_multiple_of(count)
                && count <= Self::THREADS
                && (1..=2).contains(&best)
                && (1..=count).contains(&open)
                && used <= open * (experts / count)
        });
        let known = match scores {
            Scores::Softmax | Scores::Sigmoid | Scores::SelectedSoftmax => true,
        };
        known
            && (1..=Self::EXPERTS).contains(&experts)
            && (1..=experts).contains(&used)
            && capabilities.workgroup_threads as usize >= Self::THREADS
            && grouped
    }

    /// The WGSL of the kernel, of which a workgroup computes a row.
    pub(crate) fn source(&self) -> Result<KernelSource, Error> {
        let RouteOp { experts, used, scores, bias, groups, normalize, scale, expert_scale } =
            self.0;
        let scores = match scores {
            Scores::Softmax => "softmax",
            Scores::Sigmoid => "sigmoid",
            Scores::SelectedSoftmax => "selected",
        };
        let groups =
            groups.map(|ExpertGroups { count, used, best }| context! { count, used, best });
        let scale = template::float(scale);
        let (bias, expert_scale) = (bias.is_some(), expert_scale.is_some());
        let threads = Self::THREADS;
        template::render(
            "route.wgsl",
            context! { experts, used, scores, bias, groups, normalize, scale, expert_scale, threads },
        )
    }
}

/// The kernel that sorts rows by their experts, for products of tiles of `tile` rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    /// Experts.
    pub(crate) experts: usize,
    /// Chosen experts of a row.
    pub(crate) used: usize,
    /// The most rows of a tile.
    pub(crate) tile: usize,
    /// The index of the number of rows among the row counts of the pass.
    pub(crate) count_at: usize,
}

impl Sort {
    /// The most tiles of `rows` rows: each expert that a row chose has one that is not full.
    pub(crate) fn tiles(&self, rows: usize) -> usize {
        let pairs = rows * self.used;
        pairs.div_ceil(self.tile) + self.experts.min(pairs)
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<KernelSource, Error> {
        let &Self { experts, used, tile, count_at } = self;
        let parameters = context! { experts, used, tile, count_at, threads => 256 };
        template::render("sort_experts.wgsl", parameters)
    }
}

/// Every kernel, for the test that all of them translate.
/// Pairs of rows and experts for tests, as the kernels find them.
#[cfg(test)]
pub(crate) struct SortedPairs {
    /// The expert `[pairs]` of each pair.
    pub(crate) ids: Vec<usize>,
    /// The pairs in the order of their experts.
    pub(crate) pairs: Vec<u32>,
    /// Tiles of them: expert, first pair, end, 0. The first has no pairs.
    pub(crate) tiles: Vec<[u32; 4]>,
}

#[cfg(test)]
impl SortedPairs {
    /// `count` pairs in tiles of up to `batch`. The first expert has most of them; heads take
    /// turns.
    pub(crate) fn new(experts: &Experts, count: usize, batch: usize) -> Self {
        let mut random = pelton_testing::Random::new(4);
        let id = |pair: usize| match experts.pick {
            Pick::Heads => pair % experts.count,
            _ => [0, 0, 1, 2][(pair * 7 + random.below(2)) % 4],
        };
        let ids: Vec<usize> = (0..count).map(id).collect();
        let mut pairs: Vec<u32> = (0..count as u32).collect();
        pairs.sort_by_key(|&pair| ids[pair as usize]);
        let mut tiles = vec![[0; 4]];
        let mut first = 0;
        for run in pairs.chunk_by(|&a, &b| ids[a as usize] == ids[b as usize]) {
            for tile in run.chunks(batch) {
                let end = first + tile.len() as u32;
                tiles.push([ids[tile[0] as usize] as u32, first, end, 0]);
                first = end;
            }
        }
        Self { ids, pairs, tiles }
    }
}

#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    use pelton_graph::WeightId;

    let mut all = Vec::new();
    let id = Some(WeightId(0));
    for scores in [Scores::Softmax, Scores::Sigmoid, Scores::SelectedSoftmax] {
        for (experts, used, bias, groups) in [
            (7, 2, None, None),
            (256, 8, id, Some(ExpertGroups { count: 8, used: 4, best: 2 })),
            (160, 6, None, Some(ExpertGroups { count: 8, used: 3, best: 1 })),
        ] {
            let (normalize, scale, expert_scale) = (bias.is_some(), 2.5, bias);
            let route =
                RouteOp { experts, used, scores, bias, groups, normalize, scale, expert_scale };
            all.push((format!("{route:?}"), Route(route).source().unwrap()));
        }
    }
    all.extend(products());
    for experts in [7, 512] {
        let sort = Sort { experts, used: 3, tile: 16, count_at: 0 };
        all.push((format!("{sort:?}"), sort.source().unwrap()));
    }
    all
}

/// The kernels of products with each choice of a matrix.
#[cfg(test)]
fn products() -> Vec<(String, KernelSource)> {
    use pelton_graph::{Activation, Gating};
    use pelton_quant::DType;

    use crate::{
        kernels::{
            cores_matmul::{CoresMatmul, DECODE},
            matvec::{MatVec, Tuning},
            matvec_rows::MatVecRows,
        },
        testing::capabilities,
        weights::Layout,
    };
    let mut all = Vec::new();
    let (k, rows, offset, stride, count_at) = (768, 70, 0, 70, 0);
    let dtypes = [DType::F32, DType::F16, DType::Q8_0, DType::Q6_K];
    let picks = [(Pick::Ids, 1), (Pick::Sorted, 4), (Pick::Heads, 1), (Pick::Heads, 16)];
    for layout in dtypes.map(Layout::of) {
        for (i, (pick, batch)) in picks.into_iter().enumerate() {
            let own = i % 2 == 0;
            let experts = Some(Experts { pick, count: 8, first: 2, end: 6, used: 3, own });
            let clamped = Gating::Clamped { alpha: 1.702, limit: 7.0 };
            for glu in [None, Some(Gating::Product(Activation::GeluErf)), Some(clamped)] {
                let (norm, add, fused_with) = (None, false, [None; 2]);
                let (bias, tuning) = (!own || glu.is_some(), Tuning::CANDIDATES[0]);
                let product = MatVec {
                    layout,
                    k,
                    rows,
                    offset,
                    stride,
                    batch,
                    norm,
                    bias,
                    activation: None,
                    add,
                    glu,
                    fused_with,
                    count_at,
                    experts,
                    tuning,
                };
                let source = product.source(&capabilities(8)).unwrap();
                all.push((format!("{product:?}"), source));
            }
            let (norm, bias, add, glu) = (false, own, false, None);
            if layout.blocks() && pick != Pick::Ids {
                let product = MatVecRows {
                    layout,
                    k,
                    rows,
                    offset,
                    stride,
                    batch,
                    norm,
                    bias,
                    add,
                    glu,
                    count_at,
                    experts,
                };
                let source = product.source(&capabilities(32)).unwrap();
                all.push((format!("{product:?}"), source));
            }
            if layout.dtype != DType::F32 && pick != Pick::Ids {
                let (splits, slab_rows) = (1, 0);
                let product = CoresMatmul {
                    layout,
                    k,
                    rows,
                    offset,
                    stride,
                    bias,
                    activation: None,
                    add,
                    count_at,
                    splits,
                    slab_rows,
                    experts,
                    fused_with: [None; 2],
                    own_y: false,
                    straight: false,
                };
                all.push((format!("{product:?}"), product.source(&DECODE).unwrap()));
            }
        }
    }
    all
}
