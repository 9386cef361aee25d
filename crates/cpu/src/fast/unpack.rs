//! From keys and values as they are stored to f32.

use half::f16;
use pelton_graph::PAGE;

use super::{ahead::Ahead, attend::LANES};
use crate::{
    cache::{BLOCK, Stored},
    simd::Simd,
};

/// Numbers that vectors are loaded from.
trait Number: Copy {
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V;
    fn to_f32(self) -> f32;
}

impl Number for f32 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V {
        simd.load(from)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
}

impl Number for f16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V {
        simd.load_f16(from)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.to_f32()
    }
}

/// The keys of a head in a page, `[head_dim][PAGE]`.
#[inline(always)]
pub(super) fn keys<S: Simd>(simd: S, stored: Stored<'_>, to: &mut [f32], ahead: &mut Ahead) {
    match stored {
        Stored::F16(numbers) => rows(simd, numbers, PAGE, to, PAGE, ahead),
        Stored::F32(numbers) => rows(simd, numbers, PAGE, to, PAGE, ahead),
        Stored::Q8_0 { codes, scales } => {
            let blocks = codes.as_chunks::<{ BLOCK * PAGE }>().0.iter();
            let scales = scales.as_chunks::<PAGE>().0;
            let to = to.as_chunks_mut::<{ BLOCK * PAGE }>().0;
            for ((codes, scales), to) in blocks.zip(scales).zip(to) {
                let rows = codes.as_chunks::<PAGE>().0.iter();
                for (codes, to) in rows.zip(to.as_chunks_mut::<PAGE>().0) {
                    ahead.fetch(PAGE);
                    let lanes = codes.as_chunks::<LANES>().0.iter();
                    let lanes = lanes.zip(scales.as_chunks::<LANES>().0);
                    for ((codes, scales), to) in lanes.zip(to.as_chunks_mut::<LANES>().0) {
                        let numbers = simd.mul(simd.load_i8(codes), simd.load_f16(scales));
                        simd.store(numbers, to);
                    }
                }
            }
        }
    }
}

/// The values of a head in a page, of the positions `seen`: `[seen][width]`, where a row is
/// `head_dim` numbers and zeros.
#[inline(always)]
pub(super) fn values<S: Simd>(
    simd: S,
    stored: Stored<'_>,
    head_dim: usize,
    seen: std::ops::Range<usize>,
    to: &mut [f32],
    width: usize,
    ahead: &mut Ahead,
) {
    let places = seen.start * head_dim..seen.end * head_dim;
    match stored {
        Stored::F16(numbers) => rows(simd, &numbers[places], head_dim, to, width, ahead),
        Stored::F32(numbers) => rows(simd, &numbers[places], head_dim, to, width, ahead),
        Stored::Q8_0 { codes, scales } => {
            let codes = codes[places].chunks_exact(head_dim);
            for ((codes, to), slot) in codes.zip(to.chunks_exact_mut(width)).zip(seen) {
                ahead.fetch(head_dim);
                let blocks = codes.as_chunks::<BLOCK>().0.iter().zip(scales.chunks_exact(PAGE));
                for ((codes, scales), to) in blocks.zip(to.as_chunks_mut::<BLOCK>().0) {
                    let scale = simd.splat(scales[slot].to_f32());
                    let lanes = codes.as_chunks::<LANES>().0.iter();
                    for (codes, to) in lanes.zip(to.as_chunks_mut::<LANES>().0) {
                        simd.store(simd.mul(simd.load_i8(codes), scale), to);
                    }
                }
            }
        }
    }
}

/// Rows of `len` numbers to rows of `width`, a multiple of the lanes; the rest is zeros.
#[inline(always)]
fn rows<S: Simd, N: Number>(
    simd: S,
    from: &[N],
    len: usize,
    to: &mut [f32],
    width: usize,
    ahead: &mut Ahead,
) {
    for (from, to) in from.chunks_exact(len).zip(to.chunks_exact_mut(width)) {
        ahead.fetch(size_of_val(from));
        let (whole, rest) = from.as_chunks::<LANES>();
        let (to, _) = to.as_chunks_mut::<LANES>();
        for (from, to) in whole.iter().zip(to.iter_mut()) {
            simd.store(N::load(simd, from), to);
        }
        if let (false, Some(to)) = (rest.is_empty(), to.last_mut()) {
            to.fill(0.0);
            for (from, to) in rest.iter().zip(to) {
                *to = from.to_f32();
            }
        }
    }
}
