//! Norms and rotation of heads before attention, and the store in the KV caches.

use std::f64::consts::TAU;

use minijinja::{Value, context};
use pelton_graph::{Error, KvElement, KvType, PAGE, Plan, Rope, RopeStyle};
use pelton_quant::IQ4_NL_LEVELS;

use crate::{device::KernelSource, kernels::template};

/// The properties of a rotation that kernels depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// The pairing of elements.
    pub(crate) style: RopeStyle,
    /// Number of pairs that rotate.
    pub(crate) pairs: usize,
    /// The bits of the f32 factor of cosines and sines.
    pub(crate) factor: u32,
    /// The numbers that pairs rotate by.
    pub(crate) by: Coordinates,
}

/// The numbers that the pairs of a rotation rotate by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coordinates {
    /// The position of the row.
    #[default]
    Position,
    /// The first coordinate of its place.
    First,
    /// The coordinate of each pair's axis.
    Axes,
}

impl Coordinates {
    /// Those of a rotation of a plan.
    pub(crate) fn of(plan: &Plan, rope: &Rope) -> Self {
        match (plan.has_places(), rope.axes.is_empty()) {
            (false, _) => Self::Position,
            (true, true) => Self::First,
            (true, false) => Self::Axes,
        }
    }
}

impl Rotation {
    /// The factor of cosines and sines as WGSL; empty if it is 1.
    fn factor_text(self) -> String {
        match f32::from_bits(self.factor) {
            1.0 => String::new(),
            factor => template::float(factor),
        }
    }
}

/// The norms and the rotation of query and key heads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HeadPrep {
    /// The `eps` of a norm of the query heads.
    pub(crate) q_norm: Option<f32>,
    /// The `eps` of a norm of the key heads.
    pub(crate) k_norm: Option<f32>,
    /// The rotation of both, after the norms.
    pub(crate) rope: Option<Rotation>,
}

impl HeadPrep {
    /// The parameters of `heads.wgsl`.
    pub(crate) fn parameters(&self) -> Value {
        let eps = |eps: Option<f32>| eps.map_or_else(String::new, template::float);
        context! {
            q_norm => eps(self.q_norm),
            k_norm => eps(self.k_norm),
            pairs => self.rope.map_or(0, |rope| rope.pairs),
            coordinates => match self.rope.map_or(Coordinates::Position, |rope| rope.by) {
                Coordinates::Position => "",
                Coordinates::First => "first",
                Coordinates::Axes => "axes",
            },
            quarters => self.rope.is_some_and(|rope| rope.style == RopeStyle::HalvesOfHalves),
            interleaved => self.rope.is_some_and(|rope| rope.style == RopeStyle::Interleaved),
            radians => template::float((TAU / 2f64.powi(32)) as f32),
            rope_factor => self.rope.map_or_else(String::new, |rope| rope.factor_text()),
        }
    }
}

/// The rotation steps `[pairs, 2]` from one position to the next: fractions of a full turn in units
/// of 2⁻⁶⁴, the upper word first. The axes of pairs come after them, if there are some.
pub(crate) fn rotation_steps(rope: &Rope) -> Vec<[u32; 2]> {
    let fixed = |&frequency: &f32| {
        let bits = ((f64::from(frequency) / TAU).rem_euclid(1.0) * 2f64.powi(64)) as u64;
        [(bits >> 32) as u32, bits as u32]
    };
    let axes = rope.axes.iter().map(|&axis| [u32::from(axis), 0]);
    rope.frequencies.iter().map(fixed).chain(axes).collect()
}

/// The properties of a layer's KV caches that kernels depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caches {
    /// KV heads.
    pub(crate) kv_heads: usize,
    /// The types of their elements.
    pub(crate) kv: KvType,
    /// Entries of a slot's page table.
    pub(crate) table: usize,
}

/// Elements of a unit, the part of a head that a thread reads. 4 if `head_dim` is a multiple of 4,
/// else 2, or 1 if it is odd.
pub(crate) fn unit(head_dim: usize) -> usize {
    1 << head_dim.trailing_zeros().min(2)
}

impl Caches {
    /// The parameters of `cache.wgsl`, for keys of `key_dim` elements and values of `value_dim`,
    /// which may be a prefix of the keys.
    pub(crate) fn parameters(&self, key_dim: usize, value_dim: usize, prefix: bool) -> Value {
        let unit = unit(key_dim).min(unit(value_dim));
        let (units, value_units) = (key_dim / unit, value_dim / unit);
        let of_values = if prefix { self.kv.keys } else { self.kv.values };
        let value_stride = if prefix { units } else { value_units };
        let levels = IQ4_NL_LEVELS.as_chunks::<4>().0;
        let words = levels.iter().map(|four| u32::from_le_bytes(four.map(i8::cast_unsigned)));
        context! {
            unit, units, value_units, value_stride,
            key_side => side(self.kv.keys, ["key", "StoredKey", "KeyCell"], units),
            value_side => side(of_values, ["value", "StoredValue", "ValueCell"], value_stride),
            levels => words.map(|word| format!("{word:#x}u")).collect::<Vec<_>>(),
            level_list => IQ4_NL_LEVELS,
            reads => false,
            direct => false,
            page => PAGE,
            kv_heads => self.kv_heads,
            table => self.table,
        }
    }
}

/// The parameters of `cache.wgsl` for keys or values: the name, the names of the types of a unit
/// and of a word, and the units of a position, with blocks of 8 units.
fn side(kv: KvElement, [of, stored, cell]: [&str; 3], stride: usize) -> Value {
    let block = kv.block();
    let blocks = stride.div_ceil(8);
    let codes = match block {
        Some(block) if block.bits == 8 => stride,
        _ => stride / 2,
    };
    let fifth = block.map_or(0, |block| if block.bits == 5 { blocks } else { 0 });
    context! {
        of, stored, cell, stride,
        kv => kv.to_string(),
        bits => block.map_or(0, |block| block.bits),
        offset => block.map_or(0, |block| block.offset),
        has_min => block.is_some_and(|block| block.has_min),
        uneven => block.is_some_and(|block| block.uneven),
        fifth_at => codes,
        factors_at => codes + fifth,
        words => stored_bytes(kv, 4 * stride) / 4,
    }
}

/// Bytes of a key or a value of `dim` elements in a cache. In blocks all parts have whole words.
pub(crate) const fn stored_bytes(kv: KvElement, dim: usize) -> usize {
    match kv.block() {
        // two scales have a word
        Some(block) if !block.has_min && dim.div_ceil(32) % 2 == 1 => kv.bytes(dim) + 2,
        _ => kv.bytes(dim),
    }
}

/// The store of keys and values of different lengths, or of keys alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Store {
    /// Elements of a key; even unless the caches are in f32.
    pub(crate) key_dim: usize,
    /// Elements of a value; even unless the caches are in f32.
    pub(crate) value_dim: usize,
    /// Whether the values are a prefix of the keys, which are then stored alone.
    pub(crate) prefix: bool,
    /// The layer's caches.
    pub(crate) caches: Caches,
}

impl Store {
    /// Workgroups for a row.
    pub(crate) fn groups(&self) -> u32 {
        let values = if self.prefix { 0 } else { self.value_dim };
        let unit = unit(self.key_dim).min(unit(self.value_dim));
        (self.caches.kv_heads * self.key_dim.max(values) / unit).div_ceil(64) as u32
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<KernelSource, Error> {
        let parameters = self.caches.parameters(self.key_dim, self.value_dim, self.prefix);
        template::render("store.wgsl", context! { values => !self.prefix, ..parameters })
    }
}

/// Norms and rotation of heads in place, and their store: the op `RopeStore`. It is also the op
/// `HeadNorm` (only `q_norm`), `Rope` (only `rope`) or `Store` (no heads, no preparation).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RopeStore {
    /// Query heads in a row.
    pub(crate) heads: usize,
    /// Elements of a head; even where heads are stored in f16.
    pub(crate) head_dim: usize,
    /// Norms and rotation before the store.
    pub(crate) prepare: HeadPrep,
    /// The caches of keys and values, if they are stored.
    pub(crate) store: Option<Caches>,
}

/// Heads of a workgroup.
const STAGED: usize = 8;
/// Threads of a workgroup.
const THREADS: usize = 256;

impl RopeStore {
    /// Workgroups for `rows` rows.
    pub(crate) fn groups(&self, rows: usize) -> [u32; 3] {
        let all = self.heads + 2 * self.store.map_or(0, |caches| caches.kv_heads);
        [all.div_ceil(STAGED) as u32, rows as u32, 1]
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<KernelSource, Error> {
        self.phase(THREADS)
    }

    /// The WGSL of the same kernel in workgroups of `threads` threads.
    pub(crate) fn phase(&self, threads: usize) -> Result<KernelSource, Error> {
        let none = Caches { kv_heads: 0, kv: KvType::F32, table: 0 };
        template::render(
            "rope_store.wgsl",
            context! {
                heads => self.heads,
                staged => STAGED,
                threads,
                ..context! {
                    ..self.prepare.parameters(),
                    ..self.store.unwrap_or(none).parameters(self.head_dim, self.head_dim, false)
                }
            },
        )
    }
}

/// Combinations of norms and rotations, for the test that all kernels translate.
#[cfg(test)]
pub(crate) fn preparations(head_dim: usize) -> Vec<HeadPrep> {
    let norms = [(None, None), (Some(1e-5), Some(1e-6)), (None, Some(1e-5))];
    let styles = [RopeStyle::Halves, RopeStyle::Interleaved];
    let rotation = |style, by| {
        Some(Rotation { style, pairs: (head_dim / 8).max(1) * 2, factor: 1f32.to_bits(), by })
    };
    let rotations = styles.map(|style| rotation(style, Coordinates::Position));
    let ropes = [None, rotations[0], rotations[1]];
    let with = |(q_norm, k_norm)| ropes.map(|rope| HeadPrep { q_norm, k_norm, rope });
    let mut all: Vec<HeadPrep> = norms.into_iter().flat_map(with).collect();
    let of_places = [
        rotation(RopeStyle::HalvesOfHalves, Coordinates::First),
        rotation(RopeStyle::Halves, Coordinates::Axes),
    ];
    all.extend(of_places.map(|rope| HeadPrep { q_norm: None, k_norm: Some(1e-5), rope }));
    all
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    let mut all = Vec::new();
    for (head_dim, heads) in [(6, 3), (128, 16), (96, 3), (33, 2)] {
        let stored = |kv| Some(Caches { kv_heads: 2, kv, table: 8 });
        use KvElement::{F16, F32, Q8_0};
        let whole = |kv: &KvElement| head_dim % kv.dtype().block_len() == 0;
        let tried = |kv: &KvElement| head_dim == 96 || [F16, F32, Q8_0].contains(kv);
        let types = KvElement::ALL.into_iter().filter(whole).filter(tried).map(KvType::both);
        for store in types.map(stored).chain([None]) {
            for prepare in preparations(head_dim) {
                let step = RopeStore { heads, head_dim, prepare, store };
                all.push((format!("{step:?}"), step.source().unwrap()));
            }
            if store.is_some() {
                let caches = Caches { kv_heads: 2, kv: KvType::F16, table: 8 };
                for (value_dim, prefix) in [(10, false), (4, true)] {
                    let step = Store { key_dim: head_dim, value_dim, prefix, caches };
                    all.push((format!("{step:?}"), step.source().unwrap()));
                }
                if let Some(caches) = store.filter(|caches| caches.kv.keys.block().is_some()) {
                    for (value_dim, prefix) in [(64, false), (64, true)] {
                        let step = Store { key_dim: head_dim, value_dim, prefix, caches };
                        all.push((format!("{step:?}"), step.source().unwrap()));
                    }
                }
                let alone = RopeStore { heads: 0, head_dim, prepare: HeadPrep::default(), store };
                all.push((format!("{alone:?}"), alone.source().unwrap()));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kernels::cached::{assert_block, blocks},
        testing::{compiled, device, normals},
    };

    /// The ops `HeadNorm` and `Rope`, at positions where a sine of an f32 angle has no exact digit.
    fn compare(heads: usize, head_dim: usize, prepare: HeadPrep) {
        let Some(device) = device() else { return };
        let positions = [0u32, 1, 77, 4095, 100_000, 131_071, 10_000_000];
        let rows: Vec<[u32; 4]> = positions.iter().map(|&p| [3, p, 0, 0]).collect();
        let x = normals(1, positions.len() * heads * head_dim);
        let weight = normals(2, head_dim);
        let rope = prepare.rope.map(|rotation| {
            // from one radian a position to less than any model has
            let frequency = |i| 1e7f32.powf(-(i as f32) / rotation.pairs as f32);
            let frequencies = (0..rotation.pairs).map(frequency).collect();
            let factor = f32::from_bits(rotation.factor);
            Rope { style: rotation.style, frequencies, axes: Vec::new(), factor, scaling: "" }
        });
        let step = RopeStore { heads, head_dim, prepare, store: None };
        let (rows, x_buffer) = (device.with(&rows), device.with(&x));
        let mut buffers = vec![&rows, &x_buffer];
        let steps = rope.as_ref().map(|rope| device.with(&rotation_steps(rope)));
        let weight_buffer = prepare.q_norm.map(|_| device.with(&weight));
        buffers.extend(&steps);
        buffers.extend(&weight_buffer);
        device.run(
            &compiled(&device, &step.source().unwrap()),
            &buffers,
            step.groups(positions.len()),
        );
        let got: Vec<f32> = device.content(&x_buffer);
        let per_row = heads * head_dim;
        for (i, (got, x)) in got.chunks(head_dim).zip(x.chunks(head_dim)).enumerate() {
            let mut expected: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
            if let Some(eps) = prepare.q_norm {
                let mean = expected.iter().map(|v| v * v).sum::<f64>() / head_dim as f64;
                let factor = 1.0 / (mean + f64::from(eps)).sqrt();
                expected.iter_mut().zip(&weight).for_each(|(v, w)| *v *= factor * f64::from(*w));
            }
            let position = f64::from(positions[i * head_dim / per_row]);
            for (i, frequency) in rope.iter().flat_map(|r| r.frequencies.iter().enumerate()) {
                let (sin, cos) = (position * f64::from(*frequency)).sin_cos();
                let rope = rope.as_ref().unwrap();
                let (a, b) = rope.pair(i);
                let factor = f64::from(rope.factor);
                let (x, y) = (expected[a] * factor, expected[b] * factor);
                (expected[a], expected[b]) = (x * cos - y * sin, x * sin + y * cos);
            }
            for (got, expected) in got.iter().zip(&expected) {
                let difference = (f64::from(*got) - expected).abs();
                assert!(
                    difference < 1e-6 * expected.abs().max(1.0),
                    "{step:?}, {position}: {got} for {expected}"
                );
            }
        }
    }

    #[test]
    fn rotations_at_far_positions() {
        for style in [RopeStyle::Halves, RopeStyle::Interleaved] {
            for (heads, head_dim, pairs) in [(3, 6, 3), (1, 24, 5), (9, 128, 64), (11, 80, 16)] {
                let by = Coordinates::Position;
                let rope = Some(Rotation { style, pairs, factor: 1.25f32.to_bits(), by });
                compare(heads, head_dim, HeadPrep { rope, ..HeadPrep::default() });
            }
        }
    }

    #[test]
    fn norms_alone() {
        for (heads, head_dim) in [(1, 6), (9, 64), (16, 112), (3, 256)] {
            compare(heads, head_dim, HeadPrep { q_norm: Some(1e-5), ..HeadPrep::default() });
        }
    }

    /// The op `Store`: keys and values unchanged, and no other element of the caches written.
    #[test]
    fn a_store_alone() {
        let Some(device) = device() else { return };
        let (kv_heads, head_dim) = (3, 10);
        for kv in [KvElement::F16, KvElement::F32, KvElement::Bf16].map(KvType::both) {
            let store = Some(Caches { kv_heads, kv, table: 2 });
            let step = RopeStore { heads: 0, head_dim, prepare: HeadPrep::default(), store };
            let rows = [[1u32, 65, 1, 0], [1, 66, 1, 0], [1, 3, 0, 0]];
            let pages = [3u32, 1, 0, 2];
            let (k, v) = (normals(1, 3 * kv_heads * head_dim), normals(2, 3 * kv_heads * head_dim));
            let len = 4 * kv_heads * PAGE * head_dim;
            let empty = vec![0xffu8; kv.keys.bytes(len)];
            let (keys, values) = (device.with(&empty), device.with(&empty));
            let (k_buffer, v_buffer) = (device.with(&k), device.with(&v));
            let (row_buffer, tables) = (device.with(&rows), device.with(&pages));
            let buffers = [&row_buffer, &k_buffer, &v_buffer, &tables, &keys, &values];
            device.run(&compiled(&device, &step.source().unwrap()), &buffers, step.groups(3));
            for (cache, x) in [(keys, k), (values, v)] {
                let mut expected = empty.clone();
                for (i, x) in x.into_iter().enumerate() {
                    let (head, d) = (i / head_dim, i % head_dim);
                    let [_, position, sequence, _] = rows[head / kv_heads].map(|n| n as usize);
                    let page = pages[sequence * 2 + position / PAGE] as usize;
                    let slot = (page * kv_heads + head % kv_heads) * PAGE + position % PAGE;
                    let at = kv.keys.bytes(slot * head_dim + d);
                    let mut bytes = Vec::new();
                    pelton_quant::encode(kv.keys.dtype(), &[x], &mut bytes).unwrap();
                    expected[at..][..bytes.len()].copy_from_slice(&bytes);
                }
                assert!(device.content::<u8>(&cache) == expected, "{kv:?}");
            }
        }
    }

    /// Blocks that are hard to round: ties, no numbers, magnitudes at and beyond the ends of f16.
    fn hard(seed: u64, n: usize) -> Vec<f32> {
        let mut x = normals(seed, n);
        for (b, block) in x.chunks_mut(32).enumerate() {
            match b % 8 {
                0 => block.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32 - 15.5),
                1 => block.fill(0.0),
                2 => block.iter_mut().for_each(|x| *x *= 1e-6),
                3 => block.iter_mut().for_each(|x| *x *= 1e-9),
                4 => block.iter_mut().for_each(|x| *x *= 3e6),
                5 => block[7] = f32::INFINITY,
                6 => block[9] = f32::NAN,
                _ => {}
            }
            if b % 8 == 0 {
                block[3] = 127.0;
            }
        }
        x
    }

    /// Compares what a store left in a cache `[pages, heads, PAGE]` with the definition.
    fn compare_blocks(
        kv: KvElement,
        cache: &[u8],
        x: &[f32],
        (dim, heads): (usize, usize),
        slots: [usize; 3],
    ) {
        let bytes = stored_bytes(kv, dim);
        for (i, x) in x.chunks(dim).enumerate() {
            let (page, slot) = (slots[i / heads] / PAGE, slots[i / heads] % PAGE);
            let at = ((page * heads + i % heads) * PAGE + slot) * bytes;
            let blocks = blocks(kv, &cache[at..at + bytes], dim);
            for (b, (block, x)) in blocks.into_iter().zip(x.chunks(32)).enumerate() {
                assert_block(kv, block, x, &format!("{dim}, head {i}, block {b}"));
            }
        }
        let written = cache.chunks(bytes).filter(|c| c.iter().any(|&byte| byte != 0xaa)).count();
        assert_eq!(written, 3 * heads, "other positions are unchanged");
    }

    /// The op `Store` in block types, by both of its kernels.
    #[test]
    fn stores_in_blocks() {
        let Some(device) = device() else { return };
        let rows = device.with(&[[1u32, 65, 1, 0], [1, 66, 1, 0], [1, 3, 0, 0]]);
        let tables = device.with(&[3u32, 1, 0, 2]);
        // positions in the cache by the tables
        let slots = [2 * PAGE + 1, 2 * PAGE + 2, 3 * PAGE + 3];
        let shapes = [(3, 64, 64), (2, 96, 96), (1, 32, 32), (2, 96, 64)];
        let types = KvElement::ALL.into_iter().filter(|kv| kv.block().is_some());
        let types: Vec<KvElement> = types.collect();
        // keys and values have different types
        let pairs = types.iter().zip(types.iter().cycle().skip(1));
        for ((&of_keys, &of_values), (kv_heads, key_dim, value_dim)) in
            pairs.flat_map(|pair| shapes.map(|shape| (pair, shape)))
        {
            let kv = KvType { keys: of_keys, values: of_values };
            let caches = Caches { kv_heads, kv, table: 2 };
            let (k, v) = (hard(1, 3 * kv_heads * key_dim), hard(2, 3 * kv_heads * value_dim));
            let [keys, values] = [(of_keys, key_dim), (of_values, value_dim)].map(|(kv, dim)| {
                device.with(&vec![0xaau8; 4 * kv_heads * PAGE * stored_bytes(kv, dim)])
            });
            let (k_buffer, v_buffer) = (device.with(&k), device.with(&v));
            if key_dim == value_dim {
                let prepare = HeadPrep::default();
                let step = RopeStore { heads: 0, head_dim: key_dim, prepare, store: Some(caches) };
                let kernel = compiled(&device, &step.source().unwrap());
                let buffers = [&rows, &k_buffer, &v_buffer, &tables, &keys, &values];
                device.run(&kernel, &buffers, step.groups(3));
            } else {
                let step = Store { key_dim, value_dim, prefix: false, caches };
                let kernel = compiled(&device, &step.source().unwrap());
                let buffers = [&rows, &tables, &k_buffer, &keys, &v_buffer, &values];
                device.run(&kernel, &buffers, [step.groups(), 3, 1]);
            }
            let content = |buffer| device.content::<u8>(buffer);
            compare_blocks(of_keys, &content(&keys), &k, (key_dim, kv_heads), slots);
            compare_blocks(of_values, &content(&values), &v, (value_dim, kv_heads), slots);
        }
    }
}
