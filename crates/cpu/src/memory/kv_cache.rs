//! The KV cache of one layer: keys and values `[pages, heads]`, each head in one stretch of memory.
//!
//! A page holds [`PAGE`] positions of every head. Keys are `[key_dim, PAGE]`, with positions
//! innermost: products of a query with sixteen neighbouring positions fill a vector register
//! without a horizontal sum. Values are `[PAGE, value_dim]`: the weighted sum of a position's
//! elements fills a register in the same manner.
//!
//! Block types are in [`kv_blocks`]. Heads that are not made of whole blocks are
//! refused at load. On the built-in model, Q8_0 moves
//! logits (of a standard deviation of 2.5) by 0.034 in the root mean square, f16 by 0.001, and
//! activations in 8 bits by 0.064. Decode of Llama-3.2-1B Q4_0 at depth 4,096 is 3 to 7 % faster
//! with Q8_0 (28.8 to 29.9 tokens/s for 27.1 to 28.1).

use half::{bf16, f16, slice::HalfFloatSliceExt};
use memmap2::MmapMut;
use pelton_graph::{Cache, Error, KvElement, KvType, PAGE, Values};

use super::kv_blocks::{self, BLOCK, Blocks, code_bytes};
use crate::pool::SharedMut;

/// The keys `[key_dim, PAGE]` or the values `[PAGE, value_dim]` of one head in one page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stored<'a> {
    F16(&'a [f16]),
    F32(&'a [f32]),
    Bf16(&'a [bf16]),
    Blocks(Blocks<'a>),
}

impl Stored<'_> {
    /// The bytes of the elements or codes, for prefetches.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::F16(elements) => bytemuck::cast_slice(elements),
            Self::F32(elements) => bytemuck::cast_slice(elements),
            Self::Bf16(elements) => bytemuck::cast_slice(elements),
            Self::Blocks(blocks) => blocks.codes,
        }
    }

    /// Element `d` of the position `offset` of the page. `place` is the index of an element, or of
    /// a code, of the position.
    fn get(self, d: usize, offset: usize, place: impl Fn(usize) -> usize) -> f32 {
        match self {
            Self::F16(elements) => elements[place(d)].to_f32(),
            Self::F32(elements) => elements[place(d)],
            Self::Bf16(elements) => elements[place(d)].to_f32(),
            Self::Blocks(blocks) => blocks.get(d, offset, place),
        }
    }
}

/// Elements, or bytes of codes, of `dim` elements of one position.
const fn codes_of(kv: KvElement, dim: usize) -> usize {
    match kv.block() {
        None => dim,
        Some(block) => dim / BLOCK * code_bytes(block),
    }
}

/// The layout of a layer's memory `[pages, heads]`: keys, then the values that are stored.
#[derive(Clone, Copy, Debug)]
struct Layout {
    shape: Cache,
    kv: KvType,
}

impl Layout {
    /// Bytes of the keys of one head in one page.
    const fn key_bytes(self) -> usize {
        self.kv.keys.bytes(self.shape.key_dim * PAGE)
    }

    /// Bytes of the values of one head in one page; 0 if they are part of the keys.
    const fn value_bytes(self) -> usize {
        match self.shape.values {
            Values::Own { dim } => self.kv.values.bytes(dim * PAGE),
            Values::KeyPrefix { dim: _ } => 0,
        }
    }

    /// Bytes of one page, keys and values of all heads.
    const fn page_bytes(self) -> usize {
        self.shape.heads * (self.key_bytes() + self.value_bytes())
    }

    /// The offset of the keys of a head; its values follow.
    fn start(self, page: u32, head: usize) -> usize {
        (page as usize * self.shape.heads + head) * (self.key_bytes() + self.value_bytes())
    }
}

/// The KV cache of one layer.
#[derive(Debug)]
pub(crate) struct KvCache {
    layout: Layout,
    data: MmapMut,
}

/// A writer to the KV cache of one layer, used by several threads.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    layout: Layout,
    data: SharedMut<'a, u8>,
}

impl KvCache {
    /// Bytes of a cache of `pages` pages.
    pub(crate) fn bytes(shape: Cache, kv: KvType, pages: usize) -> u128 {
        (pages as u128).saturating_mul(Layout { shape, kv }.page_bytes() as u128)
    }

    /// A cache of `pages` zeroed pages. The system maps its memory at the first write.
    ///
    /// # Errors
    /// If heads are no whole blocks of the type, or if the system refuses the memory.
    pub(crate) fn new(shape: Cache, kv: KvType, pages: usize) -> Result<Self, Error> {
        let layout = Layout { shape, kv };
        shape.check(kv)?;
        let needed = Self::bytes(shape, kv, pages);
        let refused = || Error::Memory { what: "the KV cache", needed, available: None };
        let len = usize::try_from(needed).map_err(|_| refused())?;
        let data = MmapMut::map_anon(len.max(1)).map_err(|_| refused())?;
        // saves 2 to 4 % of the time of attention at depth; a system without huge pages refuses
        #[cfg(target_os = "linux")]
        let _ = data.advise(memmap2::Advice::HugePage);
        Ok(Self { layout, data })
    }

    pub(crate) fn shape(&self) -> Cache {
        self.layout.shape
    }

    /// Elements of the values that are stored; 0 if they are part of the keys.
    pub(crate) fn stored_value_dim(&self) -> usize {
        match self.shape().values {
            Values::Own { dim } => dim,
            Values::KeyPrefix { dim: _ } => 0,
        }
    }

    /// The keys or values of `dim` elements in the `len` bytes from `start` on.
    fn stored(&self, kv: KvElement, start: usize, len: usize, dim: usize) -> Stored<'_> {
        let bytes = &self.data[start..start + len];
        match (kv, kv.block()) {
            (_, Some(block)) => Stored::Blocks(Blocks::new(block, bytes, dim)),
            (KvElement::F32, _) => Stored::F32(bytemuck::cast_slice(bytes)),
            (KvElement::Bf16, _) => Stored::Bf16(bytemuck::cast_slice(bytes)),
            _ => Stored::F16(bytemuck::cast_slice(bytes)),
        }
    }

    /// Copies a page, keys and values of all heads.
    pub(crate) fn copy_page(&mut self, from: u32, to: u32) {
        let len = self.layout.page_bytes();
        let start = from as usize * len;
        self.data.copy_within(start..start + len, to as usize * len);
    }

    /// The keys `[key_dim, PAGE]` of a head in a page.
    pub(crate) fn keys(&self, page: u32, head: usize) -> Stored<'_> {
        let start = self.layout.start(page, head);
        self.stored(self.layout.kv.keys, start, self.layout.key_bytes(), self.shape().key_dim)
    }

    /// The values `[PAGE, value_dim]` of a head in a page; empty if they are part of the keys.
    pub(crate) fn values(&self, page: u32, head: usize) -> Stored<'_> {
        let start = self.layout.start(page, head) + self.layout.key_bytes();
        let kv = self.layout.kv.values;
        self.stored(kv, start, self.layout.value_bytes(), self.stored_value_dim())
    }

    /// Element `d` of the key of one position.
    pub(crate) fn key(&self, table: &[u32], position: usize, head: usize, d: usize) -> f32 {
        let (page, offset) = (table[position / PAGE], position % PAGE);
        self.keys(page, head).get(d, offset, |i| i * PAGE + offset)
    }

    /// Element `d` of the value of one position.
    pub(crate) fn value(&self, table: &[u32], position: usize, head: usize, d: usize) -> f32 {
        let (page, offset) = (table[position / PAGE], position % PAGE);
        match self.shape().values {
            Values::Own { dim } => {
                let len = codes_of(self.layout.kv.values, dim);
                self.values(page, head).get(d, offset, |i| offset * len + i)
            }
            Values::KeyPrefix { dim: _ } => self.key(table, position, head, d),
        }
    }

    /// Writes the key `[heads, key_dim]` and the value `[heads, value_dim]` of one position. The
    /// value is empty if it is part of the key.
    pub(crate) fn store(&mut self, table: &[u32], position: usize, key: &[f32], value: &[f32]) {
        let (Cache { heads, key_dim, .. }, dim) = (self.shape(), self.stored_value_dim());
        let writer = self.writer();
        for head in 0..heads {
            let key = &key[head * key_dim..(head + 1) * key_dim];
            let value = &value[head * dim..(head + 1) * dim];
            // SAFETY: no other thread has this writer.
            unsafe { writer.store(table, position, head, key, value) };
        }
    }

    /// A writer for several threads, each of which writes to heads of its own.
    pub(crate) fn writer(&mut self) -> Writer<'_> {
        Writer { layout: self.layout, data: SharedMut::new(&mut self.data) }
    }
}

impl Writer<'_> {
    /// Writes the key `[key_dim]` and the value `[value_dim]` of one position and head. The value
    /// is empty if it is part of the key.
    ///
    /// # Safety
    /// No other thread writes to this head at the same time.
    pub(crate) unsafe fn store(
        &self,
        table: &[u32],
        position: usize,
        head: usize,
        key: &[f32],
        value: &[f32],
    ) {
        let (page, offset) = (table[position / PAGE], position % PAGE);
        let Layout { kv, shape: _ } = self.layout;
        let (start, len) = (self.layout.start(page, head), self.layout.key_bytes());
        let end = start + len + self.layout.value_bytes();
        // SAFETY: the memory of one head, which no other thread writes to by the caller's promise.
        let both = unsafe { self.data.slice_mut(start..end) };
        let (keys, values) = both.split_at_mut(len);
        write(kv.keys, keys, key, offset, |i| i * PAGE + offset);
        let len = codes_of(kv.values, value.len());
        write(kv.values, values, value, offset, |i| offset * len + i);
    }
}

/// Writes the elements `x` of the position `offset` of a page. `place` is the index of an element,
/// or of a code, of the position.
fn write(
    kv: KvElement,
    bytes: &mut [u8],
    x: &[f32],
    offset: usize,
    place: impl Fn(usize) -> usize,
) {
    match (kv, kv.block()) {
        (_, Some(block)) => kv_blocks::write(kv, block, bytes, x, offset, place),
        (KvElement::F32, _) => {
            let elements = bytemuck::cast_slice_mut(bytes);
            for (d, &x) in x.iter().enumerate() {
                elements[place(d)] = x;
            }
        }
        (KvElement::Bf16, _) => {
            let elements = bytemuck::cast_slice_mut(bytes);
            for (d, &x) in x.iter().enumerate() {
                elements[place(d)] = bf16::from_f32(x);
            }
        }
        _ => {
            let elements: &mut [f16] = bytemuck::cast_slice_mut(bytes);
            for (block, x) in x.chunks(BLOCK).enumerate() {
                // in vectors, other than one by one
                let mut halves = [f16::ZERO; BLOCK];
                halves[..x.len()].convert_from_f32_slice(x);
                for (i, &half) in halves[..x.len()].iter().enumerate() {
                    elements[place(block * BLOCK + i)] = half;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_page_has_the_same_keys_and_values() {
        let mixed = KvType { keys: KvElement::Q5_1, values: KvElement::Iq4Nl };
        for kv in KvElement::ALL.map(KvType::both).into_iter().chain([mixed]) {
            let shape = Cache::new(2, 32, 0);
            let mut cache = KvCache::new(shape, kv, 3).unwrap();
            let key: Vec<f32> = (0..64).map(|i| i as f32 - 20.5).collect();
            let value: Vec<f32> = key.iter().map(|x| 2.0 * x).collect();
            cache.store(&[1], 63, &key, &value);
            cache.copy_page(1, 2);
            for (head, d) in (0..2).flat_map(|head| (0..32).map(move |d| (head, d))) {
                let at =
                    |page| (cache.key(&[page], 63, head, d), cache.value(&[page], 63, head, d));
                assert_eq!(at(1), at(2), "{kv}");
                assert!((at(2).0 - key[head * 32 + d]).abs() < 4.0, "{kv}");
                assert_eq!(at(0), (0.0, 0.0), "{kv}");
            }
        }
    }

    /// Keys and values are read back as `pelton-quant` decodes the block of the same elements.
    #[test]
    fn blocks_are_those_of_weights() {
        let mut random = pelton_testing::Random::new(3);
        for kv in KvElement::ALL {
            let shape = Cache { values: Values::Own { dim: 32 }, ..Cache::new(1, 64, 0) };
            let mut cache = KvCache::new(shape, KvType::both(kv), 1).unwrap();
            assert_eq!(KvCache::bytes(shape, KvType::both(kv), 1), (kv.bytes(96) * PAGE) as u128);
            for position in [5, 6, 7] {
                let (key, value) = (random.normals(64, 0.0, 2.0), random.normals(32, 0.5, 1.0));
                cache.store(&[0], position, &key, &value);
                let keys = (0..64).map(|d| cache.key(&[0], position, 0, d));
                let values = (0..32).map(|d| cache.value(&[0], position, 0, d));
                let got: Vec<f32> = keys.chain(values).collect();
                let x = [key, value].concat();
                for (got, x) in got.as_chunks::<32>().0.iter().zip(x.as_chunks::<32>().0) {
                    match kv {
                        // by the scale as it is stored
                        KvElement::Q8_0 => continue,
                        // without a search
                        KvElement::Iq4Nl => {
                            let parts = pelton_quant::Parts::of(kv.dtype(), x).unwrap();
                            let d = f16::from_f32(parts.d).to_f32();
                            let level = |code: u8| {
                                f32::from(pelton_quant::IQ4_NL_LEVELS[usize::from(code)])
                            };
                            assert_eq!(*got, parts.codes.map(|code| d * level(code)));
                        }
                        _ => {
                            let (mut bytes, mut expected) = (Vec::new(), [0.0; 32]);
                            pelton_quant::encode(kv.dtype(), x, &mut bytes).unwrap();
                            pelton_quant::decode(kv.dtype(), &bytes, &mut expected).unwrap();
                            assert_eq!(*got, expected, "{kv}");
                        }
                    }
                }
            }
        }
    }
}
