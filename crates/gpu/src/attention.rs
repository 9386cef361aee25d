//! Attention over the caches of keys and values: which variant of its kernels serves a shape.

use std::f32::consts::LOG2_E;

use minijinja::{Value, context};
use pelton_graph::{Error, PAGE, Row, pages_for};

use crate::{
    device::{Abilities, Access},
    rope_store::{Caches, Prepare, unit},
    source,
};

/// Attention of a layer, as far as its kernels depend on it.
///
/// Few rows take [`few`](Self::few_source), and [`merge`](Self::merge_source) where a row's
/// positions are shared out in parts; many rows take [`many`](Self::many_source).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Attention {
    /// Query heads: 1 to 16 for each key head.
    pub(crate) heads: usize,
    /// Numbers in a head; even, at most 256.
    pub(crate) head_dim: usize,
    /// The factor on each product of query and key.
    pub(crate) scale: f32,
    /// How many positions a query sees, itself included.
    pub(crate) window: Option<usize>,
    /// Where keys and values are.
    pub(crate) caches: Caches,
}

/// Threads of a workgroup.
const THREADS: usize = 256;

/// Queries of a tile of many rows.
const QUERIES: usize = 64;

/// Bytes that a workgroup shares, at most: more leaves room for fewer workgroups.
const SHARED: usize = 32 << 10;

/// How the kernel for few rows shares out a page.
struct Shares {
    /// Threads that share the product of a query with a key.
    lanes: usize,
    /// Keys whose products a thread takes part in.
    turns: usize,
    /// Parts of a page's positions, each of which sums its values.
    strands: usize,
    /// Queries whose sums of strands are in workgroup memory at once.
    at_once: usize,
    /// Units of heads that are in workgroup memory at once, before and after the pages.
    room: usize,
}

impl Attention {
    /// Query heads that share a key head.
    fn group(&self) -> usize {
        self.heads / self.caches.kv_heads
    }

    /// Query heads that a workgroup of few rows takes. Where positions are shared out in parts, all
    /// that share a key head, because keys and values come from far. Where there is one part, just
    /// one: there are too few workgroups to read much, and each is done the sooner.
    fn take(&self, splits: usize) -> usize {
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
            scale => source::float(self.scale * LOG2_E),
            threads => THREADS,
            ..self.caches.parameters(self.head_dim)
        }
    }

    /// In how many parts the positions of each row are shared out, for `rows` rows at positions
    /// below `bound`.
    pub(crate) fn splits(&self, rows: usize, bound: usize) -> usize {
        /// Workgroups that keep the memory of a large device busy.
        const GROUPS: usize = 264;
        /// Parts that are joined in one turn, with heads of 128.
        const MOST: usize = 32;
        // a window can begin inside a page
        let seen = self.window.map_or(bound, |window| bound.min(window + PAGE - 1));
        match pages_for(seen) {
            // joining parts takes as long as three pages
            0..=3 => 1,
            pages => (GROUPS / (self.caches.kv_heads * rows)).clamp(1, pages.min(MOST)),
        }
    }

    /// Numbers in the buffer of parts, for `rows` rows in `splits` parts each.
    pub(crate) fn parts_len(&self, rows: usize, splits: usize) -> usize {
        // four for each unit, however long it is, and four for the maximum and the sum
        rows * splits * self.heads * (self.units() + 1) * 4
    }

    /// Bytes that a workgroup of the kernel for few rows shares, but for the room for heads, if it
    /// takes `take` heads.
    fn shared(&self, take: usize, fused: bool) -> usize {
        // queries, their scores and weights, the states of their softmax
        let each = 4 * self.head_dim + 8 * PAGE + 12;
        // the row's own key and value, the angles and the factors of norms
        let own = 2 * self.caches.kv.bytes(self.head_dim) + 4 * self.head_dim;
        take * each + if fused { own + 4 * (take + 1) } else { 0 }
    }

    /// Whether [`few`](Self::few_source) can be fused: the heads of a large group may not fit.
    pub(crate) fn fuses(&self) -> bool {
        let most = self.group();
        self.shared(most, true) + (most + 1) * self.head_dim * 4 <= SHARED
    }

    fn shares(&self, abilities: &Abilities, take: usize, fused: bool) -> Shares {
        let units = self.units();
        // a power of two that shares the units evenly, and that a shuffle can join
        let most = (abilities.subgroup as usize).clamp(1, 16);
        let lanes = 1 << (units.trailing_zeros().min(most.ilog2()));
        // values are summed four positions at a time
        let strands = 1 << (THREADS / units).clamp(1, PAGE / 4).ilog2();
        let fit = (SHARED - self.shared(take, fused).min(SHARED)) / (strands * self.head_dim * 4);
        let at_once = fit.clamp(1, take.min(4));
        let staged = if fused { take + 1 } else { 0 };
        Shares {
            lanes,
            turns: (PAGE * lanes / THREADS).max(1),
            strands,
            at_once,
            room: (at_once * strands).max(staged) * units,
        }
    }

    /// Workgroups of the kernel for few rows.
    pub(crate) fn few_groups(&self, rows: usize, splits: usize) -> [u32; 3] {
        [(self.heads / self.take(splits)) as u32, splits as u32, rows as u32]
    }

    /// The kernel for few rows. Fused, which [`fuses`](Self::fuses) allows, it prepares queries and
    /// keys and stores keys and values too, instead of a
    /// [`RopeStore`](crate::rope_store::RopeStore) before it: the rows are then of different
    /// sequences, and q and k stay as they are.
    ///
    /// The bindings: rows, page tables, q, keys, values, a and the buffer of parts; fused also k,
    /// v and those of [`Prepare::bindings`]. It writes a if there is one part, else the parts.
    pub(crate) fn few_bindings(fused: Option<&Prepare>) -> Vec<Access> {
        use Access::{Read, ReadWrite};
        let cache = if fused.is_some() { ReadWrite } else { Read };
        let mut bindings = vec![Read, Read, Read, cache, cache, ReadWrite, ReadWrite];
        if let Some(prepare) = fused {
            bindings.extend([Read, Read]);
            bindings.extend(prepare.bindings());
        }
        bindings
    }

    /// The WGSL of the kernel for few rows in `splits` parts; it differs between one and several.
    pub(crate) fn few_source(
        &self,
        abilities: &Abilities,
        splits: usize,
        fused: Option<&Prepare>,
    ) -> Result<String, Error> {
        let take = self.take(splits);
        let Shares { lanes, turns, strands, at_once, room } =
            self.shares(abilities, take, fused.is_some());
        // products are halved between lanes as long as they come in pairs
        let mut left = take * turns;
        let mut takers = 1;
        let mut joins = Vec::new();
        for mask in (0..lanes.ilog2()).map(|i| 1 << i) {
            let pairs = left.is_multiple_of(2);
            if pairs {
                left /= 2;
                takers *= 2;
            }
            joins.push(context! { mask, pairs, left });
        }
        source::render(
            "attend.wgsl",
            context! {
                fused => fused.is_some(),
                group => take,
                sharers => self.group() / take,
                staged => take + 1,
                depth => PAGE / strands,
                lanes, turns, strands, at_once, room, joins, takers, left,
                ..context! {
                    ..fused.copied().unwrap_or_default().parameters(),
                    ..self.parameters()
                }
            },
        )
    }

    /// Workgroups of the kernel that joins parts.
    pub(crate) fn merge_groups(&self, rows: usize) -> [u32; 3] {
        [self.heads as u32, rows as u32, 1]
    }

    /// The bindings of the kernel that joins parts: the buffer of parts, and a.
    pub(crate) fn merge_bindings() -> [Access; 2] {
        [Access::Read, Access::ReadWrite]
    }

    /// The WGSL of the kernel that joins parts.
    pub(crate) fn merge_source(&self) -> Result<String, Error> {
        /// Parts that a thread has on their way to it.
        const AT_ONCE: usize = 4;
        source::render("merge.wgsl", context! { at_once => AT_ONCE, ..self.parameters() })
    }

    /// Cuts a batch into the tiles of the kernel for many rows: first row and number of rows.
    /// A tile's rows are of one sequence. Those at the end of a prompt, which see most, come first:
    /// what starts last should be short.
    pub(crate) fn tiles(&self, rows: &[Row]) -> Vec<[u32; 2]> {
        let most = QUERIES / self.group();
        let mut tiles = Vec::new();
        let mut first = 0;
        for run in rows.chunk_by(|a, b| a.sequence == b.sequence) {
            for tile in run.chunks(most) {
                tiles.push([first, tile.len() as u32]);
                first += tile.len() as u32;
            }
        }
        tiles.reverse();
        tiles
    }

    /// Workgroups of the kernel for many rows.
    pub(crate) fn many_groups(&self, tiles: usize) -> [u32; 3] {
        [self.caches.kv_heads as u32, tiles as u32, 1]
    }

    /// The bindings of the kernel for many rows: rows, page tables, [`tiles`](Self::tiles), q,
    /// keys, values and a.
    pub(crate) fn many_bindings() -> [Access; 7] {
        use Access::{Read, ReadWrite};
        [Read, Read, Read, Read, Read, Read, ReadWrite]
    }

    /// The WGSL of the kernel for many rows.
    pub(crate) fn many_source(&self) -> Result<String, Error> {
        /// Units of a slice in workgroup memory, at most.
        const TILE: usize = 640;
        let units = self.units();
        // a thread loads one unit of a slice of keys, and one of queries
        let slice = (1..=THREADS / PAGE).rev().find(|n| units.is_multiple_of(*n)).unwrap_or(1);
        source::render(
            "attend_many.wgsl",
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

    use crate::{rope_store::preparations, testing::abilities};
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
        add("many".to_owned(), attention.many_source());
        add("merge".to_owned(), attention.merge_source());
        for subgroup in [4, 8, 32, 64] {
            let abilities = abilities(subgroup);
            for splits in [1, 2] {
                let few = |fused: Option<&Prepare>| attention.few_source(&abilities, splits, fused);
                add(format!("few by {subgroup}, {splits} parts"), few(None));
                for prepare in preparations(head_dim) {
                    if attention.fuses() {
                        let what = format!("few by {subgroup}, {splits} parts, {prepare:?}");
                        add(what, few(Some(&prepare)));
                    }
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
