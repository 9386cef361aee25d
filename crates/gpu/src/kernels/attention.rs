//! Attention over the KV caches: the variants of its kernels for each shape.

use std::f32::consts::LOG2_E;

use minijinja::{Value, context};
use pelton_graph::{Attention as AttentionOp, Cache, Error, KvType, PAGE, Row, pages_for};

use crate::{
    device::{Access, Capabilities},
    kernels::{
        rope_store::{Caches, HeadPrep, unit},
        template,
    },
};

/// The properties of a layer's attention that its kernels depend on.
///
/// Decoding rows run in the kernel of [`decode_source`](Self::decode_source), and if their
/// positions are split, then in that of [`merge_source`](Self::merge_source). Prompt rows run in
/// that of [`prompt_source`](Self::prompt_source).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Attention {
    /// Query heads; a multiple of the KV heads, within the limits of [`fits`](Self::fits).
    pub(crate) heads: usize,
    /// Elements of a head; even.
    pub(crate) head_dim: usize,
    /// The factor of each dot product of query and key.
    pub(crate) scale: f32,
    /// Number of positions that a query sees, its own included; `None` for all.
    pub(crate) window: Option<usize>,
    /// The layer's caches.
    pub(crate) caches: Caches,
}

/// Threads of a workgroup.
const THREADS: usize = 256;

/// Queries of a tile of prompt rows.
const QUERIES: usize = 64;

/// Maximum bytes of workgroup memory: with more, fewer workgroups are resident on a core of the
/// GPU.
const SHARED: usize = 32 << 10;

/// Pages up to which a row has one KV split: a merge takes as long as three pages.
const ONE_SPLIT: usize = 3;

/// The work split of a page in the kernel for decoding rows.
struct PageSplit {
    /// Threads that compute one dot product of a query with a key.
    lanes: usize,
    /// Keys of a page that a thread reads.
    keys: usize,
    /// Strands: ranges of a page's positions, each with a partial sum of values of its own.
    strands: usize,
    /// Queries whose partial sums are in workgroup memory at once.
    at_once: usize,
    /// Units of the workgroup memory for heads before the pages and partial sums after them.
    room: usize,
}

impl Attention {
    /// Attention over a layer's cache, with page tables of `table` entries.
    pub(crate) fn of(op: &AttentionOp, cache: &Cache, kv: KvType, table: usize) -> Self {
        let &AttentionOp { cache: _, heads, scale, mask, softcap: _, sinks: _, alibi: _ } = op;
        let &Cache { heads: kv_heads, key_dim: head_dim, values: _, group: _ } = cache;
        let window = mask.window();
        Self { heads, head_dim, scale, window, caches: Caches { kv_heads, kv, table } }
    }

    /// Query heads of a KV head.
    fn group(&self) -> usize {
        self.heads / self.caches.kv_heads
    }

    /// Query heads of a workgroup of the kernel for decoding rows. With several KV splits those are
    /// all query heads of a KV head, so that keys and values are read once. With one split it is one
    /// head: little is read, and more workgroups finish sooner.
    fn heads_at_once(&self, splits: usize) -> usize {
        if splits == 1 { 1 } else { self.group() }
    }

    /// Units of a head.
    fn units(&self) -> usize {
        self.head_dim / unit(self.head_dim)
    }

    fn parameters(&self) -> Value {
        context! {
            heads => self.heads,
            group => self.group(),
            window => self.window.unwrap_or(0),
            scale => template::float(self.scale * LOG2_E),
            one_split => ONE_SPLIT,
            most_splits => self.most_splits(),
            threads => THREADS,
            ..self.caches.parameters(self.head_dim)
        }
    }

    /// Maximum KV splits of a row (flash-decoding).
    fn most_splits(&self) -> usize {
        /// Workgroups that keep the memory of a large GPU busy.
        const GROUPS: usize = 264;
        /// Splits that are merged in one iteration, with heads of 128.
        const MOST: usize = 32;
        (GROUPS / self.caches.kv_heads).clamp(1, MOST)
    }

    /// Maximum KV splits of a row at a position below `bound`.
    ///
    /// The splits of a row are a function of its position and the shape (`kv_splits.wgsl`), so its
    /// result does not depend on the other rows of its pass.
    pub(crate) fn splits(&self, bound: usize) -> usize {
        // a window can begin inside a page
        let seen = self.window.map_or(bound, |window| bound.min(window + PAGE - 1));
        match pages_for(seen) {
            0..=ONE_SPLIT => 1,
            pages => pages.min(self.most_splits()),
        }
    }

    /// Elements of the buffer of KV splits `[splits, rows, heads, units + 1, 4]`.
    pub(crate) fn splits_len(&self, rows: usize, splits: usize) -> usize {
        // four elements for each unit of any length, and four for the maximum and the sum
        let splits = if splits == 1 { 0 } else { splits };
        // a binding has one element at least
        4 + rows * splits * self.heads * (self.units() + 1) * 4
    }

    /// Whether the memory and the threads of a workgroup suffice for these heads.
    pub(crate) fn fits(&self, capabilities: &Capabilities) -> bool {
        let bytes = capabilities.workgroup_bytes as usize;
        let units = self.units();
        let strands = 1 << (THREADS / units.max(1)).clamp(1, PAGE / 4).ilog2();
        self.heads.is_multiple_of(self.caches.kv_heads)
            && (1..=QUERIES).contains(&self.group())
            && self.head_dim.is_multiple_of(2)
            && self.head_dim <= 512
            && units <= THREADS
            && self.shared(self.group(), false) + strands * self.head_dim * 4 <= bytes
    }

    /// Bytes of workgroup memory of the kernel for decoding rows with `queries` query heads a
    /// workgroup, without that of [`PageSplit::room`].
    fn shared(&self, queries: usize, fused: bool) -> usize {
        // queries, their scores and weights, the state of their softmax
        let each = 4 * self.head_dim + 8 * PAGE + 12;
        // the row's own key and value, the angles and the factors of norms
        let own = 2 * self.caches.kv.bytes(self.head_dim) + 4 * self.head_dim;
        queries * each + if fused { own + 4 * (queries + 1) } else { 0 }
    }

    /// Whether the kernel of [`decode_source`](Self::decode_source) can be fused: the heads of a
    /// large group may not fit in workgroup memory.
    pub(crate) fn fuses(&self) -> bool {
        let most = self.group();
        self.shared(most, true) + (most + 1) * self.head_dim * 4 <= SHARED
    }

    fn page_split(&self, capabilities: &Capabilities, queries: usize, fused: bool) -> PageSplit {
        let units = self.units();
        // a power of two that divides the units and that a shuffle can reduce
        let most = (capabilities.subgroup as usize).clamp(1, 16);
        let lanes = 1 << (units.trailing_zeros().min(most.ilog2()));
        // values are summed four positions at a time
        let strands = 1 << (THREADS / units).clamp(1, PAGE / 4).ilog2();
        let fit =
            (SHARED - self.shared(queries, fused).min(SHARED)) / (strands * self.head_dim * 4);
        let at_once = fit.clamp(1, queries.min(4));
        let staged = if fused { queries + 1 } else { 0 };
        PageSplit {
            lanes,
            keys: (PAGE * lanes / THREADS).max(1),
            strands,
            at_once,
            room: (at_once * strands).max(staged) * units,
        }
    }

    /// Workgroups of the kernel for decoding rows.
    pub(crate) fn decode_groups(&self, rows: usize, splits: usize) -> [u32; 3] {
        [(self.heads / self.heads_at_once(splits)) as u32, splits as u32, rows as u32]
    }

    /// The bindings of the kernel for decoding rows: rows, page tables, q, keys, values, a and the
    /// buffer of KV splits; fused also k, v and those of [`HeadPrep::bindings`].
    ///
    /// The kernel writes a if a row has one split, else its splits. Fused, which
    /// [`fuses`](Self::fuses) allows, it also does the work of a
    /// [`RopeStore`](crate::kernels::rope_store::RopeStore): it prepares queries and keys and stores
    /// keys and values. The rows must be of different slots then, and q and k are not changed.
    pub(crate) fn decode_bindings(fused: Option<&HeadPrep>) -> Vec<Access> {
        use Access::{Read, ReadWrite};
        let cache = if fused.is_some() { ReadWrite } else { Read };
        let mut bindings = vec![Read, Read, Read, cache, cache, ReadWrite, ReadWrite];
        if let Some(prepare) = fused {
            bindings.extend([Read, Read]);
            bindings.extend(prepare.bindings());
        }
        bindings
    }

    /// The WGSL of the kernel for decoding rows in `splits` KV splits: one kernel for one split,
    /// another for several.
    pub(crate) fn decode_source(
        &self,
        capabilities: &Capabilities,
        splits: usize,
        fused: Option<&HeadPrep>,
    ) -> Result<String, Error> {
        let queries = self.heads_at_once(splits);
        let PageSplit { lanes, keys, strands, at_once, room } =
            self.page_split(capabilities, queries, fused.is_some());
        // each step of the reduction halves the products of a lane as long as their number is even
        let mut left = queries * keys;
        let mut holders = 1;
        let mut joins = Vec::new();
        for mask in (0..lanes.ilog2()).map(|i| 1 << i) {
            let pairs = left.is_multiple_of(2);
            if pairs {
                left /= 2;
                holders *= 2;
            }
            joins.push(context! { mask, pairs, left });
        }
        template::render(
            "attend_decode.wgsl",
            context! {
                fused => fused.is_some(),
                group => queries,
                groups_per_kv_head => self.group() / queries,
                staged => queries + 1,
                depth => PAGE / strands,
                lanes, keys, strands, at_once, room, joins, holders, left,
                ..context! {
                    ..fused.copied().unwrap_or_default().parameters(),
                    ..self.parameters()
                }
            },
        )
    }

    /// Workgroups of the kernel that merges KV splits.
    pub(crate) fn merge_groups(&self, rows: usize) -> [u32; 3] {
        [self.heads as u32, rows as u32, 1]
    }

    /// The bindings of the kernel that merges KV splits: rows, the buffer of splits, and a.
    pub(crate) fn merge_bindings() -> [Access; 3] {
        [Access::Read, Access::Read, Access::ReadWrite]
    }

    /// The WGSL of the kernel that merges KV splits.
    pub(crate) fn merge_source(&self) -> Result<String, Error> {
        /// Splits that a thread loads before it uses them.
        const AT_ONCE: usize = 4;
        template::render("merge.wgsl", context! { at_once => AT_ONCE, ..self.parameters() })
    }

    /// The tiles `[tiles, 2]` of the kernel for prompt rows: first row and number of rows, which are
    /// consecutive positions of one slot. The last rows come first, because they see the most
    /// positions: the workgroups that start last should be short.
    pub(crate) fn tiles(&self, rows: &[Row]) -> Vec<[u32; 2]> {
        let most = (QUERIES / self.group()).max(1);
        let mut tiles = Vec::new();
        let mut first = 0;
        for run in rows.chunk_by(|a, b| a.slot == b.slot && a.position + 1 == b.position) {
            for tile in run.chunks(most) {
                tiles.push([first, tile.len() as u32]);
                first += tile.len() as u32;
            }
        }
        tiles.reverse();
        tiles
    }

    /// Workgroups of the kernel for prompt rows.
    pub(crate) fn prompt_groups(&self, tiles: usize) -> [u32; 3] {
        [self.caches.kv_heads as u32, tiles as u32, 1]
    }

    /// The bindings of the kernel for prompt rows: rows, page tables, [`tiles`](Self::tiles), q,
    /// keys, values and a.
    pub(crate) fn prompt_bindings() -> [Access; 7] {
        use Access::{Read, ReadWrite};
        [Read, Read, Read, Read, Read, Read, ReadWrite]
    }

    /// The WGSL of the kernel for prompt rows.
    pub(crate) fn prompt_source(&self) -> Result<String, Error> {
        /// Maximum units of a slice in workgroup memory.
        const TILE: usize = 640;
        let units = self.units();
        // a thread loads one unit of a slice of keys, and one of queries
        let slice = (1..=THREADS / PAGE).rev().find(|n| units.is_multiple_of(*n)).unwrap_or(1);
        template::render(
            "attend_prompt.wgsl",
            context! {
                queries => QUERIES,
                slice,
                tile => TILE,
                columns => units.div_ceil(16),
                rows_of_values => 1 << (TILE / units).min(PAGE).ilog2(),
                ..self.parameters()
            },
        )
    }
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, String)> {
    use pelton_graph::KvType::{F16, F32};

    use crate::{kernels::rope_store::preparations, testing::capabilities};
    let mut all = Vec::new();
    for (head_dim, heads, kv_heads, kv, window) in [
        (6, 4, 2, F16, None),
        (24, 3, 1, F32, Some(20)),
        (64, 8, 1, F16, Some(64)),
        (80, 2, 2, F16, None),
        (128, 8, 2, F16, None),
        (128, 2, 1, F32, None),
        (256, 16, 1, F16, Some(100)),
    ] {
        let caches = Caches { kv_heads, kv, table: 8 };
        let attention = Attention { heads, head_dim, scale: 0.125, window, caches };
        let mut add = |what, source: Result<String, Error>| {
            all.push((format!("{what} {attention:?}"), source.unwrap()));
        };
        add("prompt".to_owned(), attention.prompt_source());
        add("merge".to_owned(), attention.merge_source());
        for subgroup in [4, 8, 32, 64] {
            let capabilities = capabilities(subgroup);
            for splits in [1, 2] {
                let decode = |fused: Option<&HeadPrep>| {
                    attention.decode_source(&capabilities, splits, fused)
                };
                add(format!("decode by {subgroup}, {splits} splits"), decode(None));
                for prepare in preparations(head_dim) {
                    if attention.fuses() {
                        let what = format!("decode by {subgroup}, {splits} splits, {prepare:?}");
                        add(what, decode(Some(&prepare)));
                    }
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
