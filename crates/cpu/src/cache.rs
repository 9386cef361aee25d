//! The keys and values of one layer, in pages.
//!
//! A page holds [`PAGE`] positions of every head. Keys lie with positions innermost
//! (`[head_dim][PAGE]`), so that a query's products with sixteen neighbouring positions fill a
//! vector register without a horizontal sum; values lie with elements innermost
//! (`[PAGE][head_dim]`), for the same reason seen from the output's side.
//!
//! In Q8_0 a block is 32 neighbouring elements of one position, in keys too: a position is written
//! when it comes, and rounding it must not touch those before it. The codes lie as the numbers of
//! the other types do; after them come the scales, in f16 and positions innermost
//! (`[head_dim / 32][PAGE]`), of keys and values alike.

use half::f16;
use memmap2::MmapMut;
use pelton_graph::{Cache, Error, KvType, PAGE};

use crate::pool::SharedMut;

/// Numbers in a block of Q8_0.
pub(crate) const BLOCK: usize = 32;

/// The keys or the values of one head in one page, as they are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stored<'a> {
    F16(&'a [f16]),
    F32(&'a [f32]),
    Q8_0 { codes: &'a [i8], scales: &'a [f16] },
}

impl Stored<'_> {
    /// Where they lie in memory.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::F16(numbers) => bytemuck::cast_slice(numbers),
            Self::F32(numbers) => bytemuck::cast_slice(numbers),
            Self::Q8_0 { codes, .. } => bytemuck::cast_slice(codes),
        }
    }

    /// The number at place `at`, which is element `d` of the position at `slot`.
    fn get(self, at: usize, d: usize, slot: usize) -> f32 {
        match self {
            Self::F16(numbers) => numbers[at].to_f32(),
            Self::F32(numbers) => numbers[at],
            Self::Q8_0 { codes, scales } => {
                scales[d / BLOCK * PAGE + slot].to_f32() * f32::from(codes[at])
            }
        }
    }
}

/// Where in the memory of a layer its numbers are.
#[derive(Clone, Copy, Debug)]
struct Layout {
    shape: Cache,
    kv: KvType,
}

impl Layout {
    /// Bytes of the keys of one head in one page, or of its values.
    const fn head_bytes(self) -> usize {
        self.kv.bytes(self.shape.head_dim * PAGE)
    }

    /// Where the keys of a head begin; its values follow.
    fn start(self, page: u32, head: usize) -> usize {
        (page as usize * self.shape.heads + head) * 2 * self.head_bytes()
    }
}

/// The pages of one layer.
#[derive(Debug)]
pub(crate) struct KvCache {
    layout: Layout,
    data: MmapMut,
}

/// Writes to the pages of one layer, from several threads.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    layout: Layout,
    data: SharedMut<'a, u8>,
}

impl KvCache {
    /// Room for `pages` pages, zeroed; the system hands out the memory when it is first written.
    pub(crate) fn new(shape: Cache, kv: KvType, pages: usize) -> Result<Self, Error> {
        if kv == KvType::Q8_0 && !shape.head_dim.is_multiple_of(BLOCK) {
            return Err(Error::Kv {
                kv,
                what: format!(
                    "heads of {} numbers are not made of blocks of {BLOCK}, expected f16 or f32",
                    shape.head_dim
                ),
            });
        }
        let layout = Layout { shape, kv };
        let needed = pages as u128 * (2 * shape.heads * layout.head_bytes()) as u128;
        let refused = || Error::Memory { what: "the key and value cache", needed };
        let len = usize::try_from(needed).map_err(|_| refused())?;
        let data = MmapMut::map_anon(len.max(1)).map_err(|_| refused())?;
        // 2 to 4 % of attention's time at depth; a system without them says so, and nothing is lost
        #[cfg(target_os = "linux")]
        let _ = data.advise(memmap2::Advice::HugePage);
        Ok(Self { layout, data })
    }

    pub(crate) fn shape(&self) -> Cache {
        self.layout.shape
    }

    fn stored(&self, start: usize) -> Stored<'_> {
        let bytes = &self.data[start..start + self.layout.head_bytes()];
        match self.layout.kv {
            KvType::F16 => Stored::F16(bytemuck::cast_slice(bytes)),
            KvType::F32 => Stored::F32(bytemuck::cast_slice(bytes)),
            KvType::Q8_0 => {
                let (codes, scales) = bytes.split_at(self.shape().head_dim * PAGE);
                let (codes, scales) = (bytemuck::cast_slice(codes), bytemuck::cast_slice(scales));
                Stored::Q8_0 { codes, scales }
            }
        }
    }

    /// A head's keys in a page.
    pub(crate) fn keys(&self, page: u32, head: usize) -> Stored<'_> {
        self.stored(self.layout.start(page, head))
    }

    /// A head's values in a page.
    pub(crate) fn values(&self, page: u32, head: usize) -> Stored<'_> {
        self.stored(self.layout.start(page, head) + self.layout.head_bytes())
    }

    /// Element `d` of the key of one position.
    pub(crate) fn key(&self, table: &[u32], position: usize, head: usize, d: usize) -> f32 {
        let (page, slot) = (table[position / PAGE], position % PAGE);
        self.keys(page, head).get(d * PAGE + slot, d, slot)
    }

    /// Element `d` of the value of one position.
    pub(crate) fn value(&self, table: &[u32], position: usize, head: usize, d: usize) -> f32 {
        let (page, slot) = (table[position / PAGE], position % PAGE);
        self.values(page, head).get(slot * self.shape().head_dim + d, d, slot)
    }

    /// Writes the key and the value of one position: `heads × head_dim` numbers of each.
    pub(crate) fn store(&mut self, table: &[u32], position: usize, key: &[f32], value: &[f32]) {
        let head_dim = self.shape().head_dim;
        let writer = self.writer();
        let heads = key.chunks_exact(head_dim).zip(value.chunks_exact(head_dim));
        for (head, (key, value)) in heads.enumerate() {
            // SAFETY: no other thread has this writer.
            unsafe { writer.store(table, position, head, key, value) };
        }
    }

    /// What several threads write with, each to heads of its own.
    pub(crate) fn writer(&mut self) -> Writer<'_> {
        Writer { layout: self.layout, data: SharedMut::new(&mut self.data) }
    }
}

impl Writer<'_> {
    /// Writes the key and the value of one position and head: `head_dim` numbers of each.
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
        let (page, slot) = (table[position / PAGE], position % PAGE);
        let Layout { kv, shape: Cache { head_dim, .. } } = self.layout;
        let (start, len) = (self.layout.start(page, head), self.layout.head_bytes());
        // SAFETY: the part of one head, which is this thread's by the caller's promise.
        let both = unsafe { self.data.slice_mut(start..start + 2 * len) };
        let (keys, values) = both.split_at_mut(len);
        write(kv, keys, key, slot, |d| d * PAGE + slot);
        write(kv, values, value, slot, |d| slot * head_dim + d);
    }
}

/// Writes a head's numbers `x` of the position at `slot`, element `d` at `place(d)`.
fn write(kv: KvType, bytes: &mut [u8], x: &[f32], slot: usize, place: impl Fn(usize) -> usize) {
    match kv {
        KvType::F16 => {
            let numbers = bytemuck::cast_slice_mut(bytes);
            for (d, &x) in x.iter().enumerate() {
                numbers[place(d)] = f16::from_f32(x);
            }
        }
        KvType::F32 => {
            let numbers = bytemuck::cast_slice_mut(bytes);
            for (d, &x) in x.iter().enumerate() {
                numbers[place(d)] = x;
            }
        }
        KvType::Q8_0 => {
            let (codes, scales) = bytes.split_at_mut(x.len() * PAGE);
            let scales: &mut [f16] = bytemuck::cast_slice_mut(scales);
            for (b, block) in x.chunks(BLOCK).enumerate() {
                // not `f32::max`, which would drop a NaN
                let largest = block
                    .iter()
                    .map(|x| x.abs())
                    .fold(0.0, |largest, x| if x > largest || x.is_nan() { x } else { largest });
                let scale = f16::from_f32(largest / 127.0);
                scales[b * PAGE + slot] = scale;
                for (i, x) in block.iter().enumerate() {
                    let code = (x / scale.to_f32()).round() as i8;
                    codes[place(b * BLOCK + i)] = code.cast_unsigned();
                }
            }
        }
    }
}

/// The caches of all layers.
pub(crate) fn caches(shapes: &[Cache], kv: KvType, pages: usize) -> Result<Vec<KvCache>, Error> {
    shapes.iter().map(|&shape| KvCache::new(shape, kv, pages)).collect()
}
