//! Attention compared with f64 arithmetic.

use pelton_graph::{Input, KvElement, KvType, Place, Rope, RopeStyle, alibi_slope};
use pelton_testing::{Need, Random, skip};

use super::{written_out::written_out, *};
use crate::{
    device::{Device, Kernel},
    kernels::{
        cached::{from_cache, to_cache},
        rope_store::{Coordinates, RopeStore, Rotation, rotation_steps},
    },
    testing::{compiled, device, normals},
};

impl Attention {
    /// Causal attention of heads whose keys and values have one length.
    pub(crate) fn causal(heads: usize, head_dim: usize, caches: Caches) -> Self {
        Self {
            heads,
            key_dim: head_dim,
            value_dim: head_dim,
            prefix: false,
            scale: 1.0 / (head_dim as f32).sqrt(),
            mask: Mask::Causal { window: None },
            softcap: None,
            sinks: false,
            alibi: None,
            caches,
        }
    }
}

/// A batch after random cached positions: a layer's steps from q, k, v to a.
#[derive(Clone, Debug)]
struct Case {
    attention: Attention,
    prepare: HeadPrep,
    rows: Vec<Row>,
    /// How many of [`CORES`] are run: software takes seconds to compile one.
    cores: usize,
}

/// Entries of a slot's page table, and pages of the caches.
const TABLE: usize = 8;
const PAGES: usize = 64;

/// Work splits on matrix cores that software compiles and runs soon.
const CORES: [WorkSplit; 3] = [
    WorkSplit::of(16, 2, 32),
    WorkSplit::of(32, 1, 64),
    WorkSplit { step: 16, prefetch: false, ..WorkSplit::of(16, 1, 32) },
];

/// The kernel for prompt rows; `None` if the device has too little workgroup memory for it. Without
/// matrix cores they are written out.
pub(super) fn prompt_kernel(
    device: &Device,
    attention: &Attention,
    cores: Option<&WorkSplit>,
) -> Option<Kernel> {
    let Some(cores) = cores else {
        let source = attention.prompt_source().unwrap();
        return Some(compiled(device, &source));
    };
    if !device.device.features().contains(wgpu::Features::SHADER_F16) {
        skip(Need::Capability, "the device has no 16-bit floats");
        return None;
    }
    let mut source = attention.cores_source(cores).unwrap();
    let mut bytes = cores.bytes(attention.key_dim, attention.value_dim);
    if !device.capabilities.matrix_cores {
        source = source.mapped(|text| written_out(text, attention, cores));
        bytes += cores.subgroups * 32 * 4;
    }
    if bytes > device.capabilities.workgroup_bytes as usize {
        skip(Need::Capability, format_args!("{cores:?} needs more workgroup memory"));
        return None;
    }
    Some(compiled(device, &source))
}

/// Rows of runs `(slot, positions)`.
fn rows(runs: &[(u32, std::ops::Range<u32>)]) -> Vec<Row> {
    let row = |slot| move |position| Row { input: Input::Token(7), position, slot };
    runs.iter().flat_map(|(slot, positions)| positions.clone().map(row(*slot))).collect()
}

fn case(head_dim: usize, heads: usize, kv_heads: usize, kv: KvType, rows: Vec<Row>) -> Case {
    let caches = Caches { kv_heads, kv, table: TABLE };
    let attention = Attention::causal(heads, head_dim, caches);
    let rope = Some(Rotation {
        style: RopeStyle::Halves,
        pairs: head_dim / 2,
        factor: 1f32.to_bits(),
        by: Coordinates::Position,
    });
    Case { attention, prepare: HeadPrep { rope, ..HeadPrep::default() }, rows, cores: 0 }
}

/// Heads after norm and rotation, in f64.
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
            for (i, frequency) in rope.iter().flat_map(|rope| rope.frequencies.iter().enumerate()) {
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
        // both are NaN where nothing was written
        let same = difference.abs() <= tolerance * f64::from(expected.abs()).max(1.0)
            || got.is_nan() && expected.is_nan();
        assert!(same, "{what} {i}: {got} for {expected}, {case:?}");
    }
}

fn rope(rotation: Rotation) -> Rope {
    let frequencies =
        (0..rotation.pairs).map(|i| 1e4f32.powf(-(i as f32) / rotation.pairs as f32)).collect();
    Rope { style: rotation.style, frequencies, axes: Vec::new(), factor: 1.0, scaling: "" }
}

impl Case {
    /// Runs all kernels of the case and compares each result with f64. These are the kernel for
    /// prompts, and those for decoding with one KV split (if rows have no more) and with several.
    /// Each is run fused too if the rows are of different slots.
    fn check(&self) {
        let Some(device) = device() else { return };
        let Attention { heads, key_dim: head_dim, scale, mask, softcap, alibi, caches, .. } =
            self.attention;
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
        // only the positions before the batch are written
        let mut keys = vec![f32::NAN; PAGES * kv_heads * PAGE * head_dim];
        let mut values = keys.clone();
        for sequence in 0..sequences {
            let here = self.rows.iter().filter(|row| row.slot as usize == sequence);
            let before = here.map(|row| row.position as usize).min().unwrap_or(0);
            let seen = mask.range(before, before + 1, Place::of(before as u32).group).start;
            for position in seen..before {
                for h in 0..kv_heads {
                    let at = at(sequence, position, h);
                    keys[at..][..head_dim].copy_from_slice(&random.normals(head_dim, 0.0, 1.0));
                    values[at..][..head_dim].copy_from_slice(&random.normals(head_dim, 0.0, 1.0));
                }
            }
        }
        let keys_before = to_cache(kv.keys, &keys, head_dim);
        let values_before = to_cache(kv.values, &values, head_dim);
        let q = normals(1, count * heads * head_dim);
        let (k, v) =
            (normals(2, count * kv_heads * head_dim), normals(3, count * kv_heads * head_dim));
        let (q_weight, k_weight) = (normals(6, head_dim), normals(7, head_dim));
        let HeadPrep { q_norm, k_norm, rope: rotation } = self.prepare;
        let rope = rotation.map(rope);

        // the buffers
        let row_words: Vec<[u32; 4]> =
            self.rows.iter().map(|row| [7, row.position, row.slot, 0]).collect();
        let (rows, tables) = (device.with(&row_words), device.with(&pages));
        let steps = device.with(&rope.as_ref().map_or_else(Vec::new, rotation_steps));
        let (q_weight_buffer, k_weight_buffer) = (device.with(&q_weight), device.with(&k_weight));
        let mut preparing: Vec<&wgpu::Buffer> = Vec::new();
        preparing.extend(rope.is_some().then_some(&steps));
        preparing.extend(q_norm.is_some().then_some(&q_weight_buffer));
        preparing.extend(k_norm.is_some().then_some(&k_weight_buffer));
        let poison = vec![f32::NAN; q.len()];
        let sinks = normals(9, heads);
        let sink_buffer = device.with(&sinks);
        let with_sinks = self.attention.sinks.then_some(&sink_buffer);

        // rope_store
        let rope_store = RopeStore { heads, head_dim, prepare: self.prepare, store: Some(caches) };
        let (q_buffer, k_buffer, v_buffer) = (device.with(&q), device.with(&k), device.with(&v));
        let (key_cache, value_cache) = (device.with(&keys_before), device.with(&values_before));
        let mut buffers =
            vec![&rows, &q_buffer, &k_buffer, &v_buffer, &tables, &key_cache, &value_cache];
        buffers.extend(&preparing);
        device.run(
            &compiled(&device, &rope_store.source().unwrap()),
            &buffers,
            rope_store.groups(count),
        );
        let rotated_q: Vec<f32> = device.content(&q_buffer);
        let rotated_k: Vec<f32> = device.content(&k_buffer);
        let norm = |eps: Option<f32>, weight| eps.map(|eps| (eps, weight));
        let expected =
            prepared(&q, norm(q_norm, &q_weight[..]), rope.as_ref(), &self.rows, head_dim);
        close("q", self, &rotated_q, &expected, 2e-6);
        let expected =
            prepared(&k, norm(k_norm, &k_weight[..]), rope.as_ref(), &self.rows, head_dim);
        close("k", self, &rotated_k, &expected, 2e-6);
        for (r, row) in self.rows.iter().enumerate() {
            for h in 0..kv_heads {
                let at = at(row.slot as usize, row.position as usize, h);
                let from = (r * kv_heads + h) * head_dim;
                keys[at..][..head_dim].copy_from_slice(&rotated_k[from..][..head_dim]);
                values[at..][..head_dim].copy_from_slice(&v[from..][..head_dim]);
            }
        }
        let stored_keys: Vec<u8> = device.content(&key_cache);
        let stored_values: Vec<u8> = device.content(&value_cache);
        assert!(stored_values == to_cache(kv.values, &values, head_dim), "values of {self:?}");
        assert!(stored_keys == to_cache(kv.keys, &keys, head_dim), "keys of {self:?}");

        // attend
        let keys = from_cache(kv.keys, &stored_keys, head_dim);
        let values = from_cache(kv.values, &stored_values, head_dim);
        let mut expected = Vec::new();
        for (r, row) in self.rows.iter().enumerate() {
            let position = row.position as usize;
            let seen = mask.range(position, position + 1, Place::of(position as u32).group);
            for h in 0..heads {
                let q = &rotated_q[(r * heads + h) * head_dim..][..head_dim];
                let slots = seen.clone().map(|p| at(row.slot as usize, p, h / (heads / kv_heads)));
                let scores: Vec<f64> = slots
                    .clone()
                    .zip(seen.clone())
                    .map(|(at, p)| {
                        let key = &keys[at..][..head_dim];
                        let product: f64 =
                            key.iter().zip(q).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                        let mut score = product * f64::from(scale);
                        score = softcap
                            .map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh());
                        let slope = alibi.map_or(0.0, |bias| alibi_slope(bias, h, heads));
                        score - f64::from(slope) * (position - p) as f64
                    })
                    .collect();
                let sink = with_sinks.map_or(f64::NEG_INFINITY, |_| f64::from(sinks[h]));
                let max = scores.iter().copied().fold(sink, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
                let total = weights.iter().sum::<f64>() + (sink - max).exp();
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
        let merge = compiled(&device, &self.attention.merge_source().unwrap());
        let decode = |fused: Option<&HeadPrep>, splits| {
            let source = self.attention.decode_source(&device.capabilities, splits, fused).unwrap();
            compiled(&device, &source)
        };
        let alone = self.rows.chunk_by(|a, b| a.slot == b.slot).all(|run| run.len() == 1);
        let bound = self.rows.iter().map(|row| row.position as usize + 1).max().unwrap();
        let variants = match self.attention.splits(bound) {
            1 => vec![1, 2],
            splits => vec![splits],
        };
        for splits in variants {
            let unfused = decode(None, splits);
            let fuses = alone && self.attention.fuses();
            let fused = fuses.then(|| decode(Some(&self.prepare), splits));
            let run = |kernel, q, keys, values, more: &[&wgpu::Buffer]| -> Vec<f32> {
                let a = device.with(&poison);
                let split_buffer =
                    device.with(&vec![f32::NAN; self.attention.splits_len(count, splits)]);
                let mut buffers = vec![&rows, &tables, q, keys, values, &a, &split_buffer];
                buffers.extend(with_sinks);
                buffers.extend(more);
                device.run(kernel, &buffers, self.attention.decode_groups(count, splits));
                if splits > 1 {
                    let mut buffers = vec![&rows, &split_buffer, &a];
                    buffers.extend(with_sinks);
                    device.run(&merge, &buffers, self.attention.merge_groups(count));
                }
                device.content(&a)
            };
            let separate = run(&unfused, &q_buffer, &key_cache, &value_cache, &[]);
            close("a", self, &separate, &expected, 1e-5);
            if let Some(fused) = &fused {
                let (q, k) = (device.with(&q), device.with(&k));
                let (key_cache, value_cache) =
                    (device.with(&keys_before), device.with(&values_before));
                let mut more = vec![&k, &v_buffer];
                more.extend(&preparing);
                let got = run(fused, &q, &key_cache, &value_cache, &more);
                close("fused a", self, &got, &separate, 1e-6);
                assert!(device.content::<u8>(&key_cache) == stored_keys, "fused keys of {self:?}");
                assert!(
                    device.content::<u8>(&value_cache) == stored_values,
                    "fused values of {self:?}"
                );
            }
        }
        let mut variants = vec![None];
        variants.extend(CORES.iter().take(self.cores).map(Some));
        for cores in variants {
            let Some(kernel) = prompt_kernel(&device, &self.attention, cores) else { continue };
            let most = self.attention.tile_rows(cores.copied());
            let tiles = tiles(&self.rows, most);
            let x = self.attention.prompt_groups(cores.copied());
            let groups = [x, tiles.len() as u32, 1];
            let (tiles, a) = (device.with(&tiles), device.with(&poison));
            let mut buffers = vec![&rows, &tables, &tiles, &q_buffer, &key_cache, &value_cache, &a];
            buffers.extend(with_sinks);
            device.run(&kernel, &buffers, groups);
            // queries and weights are rounded to f16 for matrix cores
            let tolerance = if cores.is_some() { 2e-3 } else { 1e-5 };
            let what = format!("a of a prompt by {cores:?}");
            close(&what, self, &device.content::<f32>(&a), &expected, tolerance);
        }
    }
}

/// Rows of several sequences, at the edges of pages.
fn decoding() -> Vec<Row> {
    rows(&[(0, 0..1), (3, 62..63), (1, 63..64), (5, 64..65), (2, 300..301)])
}

/// The beginning of a prompt, the continuation of another, and decoding rows, in one batch.
fn mixed() -> Vec<Row> {
    rows(&[(1, 0..70), (4, 100..141), (0, 64..65), (6, 191..192), (2, 0..1)])
}

#[test]
fn every_head_size_in_splits() {
    const F16: KvType = KvType::F16;
    const F32: KvType = KvType::F32;
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
    for (head_dim, heads, kv_heads, kv) in shapes {
        case(head_dim, heads, kv_heads, kv, decoding()).check();
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
        case.attention.mask = Mask::Causal { window };
        case.check();
    }
}

#[test]
fn windows_of_decoding_rows() {
    for window in [1, 64, 65, 100, 250] {
        let mut case = case(64, 4, 2, KvType::F16, decoding());
        case.attention.mask = Mask::Causal { window: Some(window) };
        case.check();
    }
}

#[test]
fn keys_and_values_in_blocks() {
    for (head_dim, heads, kv_heads) in [(64, 6, 2), (96, 4, 2), (32, 2, 1), (128, 8, 1)] {
        case(head_dim, heads, kv_heads, KvType::Q8_0, decoding()).check();
    }
    Case { cores: 1, ..case(32, 6, 2, KvType::Q8_0, mixed()) }.check();
    for (i, keys) in KvElement::ALL.into_iter().enumerate() {
        // every type meets another one
        let kv = KvType { keys, values: KvElement::ALL[(i + 4) % KvElement::ALL.len()] };
        let on_cores = [kv.keys, kv.values].iter().all(|&kv| kv != KvElement::F32);
        case(64, 4, 2, kv, decoding()).check();
        Case { cores: usize::from(on_cores), ..case(32, 6, 2, kv, mixed()) }.check();
        case(96, 2, 1, KvType::both(keys), decoding()).check();
    }
}

#[test]
fn every_work_split_on_matrix_cores() {
    let case = case(16, 6, 2, KvType::F16, rows(&[(1, 50..70), (4, 0..3)]));
    Case { cores: CORES.len(), ..case }.check();
}

/// Bounds of scores, sinks, ALiBi and chunks, alone and together.
#[test]
fn other_scores() {
    let window = |window| Mask::Causal { window };
    for (heads, kv_heads, mask, softcap, sinks, alibi) in [
        (6, 2, window(None), Some(2.0), false, None),
        (6, 2, window(None), None, true, None),
        (6, 2, window(None), None, false, Some(8.0)),
        (4, 1, window(Some(70)), Some(30.0), true, Some(4.0)),
        (3, 3, Mask::Chunked { chunk: 48 }, None, true, None),
        (4, 2, Mask::Chunked { chunk: 128 }, None, false, None),
    ] {
        for (rows, cores) in [(decoding(), 0), (mixed(), 1)] {
            let mut case = case(24, heads, kv_heads, KvType::F16, rows);
            case.attention = Attention { mask, softcap, sinks, alibi, ..case.attention };
            case.cores = cores;
            case.check();
        }
    }
}

#[test]
fn norms_and_rotations() {
    let norm = Some(1e-5);
    let by = Coordinates::Position;
    let rope = |style, pairs| Some(Rotation { style, pairs, factor: 1f32.to_bits(), by });
    use RopeStyle::{Halves, Interleaved};
    for (head_dim, prepare) in [
        (64, HeadPrep { q_norm: norm, k_norm: norm, rope: rope(Halves, 32) }),
        (128, HeadPrep { q_norm: norm, k_norm: Some(1e-3), rope: rope(Interleaved, 64) }),
        (80, HeadPrep { q_norm: None, k_norm: None, rope: rope(Interleaved, 10) }),
        (6, HeadPrep { q_norm: None, k_norm: norm, rope: rope(Halves, 2) }),
        (24, HeadPrep { q_norm: norm, k_norm: None, rope: None }),
        (64, HeadPrep::default()),
    ] {
        let case = case(head_dim, 6, 2, KvType::F16, decoding());
        Case { prepare, ..case }.check();
    }
}

/// A short context has one KV split; a long one has enough to fill the GPU, of a page or more each.
/// The number of rows has no effect.
#[test]
fn splits_fill_the_gpu() {
    let attention = case(128, 32, 8, KvType::F16, Vec::new()).attention;
    for (bound, splits) in [(1, 1), (128, 1), (192, 1), (193, 4), (4096, 32), (1 << 20, 32)] {
        assert_eq!(attention.splits(bound), splits, "{bound}");
    }
    let window = Attention { mask: Mask::Causal { window: Some(100) }, ..attention };
    assert_eq!(window.splits(4096), 1);
}

/// A decoding row has the same bits in every kernel and with any other rows.
#[test]
fn rows_are_independent() {
    let Some(device) = device() else { return };
    let (head_dim, heads, kv_heads) = (64, 8, 2);
    let caches = Caches { kv_heads, kv: KvType::F16, table: TABLE };
    let attention = Attention::causal(heads, head_dim, caches);
    let pages: Vec<u32> = (0..PAGES as u32).collect();
    let cached = normals(8, PAGES * kv_heads * PAGE * head_dim);
    let cached = to_cache(caches.kv.keys, &cached, head_dim);
    let (tables, keys, values) = (device.with(&pages), device.with(&cached), device.with(&cached));
    let run = |positions: &[u32], splits: usize| -> Vec<f32> {
        let words: Vec<[u32; 4]> = (0..).zip(positions).map(|(s, &p)| [7, p, s, 0]).collect();
        let count = positions.len();
        let q: Vec<f32> =
            (0..count).flat_map(|r| normals(40 + r as u64, heads * head_dim)).collect();
        let (rows, q) = (device.with(&words), device.with(&q));
        let a = device.with(&vec![f32::NAN; count * heads * head_dim]);
        let scratch = device.with(&vec![f32::NAN; attention.splits_len(count, splits)]);
        let source = attention.decode_source(&device.capabilities, splits, None).unwrap();
        device.run(
            &compiled(&device, &source),
            &[&rows, &tables, &q, &keys, &values, &a, &scratch],
            attention.decode_groups(count, splits),
        );
        let source = attention.merge_source().unwrap();
        device.run(
            &compiled(&device, &source),
            &[&rows, &scratch, &a],
            attention.merge_groups(count),
        );
        device.content(&a)
    };
    let positions = [10, 191, 192, 500, 0];
    let all = run(&positions, attention.splits(501));
    for (r, &position) in positions.iter().enumerate() {
        let mut alone = vec![0; r + 1];
        alone[r] = position;
        let splits = attention.splits(position as usize + 1);
        let got = run(&alone, splits);
        let row = r * heads * head_dim..(r + 1) * heads * head_dim;
        assert!(got[row.clone()] == all[row], "the row at {position}");
    }
}

/// A prompt row has the same bits on matrix cores in any chunk, in a tile with any other rows, and
/// in every work split with steps of one length.
#[test]
fn prompt_rows_are_independent_on_matrix_cores() {
    let Some(device) = device() else { return };
    let (head_dim, heads, kv_heads) = (32, 6, 2);
    let caches = Caches { kv_heads, kv: KvType::F16, table: TABLE };
    let attention = Attention {
        // scores that rise often and far
        scale: 1.0,
        mask: Mask::Causal { window: Some(100) },
        ..Attention::causal(heads, head_dim, caches)
    };
    let pages: Vec<u32> = (0..PAGES as u32).collect();
    let cached =
        to_cache(caches.kv.keys, &normals(8, PAGES * kv_heads * PAGE * head_dim), head_dim);
    let (tables, keys, values) = (device.with(&pages), device.with(&cached), device.with(&cached));
    let last = 150;
    let q = normals(40, last * heads * head_dim);
    let run = |cores: &WorkSplit, positions: std::ops::Range<usize>| -> Vec<f32> {
        let words: Vec<[u32; 4]> = positions.clone().map(|p| [7, p as u32, 3, 0]).collect();
        let rows = rows(&[(3, positions.start as u32..positions.end as u32)]);
        let q = &q[positions.start * heads * head_dim..positions.end * heads * head_dim];
        let tiles = tiles(&rows, attention.tile_rows(Some(*cores)));
        let groups = [attention.prompt_groups(Some(*cores)), tiles.len() as u32, 1];
        let a = device.with(&vec![f32::NAN; q.len()]);
        let (rows, tiles, q) = (device.with(&words), device.with(&tiles), device.with(q));
        let kernel = prompt_kernel(&device, &attention, Some(cores)).unwrap();
        device.run(&kernel, &[&rows, &tables, &tiles, &q, &keys, &values, &a], groups);
        device.content(&a)
    };
    let whole = run(&CORES[0], 0..last);
    assert!(whole.iter().all(|v| v.is_finite()));
    for (cores, cuts) in [(CORES[0], vec![1, 64, 101]), (CORES[1], vec![]), (CORES[1], vec![128])] {
        let ends = cuts.iter().copied().chain([last]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let pieces: Vec<f32> = starts.zip(ends).flat_map(|(a, b)| run(&cores, a..b)).collect();
        let differ = whole.iter().zip(&pieces).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        assert_eq!((differ, pieces.len()), (0, whole.len()), "{cores:?} cut at {cuts:?}");
    }
}
