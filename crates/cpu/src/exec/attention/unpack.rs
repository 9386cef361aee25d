//! Unpacks stored keys and values to f32.

use half::f16;
use pelton_graph::PAGE;

use super::prefetch::Prefetch;
use crate::memory::{BLOCK, Stored};
use crate::simd::{LANES, Simd};

/// An element type that vectors are loaded from.
pub(super) trait Element: Copy {
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V;
    fn to_f32(self) -> f32;
}

impl Element for f32 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V {
        simd.load(from)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
}

impl Element for f16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V {
        simd.load_f16(from)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.to_f32()
    }
}

/// Unpacks the keys `[key_dim, PAGE]` of a head in a page.
#[inline(always)]
pub(super) fn keys<S: Simd>(simd: S, stored: Stored<'_>, to: &mut [f32], prefetch: &mut Prefetch) {
    match stored {
        Stored::F16(elements) => rows(simd, elements, PAGE, to, PAGE, prefetch),
        Stored::F32(elements) => rows(simd, elements, PAGE, to, PAGE, prefetch),
        Stored::Q8_0 { codes, scales } => {
            let blocks = codes.as_chunks::<{ BLOCK * PAGE }>().0.iter();
            let scales = scales.as_chunks::<PAGE>().0;
            let to = to.as_chunks_mut::<{ BLOCK * PAGE }>().0;
            for ((codes, scales), to) in blocks.zip(scales).zip(to) {
                let rows = codes.as_chunks::<PAGE>().0.iter();
                for (codes, to) in rows.zip(to.as_chunks_mut::<PAGE>().0) {
                    prefetch.advance(PAGE);
                    let lanes = codes.as_chunks::<LANES>().0.iter();
                    let lanes = lanes.zip(scales.as_chunks::<LANES>().0);
                    for ((codes, scales), to) in lanes.zip(to.as_chunks_mut::<LANES>().0) {
                        let elements = simd.mul(simd.load_i8(codes), simd.load_f16(scales));
                        simd.store(elements, to);
                    }
                }
            }
        }
    }
}

/// Unpacks the values of a head in a page at the positions `seen`, to `[seen, width]`: rows of
/// `head_dim` elements, padded with zeros.
#[inline(always)]
pub(super) fn values<S: Simd>(
    simd: S,
    stored: Stored<'_>,
    head_dim: usize,
    seen: std::ops::Range<usize>,
    to: &mut [f32],
    width: usize,
    prefetch: &mut Prefetch,
) {
    let places = seen.start * head_dim..seen.end * head_dim;
    match stored {
        Stored::F16(elements) => rows(simd, &elements[places], head_dim, to, width, prefetch),
        Stored::F32(elements) => rows(simd, &elements[places], head_dim, to, width, prefetch),
        Stored::Q8_0 { codes, scales } => {
            let codes = codes[places].chunks_exact(head_dim);
            for ((codes, to), offset) in codes.zip(to.chunks_exact_mut(width)).zip(seen) {
                prefetch.advance(head_dim);
                let blocks = codes.as_chunks::<BLOCK>().0.iter().zip(scales.chunks_exact(PAGE));
                for ((codes, scales), to) in blocks.zip(to.as_chunks_mut::<BLOCK>().0) {
                    let scale = simd.splat(scales[offset].to_f32());
                    let lanes = codes.as_chunks::<LANES>().0.iter();
                    for (codes, to) in lanes.zip(to.as_chunks_mut::<LANES>().0) {
                        simd.store(simd.mul(simd.load_i8(codes), scale), to);
                    }
                }
            }
        }
    }
}

/// Transposes the first `dim` elements of unpacked keys `[_, PAGE]` at the positions `seen` to
/// values `[seen, width]`, padded with zeros.
#[inline(always)]
pub(super) fn prefixes(
    keys: &[f32],
    dim: usize,
    seen: std::ops::Range<usize>,
    to: &mut [f32],
    width: usize,
) {
    for first in (0..width).step_by(LANES) {
        let rows = keys.chunks_exact(PAGE).take(dim).skip(first).take(LANES);
        let count = rows.len();
        for (to, p) in to.chunks_exact_mut(width).zip(seen.clone()) {
            let to = &mut to[first..first + LANES];
            for (to, row) in to.iter_mut().zip(rows.clone()) {
                *to = row[p];
            }
            to[count..].fill(0.0);
        }
    }
}

/// Unpacks rows of `len` elements to rows of `width`, a multiple of the lanes, padded with zeros.
#[inline(always)]
fn rows<S: Simd, E: Element>(
    simd: S,
    from: &[E],
    len: usize,
    to: &mut [f32],
    width: usize,
    prefetch: &mut Prefetch,
) {
    for (from, to) in from.chunks_exact(len).zip(to.chunks_exact_mut(width)) {
        prefetch.advance(size_of_val(from));
        let (whole, rest) = from.as_chunks::<LANES>();
        let (to, _) = to.as_chunks_mut::<LANES>();
        for (from, to) in whole.iter().zip(to.iter_mut()) {
            simd.store(E::load(simd, from), to);
        }
        if let (false, Some(to)) = (rest.is_empty(), to.last_mut()) {
            to.fill(0.0);
            for (from, to) in rest.iter().zip(to) {
                *to = from.to_f32();
            }
        }
    }
}
