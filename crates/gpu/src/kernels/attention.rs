//! Attention over the KV caches: the variants of its kernels for each shape.
//!
//! In decoding (`attend_decode.wgsl`) a workgroup computes one query head while a row's positions
//! are one KV split, and all heads that share a KV head where there are several splits. Beyond 192
//! positions the pages are split over as many workgroups as keep a large GPU busy
//! (`kv_splits.wgsl`), and `merge.wgsl` merges the splits in order (flash-decoding).
//!
//! For rows of different slots `rope_attend` is one kernel: head norms, rotation, the store and
//! attention. Workgroups whose split ends with the row's own position read that key and value from
//! their own memory, and one of them stores it. So the dispatch reads nothing from the cache that
//! it writes. Several rows of one slot, and groups of heads too large for workgroup memory, run
//! `rope_store` and `attend` one after the other.
//!
//! Prompts run in `attend_prompt.wgsl`, 64 queries a workgroup. On matrix cores they run in
//! `attend_cores.wgsl`, 64 to 256 queries a workgroup, over caches other than f32 of heads of up to
//! 256 elements in fours. Queries and the weights of values are rounded to f16 there. A row's
//! exponents have a reference that rises only when its own weights come near the end of f16, so
//! that a row's bits depend neither on its tile nor on its chunk. Angles are counted in whole
//! numbers modulo a rotation, so that a far position costs no accuracy.

use std::f32::consts::LOG2_E;

use minijinja::{Value, context};
use pelton_graph::{
    Attention as AttentionOp, Cache, Error, KvElement, KvType, Mask, PAGE, Row, Values, pages_for,
};

pub use work_split::WorkSplit;

use crate::{
    device::{Capabilities, KernelSource},
    kernels::{
        rope_store::{Caches, HeadPrep, unit},
        template,
    },
};

/// The properties of a layer's attention that its kernels depend on.
///
/// Decoding rows run in the kernel of [`decode_source`](Self::decode_source), and if their
/// positions are split, then in that of [`merge_source`](Self::merge_source). Prompt rows run in
/// that of [`prompt_source`](Self::prompt_source), or on matrix cores in that of
/// [`cores_source`](Self::cores_source).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Attention {
    /// Query heads; a multiple of the KV heads, within the limits of [`fits`](Self::fits).
    pub(crate) heads: usize,
    /// Elements of a query and a key; even unless the caches are in f32.
    pub(crate) key_dim: usize,
    /// Elements of a value; even unless the caches are in f32.
    pub(crate) value_dim: usize,
    /// Whether the values are a prefix of the keys.
    pub(crate) prefix: bool,
    /// The factor of each dot product of query and key.
    pub(crate) scale: f32,
    /// The positions that a query sees.
    pub(crate) mask: Mask,
    /// The bound of scores.
    pub(crate) softcap: Option<f32>,
    /// Whether each query head has a score without a value.
    pub(crate) sinks: bool,
    /// The exponent of ALiBi.
    pub(crate) alibi: Option<f32>,
    /// The layer's caches.
    pub(crate) caches: Caches,
}

/// Threads of a workgroup.
const THREADS: usize = 256;

/// Queries of a tile of prompt rows.
const QUERIES: usize = 64;

/// Units of keys and queries, or of values, in workgroup memory of a tile.
const TILE: usize = 640;

/// Maximum bytes of workgroup memory: with more, fewer workgroups are resident on a core of the
/// GPU.
const SHARED: usize = 32 << 10;

/// Pages up to which a row has one KV split: a merge takes as long as three pages.
const ONE_SPLIT: usize = 3;

/// A variant of the kernel for decoding rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeVariant {
    /// Threads of a workgroup, [`THREADS`] at least.
    pub(crate) threads: usize,
    /// Whether a fused kernel loads keys before it waits for the phase before, as a phase of
    /// a persistent kernel.
    pub(crate) early: bool,
    /// The partial sums that are its queries, keys and values, of one row.
    pub(crate) slices: Option<SlicedHeads>,
}

impl Default for DecodeVariant {
    fn default() -> Self {
        Self { threads: THREADS, early: false, slices: None }
    }
}

/// Partial sums `[splits, len]` of the queries, keys and values of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlicedHeads {
    pub(crate) splits: usize,
    pub(crate) len: usize,
    /// The first elements of queries, keys and values, and whether each has a bias.
    pub(crate) sides: [(usize, bool); 3],
}

impl SlicedHeads {
    fn parameters(&self) -> Value {
        let side = |(name, (first, has_bias)): (&str, (usize, bool))| {
            let bias = if has_bias { format!("{name}_bias") } else { String::new() };
            context! { name, first, bias }
        };
        let sides: Vec<Value> = ["q", "k", "v"].into_iter().zip(self.sides).map(side).collect();
        context! { splits => self.splits, len => self.len, sides }
    }
}

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
        let &AttentionOp { cache: _, heads, scale, mask, softcap, sinks, alibi } = op;
        let &Cache { heads: kv_heads, key_dim, values, group: _ } = cache;
        let (value_dim, prefix) = match values {
            Values::Own { dim } => (dim, false),
            Values::KeyPrefix { dim } => (dim, true),
        };
        let (sinks, caches) = (sinks.is_some(), Caches { kv_heads, kv, table });
        Self { heads, key_dim, value_dim, prefix, scale, mask, softcap, sinks, alibi, caches }
    }

    /// Query heads of a KV head.
    fn group(&self) -> usize {
        self.heads / self.caches.kv_heads
    }

    /// The greatest number of query heads of a KV head for which `fits` is true, of those that
    /// divide the group evenly; 1 if there is none.
    fn most_heads(&self, fits: impl Fn(usize) -> bool) -> usize {
        let group = self.group();
        (1..=group).rev().find(|&n| group.is_multiple_of(n) && fits(n)).unwrap_or(1)
    }

    /// Query heads of a workgroup of the kernel for decoding rows. Several KV splits make those all
    /// query heads of a KV head, so that keys and values are read once, or as many as fit in
    /// workgroup memory. One split makes it one head: little is read, and more workgroups finish
    /// sooner.
    fn heads_at_once(&self, splits: usize) -> usize {
        let strands = self.strands() * self.value_dim * 4;
        match splits {
            1 => 1,
            _ => self.most_heads(|n| self.shared(n, false) + strands <= SHARED),
        }
    }

    /// Query heads of a tile of `queries` queries, in a workgroup of a kernel for prompt rows.
    fn heads_of_tile(&self, queries: usize) -> usize {
        self.most_heads(|n| n <= queries)
    }

    /// Elements of a unit.
    fn unit(&self) -> usize {
        unit(self.key_dim).min(unit(self.value_dim))
    }

    /// Units of a query or a key, and of a value.
    fn units(&self) -> usize {
        self.key_dim / self.unit()
    }

    fn value_units(&self) -> usize {
        self.value_dim / self.unit()
    }

    /// Ranges of a page's positions, each with a partial sum of values of its own.
    fn strands(&self) -> usize {
        // values are summed four positions at a time
        1 << (THREADS / self.value_units().max(1)).clamp(1, PAGE / 4).ilog2()
    }

    /// The parameters of all kernels, with `group` query heads of a workgroup.
    fn parameters(&self, group: usize) -> Value {
        let (symmetric, chunk, encoded) = match self.mask {
            Mask::Causal { .. } | Mask::CausalOrGroup { .. } | Mask::Group => (false, 0, 0),
            Mask::Chunked { chunk } => (false, chunk, 0),
            Mask::Symmetric { .. } => (true, 0, 0),
            Mask::Window { positions } => (true, 0, positions),
        };
        let window = match self.mask {
            Mask::Causal { window }
            | Mask::CausalOrGroup { window }
            | Mask::Symmetric { window } => window,
            Mask::Group | Mask::Chunked { .. } | Mask::Window { .. } => None,
        };
        // a bound of scores is applied to products before they are scaled by log2(e)
        let (scale, softcap) = match self.softcap {
            Some(cap) => (self.scale / cap, template::float(cap * LOG2_E)),
            None => (self.scale * LOG2_E, String::new()),
        };
        let power = 1usize << self.heads.max(1).ilog2();
        let alibi = self.alibi.map(|bias| {
            let step = template::float((-f64::from(bias) / power as f64) as f32);
            context! { power, step }
        });
        context! {
            heads => self.heads,
            group,
            groups_per_kv_head => self.group() / group,
            window,
            chunk, symmetric, encoded, softcap, alibi,
            // rows of a group of one, as decoding rows are, see nothing after them
            grouped => "",
            sinks => self.sinks,
            scale => template::float(scale),
            log2_e => template::float(LOG2_E),
            one_split => ONE_SPLIT,
            most_splits => self.most_splits(),
            threads => THREADS,
            reads => true,
            ..self.caches.parameters(self.key_dim, self.value_dim, self.prefix)
        }
    }

    /// The positions of their group that queries of a prompt see: none more, later ones, or those
    /// alone.
    fn grouped(&self) -> &'static str {
        match self.mask {
            Mask::CausalOrGroup { .. } => "later",
            Mask::Group => "alone",
            Mask::Causal { .. }
            | Mask::Chunked { .. }
            | Mask::Symmetric { .. }
            | Mask::Window { .. } => "",
        }
    }

    /// Whether its kernels for prompts read the places of rows.
    pub(crate) fn reads_places(&self) -> bool {
        !self.grouped().is_empty()
    }

    /// Whether rows see later ones, so that none is decoded.
    pub(crate) fn never_decodes(&self) -> bool {
        matches!(self.mask, Mask::Symmetric { .. } | Mask::Group)
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
        if self.never_decodes() {
            return 1;
        }
        let seen = match self.mask {
            // whatever the row's position is
            Mask::Window { positions } => positions,
            // a window can begin inside a page
            _ => self.mask.window().map_or(bound, |window| bound.min(window + PAGE - 1)),
        };
        match pages_for(seen) {
            0..=ONE_SPLIT => 1,
            pages => pages.min(self.most_splits()),
        }
    }

    /// Elements of the buffer of KV splits `[splits, rows, heads, value units + 1, 4]`.
    pub(crate) fn splits_len(&self, rows: usize, splits: usize) -> usize {
        // four elements for each unit of any length, and four for the maximum and the sum
        let splits = if splits == 1 { 0 } else { splits };
        // a binding has one element at least
        4 + rows * splits * self.heads * (self.value_units() + 1) * 4
    }

    /// Whether the memory and the threads of a workgroup suffice for these heads.
    pub(crate) fn fits(&self, capabilities: &Capabilities) -> bool {
        let bytes = SHARED.min(capabilities.workgroup_bytes as usize);
        self.caches.kv_heads > 0
            && self.heads > 0
            && self.heads.is_multiple_of(self.caches.kv_heads)
            && self.key_dim > 0
            && self.value_dim > 0
            && (!self.prefix || self.value_dim <= self.key_dim)
            && self.units() <= THREADS
            // four rows of values in the tile of the kernel for prompts
            && self.value_units() <= TILE / 4
            && self.shared(1, false) + self.strands() * self.value_dim * 4 <= bytes
    }

    /// Bytes of workgroup memory of the kernel for decoding rows with `queries` query heads a
    /// workgroup, without that of [`PageSplit::room`].
    fn shared(&self, queries: usize, fused: bool) -> usize {
        // queries, their scores and weights, the state of their softmax
        let each = 4 * self.key_dim + 8 * PAGE + 12;
        // the row's own key and value, the angles and the factors of norms
        let stored = |kv, dim| match kv {
            KvElement::F32 => 4 * dim,
            // codes of four elements come with their scale
            _ => 2 * dim,
        };
        let KvType { keys, values } = self.caches.kv;
        let own = stored(keys, self.key_dim) + stored(values, self.value_dim) + 4 * self.key_dim;
        queries * each + if fused { own + 4 * (queries + 1) } else { 0 }
    }

    /// Whether the kernel of [`decode_source`](Self::decode_source) can be fused. The heads of a
    /// large group may not fit in workgroup memory, keys and values have one length, and no query
    /// sees later keys.
    pub(crate) fn fuses(&self) -> bool {
        let most = self.heads_at_once(2);
        self.key_dim == self.value_dim
            && self.key_dim.is_multiple_of(2)
            && !self.prefix
            && !self.never_decodes()
            && !matches!(self.mask, Mask::Window { .. })
            && self.shared(most, true) + (most + 1) * self.key_dim * 4 <= SHARED
    }

    fn page_split(
        &self,
        capabilities: &Capabilities,
        queries: usize,
        fused: bool,
        threads: usize,
    ) -> PageSplit {
        let (units, value_units) = (self.units(), self.value_units());
        // a power of two that divides the units and that a shuffle can reduce
        let most = (capabilities.subgroup as usize).clamp(1, 16);
        let lanes = 1 << (units.trailing_zeros().min(most.ilog2()));
        let strands = self.strands();
        let left = SHARED - self.shared(queries, fused).min(SHARED);
        let at_once = (left / (strands * self.value_dim * 4)).clamp(1, queries.min(4));
        let staged = if fused { queries + 1 } else { 0 };
        PageSplit {
            lanes,
            keys: (PAGE * lanes / threads).max(1),
            strands,
            at_once,
            room: (at_once * strands * value_units).max(staged * units),
        }
    }

    /// Workgroups of the kernel for decoding rows.
    pub(crate) fn decode_groups(&self, rows: usize, splits: usize) -> [u32; 3] {
        [(self.heads / self.heads_at_once(splits)) as u32, splits as u32, rows as u32]
    }

    /// Whether a fused kernel can add the partial sums of its queries, keys and values: units are
    /// vectors of four, and are loaded once.
    pub(crate) fn adds_slices(&self) -> bool {
        let KvType { keys, values } = self.caches.kv;
        self.fuses() && self.unit() == 4 && keys.block().is_none() && values.block().is_none()
    }

    /// The kernel for decoding rows in `splits` KV splits: one kernel for one split, another for
    /// several. It writes a if a row has one split, else its splits.
    ///
    /// Fused, which [`fuses`](Self::fuses) allows, it also does the work of a
    /// [`RopeStore`](crate::kernels::rope_store::RopeStore): it prepares queries and
    /// keys and stores keys and values. The rows must be of different slots then, and q
    /// and k are not changed.
    pub(crate) fn decode_source(
        &self,
        capabilities: &Capabilities,
        splits: usize,
        fused: Option<&HeadPrep>,
    ) -> Result<KernelSource, Error> {
        self.decode_variant(capabilities, splits, fused, &DecodeVariant::default())
    }

    /// The WGSL of a variant of the same kernel. Its sums have the same order: the strands of
    /// values are those of [`THREADS`] threads.
    pub(crate) fn decode_variant(
        &self,
        capabilities: &Capabilities,
        splits: usize,
        fused: Option<&HeadPrep>,
        variant: &DecodeVariant,
    ) -> Result<KernelSource, Error> {
        let &DecodeVariant { threads, early, slices } = variant;
        let queries = self.heads_at_once(splits);
        let PageSplit { lanes, keys, strands, at_once, room } =
            self.page_split(capabilities, queries, fused.is_some(), threads);
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
                threads,
                early,
                slices => slices.map(|slices| slices.parameters()),
                fused => fused.is_some(),
                staged => queries + 1,
                depth => PAGE / strands,
                lanes, keys, strands, at_once, room, joins, holders, left,
                ..context! {
                    ..fused.copied().unwrap_or_default().parameters(),
                    ..self.parameters(queries)
                }
            },
        )
    }

    /// Workgroups of the kernel that merges KV splits.
    pub(crate) fn merge_groups(&self, rows: usize) -> [u32; 3] {
        [self.heads as u32, rows as u32, 1]
    }

    /// The WGSL of the kernel that merges KV splits.
    pub(crate) fn merge_source(&self) -> Result<KernelSource, Error> {
        self.merge_phase(THREADS)
    }

    /// The WGSL of the same kernel in workgroups of `threads` threads, [`THREADS`] at least.
    pub(crate) fn merge_phase(&self, threads: usize) -> Result<KernelSource, Error> {
        /// Splits that a thread loads before it uses them.
        const AT_ONCE: usize = 4;
        let strands = THREADS / self.value_units();
        let own = context! { threads, strands, at_once => AT_ONCE };
        template::render("merge.wgsl", context! { ..own, ..self.parameters(1) })
    }

    /// Queries of a tile of prompt rows, with a work split on matrix cores or without them.
    fn queries(cores: Option<WorkSplit>) -> usize {
        cores.map_or(QUERIES, |cores| cores.queries * cores.subgroups)
    }

    /// The most rows of a tile of prompt rows.
    pub(crate) fn tile_rows(&self, cores: Option<WorkSplit>) -> usize {
        let queries = Self::queries(cores);
        (queries / self.heads_of_tile(queries)).max(1)
    }

    /// Workgroups of a kernel for prompt rows for each tile.
    pub(crate) fn prompt_groups(&self, cores: Option<WorkSplit>) -> u32 {
        (self.heads / self.heads_of_tile(Self::queries(cores))) as u32
    }

    /// The WGSL of the kernel for prompt rows without matrix cores.
    pub(crate) fn prompt_source(&self) -> Result<KernelSource, Error> {
        let (units, value_units) = (self.units(), self.value_units());
        // a thread loads one unit of a slice of keys, and one of queries
        let slice = (1..=THREADS / PAGE).rev().find(|n| units.is_multiple_of(*n)).unwrap_or(1);
        template::render(
            "attend_prompt.wgsl",
            context! {
                queries => QUERIES,
                grouped => self.grouped(),
                slice,
                tile => TILE,
                columns => value_units.div_ceil(16),
                rows_of_values => 1 << (TILE / value_units).min(PAGE).ilog2(),
                ..self.parameters(self.heads_of_tile(QUERIES))
            },
        )
    }
}

/// The tiles `[tiles, 2]` of the kernels for prompt rows: first row and number of rows, at most
/// `most`, which are consecutive positions of one slot. The last rows come first, because they see
/// the most positions: the workgroups that start last should be short.
pub(crate) fn tiles(rows: &[Row], most: usize) -> Vec<[u32; 2]> {
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

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    use crate::{kernels::rope_store::preparations, testing::capabilities};
    const F16: KvType = KvType::F16;
    const F32: KvType = KvType::F32;
    const Q8_0: KvType = KvType::Q8_0;
    let mut all = Vec::new();
    let windowed = |window| Mask::Causal { window };
    let plain = |(head_dim, heads, kv_heads, kv, window)| Attention {
        mask: windowed(window),
        ..Attention::causal(heads, head_dim, Caches { kv_heads, kv, table: 8 })
    };
    let mut shapes: Vec<Attention> = [
        (6, 4, 2, F16, None),
        (24, 3, 1, F32, Some(20)),
        (64, 8, 1, F16, Some(64)),
        (80, 2, 2, F16, None),
        (128, 8, 2, F16, None),
        (128, 2, 1, F32, None),
        (256, 16, 1, F16, Some(100)),
        (64, 8, 1, Q8_0, Some(64)),
        (96, 2, 2, Q8_0, None),
    ]
    .map(plain)
    .into();
    shapes.extend(KvElement::ALL.map(|kv| plain((96, 2, 2, KvType::both(kv), None))));
    let mixed = KvType { keys: KvElement::Q5_1, values: KvElement::F16 };
    shapes.push(plain((64, 8, 2, mixed, None)));
    shapes.push(plain((10, 4, 2, KvType::both(KvElement::Bf16), None)));
    let small = plain((24, 6, 2, F16, None));
    shapes.extend([
        Attention { mask: Mask::Chunked { chunk: 48 }, softcap: Some(50.0), ..small },
        Attention { mask: Mask::Symmetric { window: None }, alibi: Some(8.0), ..small },
        Attention { mask: Mask::Symmetric { window: Some(70) }, sinks: true, ..small },
        Attention { mask: windowed(Some(9)), softcap: Some(9.0), sinks: true, ..small },
        Attention { alibi: Some(8.0), softcap: Some(9.0), sinks: true, value_dim: 10, ..small },
        Attention { key_dim: 36, value_dim: 20, prefix: true, heads: 128, ..small },
        Attention { key_dim: 576, value_dim: 512, prefix: true, ..plain((64, 128, 1, F16, None)) },
        Attention { key_dim: 576, value_dim: 512, prefix: true, ..plain((64, 128, 1, Q8_0, None)) },
        Attention { mask: Mask::CausalOrGroup { window: None }, sinks: true, ..small },
        Attention { mask: Mask::CausalOrGroup { window: Some(20) }, softcap: Some(9.0), ..small },
        Attention { mask: Mask::Group, ..plain((72, 2, 2, F16, None)) },
        Attention { key_dim: 192, ..plain((128, 16, 16, F16, None)) },
        Attention { key_dim: 33, sinks: true, ..plain((7, 6, 2, F32, None)) },
    ]);
    for attention in shapes {
        let mut add = |what, source: Result<KernelSource, Error>| {
            all.push((format!("{what} {attention:?}"), source.unwrap()));
        };
        add("prompt".to_owned(), attention.prompt_source());
        for (what, source) in cores::sources(&attention) {
            add(format!("prompt by {what}"), Ok(source));
        }
        add("merge".to_owned(), attention.merge_source());
        for subgroup in [4, 8, 32, 64] {
            let capabilities = capabilities(subgroup);
            for splits in [1, 2] {
                let decode = |fused: Option<&HeadPrep>| {
                    attention.decode_source(&capabilities, splits, fused)
                };
                add(format!("decode by {subgroup}, {splits} splits"), decode(None));
                for prepare in preparations(attention.key_dim) {
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

mod cores;
#[cfg(test)]
mod dims;
#[cfg(test)]
mod tests;
mod work_split;
#[cfg(test)]
mod written_out;
