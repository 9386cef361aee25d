//! The keys and values of one layer, in pages.
//!
//! A page holds [`PAGE`] positions of every head. Keys lie with positions innermost
//! (`[head_dim][PAGE]`), so that a query's products with sixteen neighbouring positions fill a
//! vector register without a horizontal sum; values lie with elements innermost
//! (`[PAGE][head_dim]`), for the same reason seen from the output's side.

use half::f16;
use pelton_graph::{Cache, Error, PAGE};

/// A type that cached numbers are stored in.
pub(crate) trait Element: bytemuck::Zeroable + Copy + Send + Sync + 'static {
    fn from_f32(value: f32) -> Self;
    fn to_f32(self) -> f32;
}

impl Element for f32 {
    fn from_f32(value: f32) -> Self {
        value
    }
    fn to_f32(self) -> f32 {
        self
    }
}

impl Element for f16 {
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn to_f32(self) -> f32 {
        Self::to_f32(self)
    }
}

/// The pages of one layer.
#[derive(Debug)]
pub(crate) struct KvCache<E> {
    shape: Cache,
    data: Box<[E]>,
}

impl<E: Element> KvCache<E> {
    /// Room for `pages` pages, zeroed; the system hands out the memory when it is first written.
    pub(crate) fn new(shape: Cache, pages: usize) -> Result<Self, Error> {
        let needed = pages as u128 * Self::page_len(shape) as u128 * size_of::<E>() as u128;
        let refused = || Error::Memory { what: "the key and value cache", needed };
        let len = usize::try_from(needed).map_err(|_| refused())? / size_of::<E>();
        let data = bytemuck::allocation::try_zeroed_slice_box(len).map_err(|()| refused())?;
        Ok(Self { shape, data })
    }

    const fn page_len(shape: Cache) -> usize {
        2 * shape.heads * shape.head_dim * PAGE
    }

    pub(crate) fn shape(&self) -> Cache {
        self.shape
    }

    /// Where the keys and the values of a head begin in a page.
    fn starts(&self, page: u32, head: usize) -> (usize, usize) {
        let head_len = self.shape.head_dim * PAGE;
        let keys = page as usize * Self::page_len(self.shape) + 2 * head * head_len;
        (keys, keys + head_len)
    }

    /// A head's keys in a page, `[head_dim][PAGE]`.
    pub(crate) fn keys(&self, page: u32, head: usize) -> &[E] {
        let (keys, values) = self.starts(page, head);
        &self.data[keys..values]
    }

    /// A head's values in a page, `[PAGE][head_dim]`.
    pub(crate) fn values(&self, page: u32, head: usize) -> &[E] {
        let (keys, values) = self.starts(page, head);
        &self.data[values..2 * values - keys]
    }

    /// Writes the key and the value of one position: `heads × head_dim` numbers of each.
    pub(crate) fn store(&mut self, table: &[u32], position: usize, key: &[f32], value: &[f32]) {
        let Cache { heads, head_dim } = self.shape;
        let (page, slot) = (table[position / PAGE], position % PAGE);
        for head in 0..heads {
            let (keys, values) = self.starts(page, head);
            let from = head * head_dim;
            for d in 0..head_dim {
                self.data[keys + d * PAGE + slot] = E::from_f32(key[from + d]);
                self.data[values + slot * head_dim + d] = E::from_f32(value[from + d]);
            }
        }
    }
}

/// The caches of all layers, in one element type.
#[derive(Debug)]
pub(crate) enum Caches {
    F16(Vec<KvCache<f16>>),
    F32(Vec<KvCache<f32>>),
}

/// Runs an expression with `$caches` bound to the vector of caches, whatever its element type.
macro_rules! with_caches {
    ($value:expr, $caches:ident => $body:expr) => {
        match $value {
            $crate::cache::Caches::F16($caches) => $body,
            $crate::cache::Caches::F32($caches) => $body,
        }
    };
}
pub(crate) use with_caches;

impl Caches {
    pub(crate) fn new(
        shapes: &[Cache],
        kv: pelton_graph::KvType,
        pages: usize,
    ) -> Result<Self, Error> {
        fn all<E: Element>(shapes: &[Cache], pages: usize) -> Result<Vec<KvCache<E>>, Error> {
            shapes.iter().map(|&shape| KvCache::new(shape, pages)).collect()
        }
        Ok(match kv {
            pelton_graph::KvType::F16 => Self::F16(all(shapes, pages)?),
            pelton_graph::KvType::F32 => Self::F32(all(shapes, pages)?),
        })
    }
}
