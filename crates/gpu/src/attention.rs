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

    /// Bytes that a workgroup of the kernel for few rows shares, but for the room for heads.
    fn shared(&self, fused: bool) -> usize {
        // queries, their scores and weights, the states of their softmax
        let each = 4 * self.head_dim + 8 * PAGE + 12;
        // the row's own key and value, the angles and the factors of norms
        let own = 2 * self.head_dim * self.caches.kv.bytes() + 4 * self.head_dim;
        self.group() * each + if fused { own + 4 * (self.group() + 1) } else { 0 }
    }

    /// Whether [`few`](Self::few_source) can be fused: the heads of a large group may not fit.
    pub(crate) fn fuses(&self) -> bool {
        self.shared(true) + (self.group() + 1) * self.head_dim * 4 <= SHARED
    }

    fn shares(&self, abilities: &Abilities, fused: bool) -> Shares {
        let units = self.units();
        // a power of two that shares the units evenly, and that a shuffle can join
        let most = (abilities.subgroup as usize).clamp(1, 16);
        let lanes = 1 << (units.trailing_zeros().min(most.ilog2()));
        // values are summed four positions at a time
        let strands = 1 << (THREADS / units).clamp(1, PAGE / 4).ilog2();
        let fit = (SHARED - self.shared(fused).min(SHARED)) / (strands * self.head_dim * 4);
        let at_once = fit.clamp(1, self.group().min(4));
        let staged = if fused { self.group() + 1 } else { 0 };
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
        [self.caches.kv_heads as u32, splits as u32, rows as u32]
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

    /// The WGSL of the kernel for few rows.
    pub(crate) fn few_source(
        &self,
        abilities: &Abilities,
        fused: Option<&Prepare>,
    ) -> Result<String, Error> {
        let Shares { lanes, turns, strands, at_once, room } =
            self.shares(abilities, fused.is_some());
        // products are halved between lanes as long as they come in pairs
        let mut left = self.group() * turns;
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
                staged => self.group() + 1,
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
            add(format!("few by {subgroup}"), attention.few_source(&abilities, None));
            for prepare in preparations(head_dim) {
                if attention.fuses() {
                    let source = attention.few_source(&abilities, Some(&prepare));
                    add(format!("few by {subgroup} with {prepare:?}"), source);
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use half::f16;
    use pelton_graph::{KvType, Rope, RopeStyle};
    use pelton_testing::Random;

    use super::*;
    use crate::{
        rope_store::{RopeStore, Rotation, turns},
        testing::{compiled, device, normals},
    };

    /// A batch, and all that was before it: a layer's steps from q, k, v to a, in f64.
    #[derive(Clone, Debug)]
    struct Case {
        attention: Attention,
        prepare: Prepare,
        rows: Vec<Row>,
    }

    /// Pages that a sequence's table has room for, and pages of the caches.
    const TABLE: usize = 8;
    const PAGES: usize = 64;

    /// `(sequence, positions)`.
    fn rows(runs: &[(u32, std::ops::Range<u32>)]) -> Vec<Row> {
        let row = |sequence| move |position| Row { token: 7, position, sequence };
        runs.iter()
            .flat_map(|(sequence, positions)| positions.clone().map(row(*sequence)))
            .collect()
    }

    fn case(head_dim: usize, heads: usize, kv_heads: usize, kv: KvType, rows: Vec<Row>) -> Case {
        let scale = 1.0 / (head_dim as f32).sqrt();
        let caches = Caches { kv_heads, kv, table: TABLE };
        let attention = Attention { heads, head_dim, scale, window: None, caches };
        let rope = Some(Rotation { style: RopeStyle::Halves, pairs: head_dim / 2 });
        Case { attention, prepare: Prepare { rope, ..Prepare::default() }, rows }
    }

    /// Heads after norm and rotation, as `crates/cpu/src/plain/ops.rs` says.
    fn prepared(
        x: &[f32],
        norm: Option<(f32, &[f32])>,
        rope: Option<&Rope>,
        rows: &[Row],
        head_dim: usize,
    ) -> Vec<f32> {
        let per_row = x.len() / rows.len();
        let mut all = x.to_vec();
        for (x, row) in all.chunks_mut(per_row).zip(rows) {
            for head in x.chunks_mut(head_dim) {
                if let Some((eps, weight)) = norm {
                    let squares: f64 = head.iter().map(|&v| f64::from(v).powi(2)).sum();
                    let scale = 1.0 / (squares / head_dim as f64 + f64::from(eps)).sqrt();
                    for (x, weight) in head.iter_mut().zip(weight) {
                        *x = (f64::from(*x) * scale) as f32 * weight;
                    }
                }
                for (i, frequency) in
                    rope.iter().flat_map(|rope| rope.frequencies.iter().enumerate())
                {
                    let (sin, cos) = (f64::from(row.position) * f64::from(*frequency)).sin_cos();
                    let (a, b) = rope.unwrap().pair(i);
                    let (x, y) = (f64::from(head[a]), f64::from(head[b]));
                    head[a] = (x * cos - y * sin) as f32;
                    head[b] = (x * sin + y * cos) as f32;
                }
            }
        }
        all
    }

    fn close(what: &str, case: &Case, got: &[f32], expected: &[f32], tolerance: f64) {
        assert_eq!(got.len(), expected.len(), "{what} of {case:?}");
        for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
            let difference = f64::from(*got) - f64::from(*expected);
            // what both say was never written agrees
            let same = difference.abs() <= tolerance * f64::from(expected.abs()).max(1.0)
                || got.is_nan() && expected.is_nan();
            assert!(same, "{what} {i}: {got} for {expected}, {case:?}");
        }
    }

    fn rope(rotation: Rotation) -> Rope {
        let frequencies =
            (0..rotation.pairs).map(|i| 1e4f32.powf(-(i as f32) / rotation.pairs as f32)).collect();
        Rope { style: rotation.style, frequencies, scaling: "" }
    }

    fn to_cache(kv: KvType, values: &[f32]) -> Vec<u8> {
        match kv {
            KvType::F16 => values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
            KvType::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    fn from_cache(kv: KvType, bytes: &[u8]) -> Vec<f32> {
        match kv {
            KvType::F16 => {
                bytes.chunks(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
            }
            KvType::F32 => {
                bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
            }
        }
    }

    impl Case {
        /// Runs all kernels that serve the case, and holds each result against f64: with rows of
        /// different sequences the few, fused and not, in each of `splits` parts; and the many.
        fn check(&self, splits: &[usize]) {
            let Some(device) = device() else { return };
            let Attention { heads, head_dim, scale, window, caches } = self.attention;
            let Caches { kv_heads, kv, .. } = caches;
            let count = self.rows.len();
            let mut random = Random::new(5);
            let mut pages: Vec<u32> = (0..PAGES as u32).collect();
            for i in (1..PAGES).rev() {
                pages.swap(i, random.below(i + 1));
            }
            let sequences = PAGES / TABLE;
            let slot = |sequence: usize, position: usize| {
                (pages[sequence * TABLE + position / PAGE], position % PAGE)
            };
            let at = |sequence: usize, position: usize, kv_head: usize| {
                let (page, slot) = slot(sequence, position);
                ((page as usize * kv_heads + kv_head) * PAGE + slot) * head_dim
            };
            // what was before the batch is there, and nothing else
            let mut keys = vec![f32::NAN; PAGES * kv_heads * PAGE * head_dim];
            let mut values = keys.clone();
            for sequence in 0..sequences {
                let here = self.rows.iter().filter(|row| row.sequence as usize == sequence);
                let before = here.map(|row| row.position as usize).min().unwrap_or(0);
                let seen = window.map_or(0, |window| (before + 1).saturating_sub(window));
                for position in seen..before {
                    for h in 0..kv_heads {
                        let at = at(sequence, position, h);
                        keys[at..][..head_dim].copy_from_slice(&random.normals(head_dim, 0.0, 1.0));
                        values[at..][..head_dim]
                            .copy_from_slice(&random.normals(head_dim, 0.0, 1.0));
                    }
                }
            }
            let (keys_before, values_before) = (to_cache(kv, &keys), to_cache(kv, &values));
            let q = normals(1, count * heads * head_dim);
            let (k, v) =
                (normals(2, count * kv_heads * head_dim), normals(3, count * kv_heads * head_dim));
            let (q_weight, k_weight) = (normals(6, head_dim), normals(7, head_dim));
            let Prepare { q_norm, k_norm, rope: rotation } = self.prepare;
            let rope = rotation.map(rope);

            // the buffers
            let row_numbers: Vec<[u32; 4]> =
                self.rows.iter().map(|row| [row.token, row.position, row.sequence, 0]).collect();
            let (rows, tables) = (device.with(&row_numbers), device.with(&pages));
            let turns = device.with(&rope.as_ref().map_or_else(Vec::new, turns));
            let (q_weight_buffer, k_weight_buffer) =
                (device.with(&q_weight), device.with(&k_weight));
            let mut preparing: Vec<&wgpu::Buffer> = Vec::new();
            preparing.extend(rope.is_some().then_some(&turns));
            preparing.extend(q_norm.is_some().then_some(&q_weight_buffer));
            preparing.extend(k_norm.is_some().then_some(&k_weight_buffer));
            let poison = vec![f32::NAN; q.len()];

            // rope_store
            let rope_store =
                RopeStore { heads, head_dim, prepare: self.prepare, store: Some(caches) };
            let (q_buffer, k_buffer, v_buffer) =
                (device.with(&q), device.with(&k), device.with(&v));
            let (key_cache, value_cache) = (device.with(&keys_before), device.with(&values_before));
            let mut buffers =
                vec![&rows, &q_buffer, &k_buffer, &v_buffer, &tables, &key_cache, &value_cache];
            buffers.extend(&preparing);
            device.run(
                &compiled(&device, &rope_store.source().unwrap(), &rope_store.bindings()),
                &buffers,
                rope_store.groups(count),
            );
            let turned_q: Vec<f32> = device.content(&q_buffer);
            let turned_k: Vec<f32> = device.content(&k_buffer);
            let norm = |eps: Option<f32>, weight| eps.map(|eps| (eps, weight));
            let expected =
                prepared(&q, norm(q_norm, &q_weight[..]), rope.as_ref(), &self.rows, head_dim);
            close("q", self, &turned_q, &expected, 2e-6);
            let expected =
                prepared(&k, norm(k_norm, &k_weight[..]), rope.as_ref(), &self.rows, head_dim);
            close("k", self, &turned_k, &expected, 2e-6);
            for (r, row) in self.rows.iter().enumerate() {
                for h in 0..kv_heads {
                    let at = at(row.sequence as usize, row.position as usize, h);
                    let from = (r * kv_heads + h) * head_dim;
                    keys[at..][..head_dim].copy_from_slice(&turned_k[from..][..head_dim]);
                    values[at..][..head_dim].copy_from_slice(&v[from..][..head_dim]);
                }
            }
            let stored_keys: Vec<u8> = device.content(&key_cache);
            let stored_values: Vec<u8> = device.content(&value_cache);
            assert!(stored_values == to_cache(kv, &values), "values of {self:?}");
            assert!(stored_keys == to_cache(kv, &keys), "keys of {self:?}");

            // attend
            let (keys, values) = (from_cache(kv, &stored_keys), from_cache(kv, &stored_values));
            let mut expected = Vec::new();
            for (r, row) in self.rows.iter().enumerate() {
                let position = row.position as usize;
                let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
                for h in 0..heads {
                    let q = &turned_q[(r * heads + h) * head_dim..][..head_dim];
                    let slots = (first..=position)
                        .map(|p| at(row.sequence as usize, p, h / (heads / kv_heads)));
                    let scores: Vec<f64> = slots
                        .clone()
                        .map(|at| {
                            let key = &keys[at..][..head_dim];
                            let product: f64 =
                                key.iter().zip(q).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                            product * f64::from(scale)
                        })
                        .collect();
                    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
                    let total: f64 = weights.iter().sum();
                    expected.extend((0..head_dim).map(|d| {
                        let sum: f64 = slots
                            .clone()
                            .zip(&weights)
                            .map(|(at, w)| w * f64::from(values[at + d]))
                            .sum();
                        (sum / total) as f32
                    }));
                }
            }
            let merge = compiled(
                &device,
                &self.attention.merge_source().unwrap(),
                &Attention::merge_bindings(),
            );
            let few = |fused: Option<&Prepare>| {
                let source = self.attention.few_source(&device.abilities, fused).unwrap();
                compiled(&device, &source, &Attention::few_bindings(fused))
            };
            let unfused = few(None);
            let alone =
                self.rows.chunk_by(|a, b| a.sequence == b.sequence).all(|run| run.len() == 1);
            let fused = (alone && self.attention.fuses()).then(|| few(Some(&self.prepare)));
            for &splits in splits {
                let run = |kernel, q, keys, values, more: &[&wgpu::Buffer]| -> Vec<f32> {
                    let a = device.with(&poison);
                    let parts =
                        device.with(&vec![f32::NAN; self.attention.parts_len(count, splits)]);
                    let mut buffers = vec![&rows, &tables, q, keys, values, &a, &parts];
                    buffers.extend(more);
                    device.run(kernel, &buffers, self.attention.few_groups(count, splits));
                    if splits > 1 {
                        device.run(&merge, &[&parts, &a], self.attention.merge_groups(count));
                    }
                    device.content(&a)
                };
                let plain = run(&unfused, &q_buffer, &key_cache, &value_cache, &[]);
                close("a", self, &plain, &expected, 1e-5);
                if let Some(fused) = &fused {
                    let (q, k) = (device.with(&q), device.with(&k));
                    let (key_cache, value_cache) =
                        (device.with(&keys_before), device.with(&values_before));
                    let mut more = vec![&k, &v_buffer];
                    more.extend(&preparing);
                    let got = run(fused, &q, &key_cache, &value_cache, &more);
                    close("fused a", self, &got, &plain, 1e-6);
                    assert!(
                        device.content::<u8>(&key_cache) == stored_keys,
                        "fused keys of {self:?}"
                    );
                    assert!(
                        device.content::<u8>(&value_cache) == stored_values,
                        "fused values of {self:?}"
                    );
                }
            }
            let tiles = self.attention.tiles(&self.rows);
            let groups = self.attention.many_groups(tiles.len());
            let (tiles, a) = (device.with(&tiles), device.with(&poison));
            let buffers = [&rows, &tables, &tiles, &q_buffer, &key_cache, &value_cache, &a];
            device.run(
                &compiled(
                    &device,
                    &self.attention.many_source().unwrap(),
                    &Attention::many_bindings(),
                ),
                &buffers,
                groups,
            );
            close("a of many", self, &device.content::<f32>(&a), &expected, 1e-5);
        }
    }

    /// Rows of several sequences, at the edges of pages.
    fn decoding() -> Vec<Row> {
        rows(&[(0, 0..1), (3, 62..63), (1, 63..64), (5, 64..65), (2, 300..301)])
    }

    /// A prompt's beginning, another's continuation, and rows that decode, in one batch.
    fn mixed() -> Vec<Row> {
        rows(&[(1, 0..70), (4, 100..141), (0, 64..65), (6, 191..192), (2, 0..1)])
    }

    #[test]
    fn every_head_size_in_parts() {
        use KvType::{F16, F32};
        let shapes = [
            (6, 4, 2, F16),
            (6, 2, 2, F32),
            (24, 6, 2, F16),
            (64, 8, 1, F16),
            (80, 2, 2, F16),
            (96, 3, 1, F32),
            (112, 4, 2, F16),
            (128, 8, 2, F16),
            (128, 2, 1, F32),
            (256, 8, 1, F16),
            (256, 16, 1, F16),
        ];
        for (i, (head_dim, heads, kv_heads, kv)) in shapes.into_iter().enumerate() {
            case(head_dim, heads, kv_heads, kv, decoding()).check(&[1, 2 + i % 3]);
        }
    }

    #[test]
    fn mixed_batches_with_windows() {
        for (i, (head_dim, window)) in
            [(6, Some(20)), (64, None), (80, Some(1)), (128, Some(64)), (24, Some(70))]
                .into_iter()
                .enumerate()
        {
            let (heads, kv_heads) = [(4, 2), (3, 1), (2, 2), (8, 1), (16, 1)][i];
            let mut case = case(head_dim, heads, kv_heads, KvType::F16, mixed());
            case.attention.window = window;
            case.check(&[1 + i % 3]);
        }
    }

    #[test]
    fn windows_of_decoding_rows() {
        for (window, splits) in [(1, 2), (64, 1), (65, 3), (100, 4)] {
            let mut case = case(64, 4, 2, KvType::F16, decoding());
            case.attention.window = Some(window);
            case.check(&[splits]);
        }
    }

    #[test]
    fn what_comes_before() {
        let norm = Some(1e-5);
        let rope = |style, pairs| Some(Rotation { style, pairs });
        use RopeStyle::{Halves, Interleaved};
        for (head_dim, prepare) in [
            (64, Prepare { q_norm: norm, k_norm: norm, rope: rope(Halves, 32) }),
            (128, Prepare { q_norm: norm, k_norm: Some(1e-3), rope: rope(Interleaved, 64) }),
            (80, Prepare { q_norm: None, k_norm: None, rope: rope(Interleaved, 10) }),
            (6, Prepare { q_norm: None, k_norm: norm, rope: rope(Halves, 2) }),
            (24, Prepare { q_norm: norm, k_norm: None, rope: None }),
            (64, Prepare::default()),
        ] {
            let case = case(head_dim, 6, 2, KvType::F16, decoding());
            Case { prepare, ..case }.check(&[2]);
        }
    }

    /// One part is enough for a short context; a long one fills the device, with a page for each
    /// part at least.
    #[test]
    fn parts_fill_the_device() {
        let attention = case(128, 32, 8, KvType::F16, Vec::new()).attention;
        assert_eq!(attention.splits(1, 1), 1);
        assert_eq!(attention.splits(1, 128), 1);
        assert_eq!(attention.splits(1, 192), 1);
        assert_eq!(attention.splits(1, 193), 4);
        assert_eq!(attention.splits(1, 4096), 32);
        assert_eq!(attention.splits(4, 4096), 8);
        assert_eq!(attention.splits(1000, 4096), 1);
        let window = Attention { window: Some(100), ..attention };
        assert_eq!(window.splits(1, 4096), 1);
    }
}
