//! Attention of prompt rows on matrix cores: the choice of the work split, and the kernel's source.

use std::f32::consts::LOG2_E;

use minijinja::context;
use pelton_graph::{Error, KvElement, PAGE};

use super::{
    Attention,
    work_split::{CORE, WorkSplit},
};
use crate::{
    device::{Capabilities, KernelSource},
    kernels::template,
};

/// Maximum elements of a key or a value: with more, the sums do not fit in registers.
const MOST: usize = 256;

/// Maximum elements of a key or a value with 32 queries a subgroup.
const MOST_OF_TWO_BLOCKS: usize = 80;

/// Maximum elements of a key or a value with prefetch: with more, registers do not suffice.
const MOST_OF_PREFETCH: usize = 128;

/// Workgroups that keep most of a large GPU busy: with fewer of 32 queries a
/// subgroup, 16 are faster.
const GROUPS: usize = 96;

impl Attention {
    /// The work split on matrix cores for passes of up to `rows` rows. `None` if there are none, or
    /// if the kernel does not support these heads or the type of the caches.
    pub(crate) fn cores(&self, capabilities: &Capabilities, rows: usize) -> Option<WorkSplit> {
        let dim = self.key_dim.max(self.value_dim);
        let groups = |cores: &WorkSplit| {
            let tiles = rows.div_ceil(self.tile_rows(Some(*cores)));
            tiles * self.prompt_groups(Some(*cores)) as usize
        };
        let fits = |cores: &WorkSplit| {
            (cores.queries == CORE || (groups(cores) >= GROUPS && dim <= MOST_OF_TWO_BLOCKS))
                && (!cores.prefetch || dim <= MOST_OF_PREFETCH)
                && cores.bytes(self.key_dim, self.value_dim)
                    <= capabilities.workgroup_bytes as usize
                && cores.threads() <= capabilities.workgroup_threads as usize
        };
        let supported = capabilities.cores_of_16_by_32_lanes()
            && [self.caches.kv.keys, self.caches.kv.values].iter().all(|&kv| kv != KvElement::F32)
            && self.unit() == 4
            && dim <= MOST;
        WorkSplit::ALL.into_iter().find(|cores| supported && fits(cores))
    }

    /// The WGSL of the kernel for prompt rows on matrix cores. Its bindings are those of the kernel
    /// without.
    pub(crate) fn cores_source(&self, cores: &WorkSplit) -> Result<KernelSource, Error> {
        let &WorkSplit { queries, subgroups, staged, step, prefetch } = cores;
        debug_assert!(PAGE.is_multiple_of(staged) && staged.is_multiple_of(step));
        template::render(
            "attend_cores.wgsl",
            context! {
                queries, subgroups, staged, step, prefetch,
                grouped => self.grouped(),
                direct => true,
                threads => cores.threads(),
                key_cores => self.key_dim.div_ceil(CORE),
                value_cores => self.value_dim.div_ceil(CORE),
                // queries are scaled before they are rounded, and a bound of scores comes after
                query_scale => template::float(self.scale * LOG2_E),
                before_cap => template::float(self.softcap.map_or(1.0, |cap| 1.0 / (cap * LOG2_E))),
                ..self.parameters(self.heads_of_tile(cores.subgroups * cores.queries))
            },
        )
    }
}

/// The capabilities of a GPU with matrix cores.
#[cfg(test)]
fn capabilities() -> Capabilities {
    Capabilities {
        matrix_cores: true,
        workgroup_bytes: 48 << 10,
        ..crate::testing::capabilities(32)
    }
}

/// Kernels for the test of translations.
#[cfg(test)]
pub(super) fn sources(attention: &Attention) -> Vec<(String, KernelSource)> {
    let capabilities = capabilities();
    let chosen = attention.cores(&capabilities, 2048);
    let source = |cores| (format!("{cores:?}"), attention.cores_source(&cores).unwrap());
    chosen.map(source).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use pelton_graph::KvType;

    use super::*;
    use crate::kernels::rope_store::Caches;

    #[test]
    fn work_splits_fit() {
        let split = |head_dim, kv| {
            let caches = Caches { kv_heads: 2, kv, table: 8 };
            Attention::causal(8, head_dim, caches).cores(&capabilities(), 16_384)
        };
        let halves = |head_dim| split(head_dim, KvType::F16);
        assert_eq!(halves(64), Some(WorkSplit::of(32, 8, 64)));
        assert_eq!(halves(80), Some(WorkSplit::of(32, 8, 32)));
        assert_eq!(halves(128), Some(WorkSplit::of(16, 8, 32)));
        for head_dim in (4..=256).step_by(4) {
            assert!(halves(head_dim).is_some_and(|c| c.bytes(head_dim, head_dim) <= 48 << 10));
        }
        // few rows are few tiles
        let caches = Caches { kv_heads: 8, kv: KvType::F16, table: 8 };
        let few = |rows| Attention::causal(32, 64, caches).cores(&capabilities(), rows);
        assert_eq!(few(512), Some(WorkSplit::of(16, 8, 64)));
        assert_eq!(few(2048), Some(WorkSplit::of(32, 8, 64)));
        // caches in f32 are not rounded
        assert_eq!((halves(260), halves(66), split(64, KvType::F32)), (None, None, None));
    }

    #[test]
    fn tiles_have_whole_groups_or_parts() {
        let rows = |heads, kv_heads| {
            let caches = Caches { kv_heads, kv: KvType::F16, table: 8 };
            let attention = Attention::causal(heads, 64, caches);
            let cores = attention.cores(&capabilities(), 16_384);
            (attention.tile_rows(cores), attention.prompt_groups(cores))
        };
        assert_eq!(rows(32, 8), (64, 8));
        assert_eq!(rows(28, 4), (36, 4));
        assert_eq!(rows(512, 1), (1, 2));
    }
}
