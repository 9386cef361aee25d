//! Unpacks stored keys and values to f32.

use half::{bf16, f16};
use pelton_graph::{KvBlock, PAGE};

use super::prefetch::Prefetch;
use crate::memory::{BLOCK, Blocks, Stored, code_bytes, level};
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

impl Element for bf16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V {
        simd.load(&from.map(Self::to_f32))
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
        Stored::Bf16(elements) => rows(simd, elements, PAGE, to, PAGE, prefetch),
        Stored::Blocks(blocks) => keys_in_blocks(simd, blocks, to, prefetch),
    }
}

#[inline(always)]
fn keys_in_blocks<S: Simd>(simd: S, blocks: Blocks<'_>, to: &mut [f32], prefetch: &mut Prefetch) {
    let Blocks { block, codes, fifth, scales, minima } = blocks;
    let scales = scales.as_chunks::<PAGE>().0.iter();
    let mut room = [[0; PAGE]; BLOCK];
    let codes = codes.chunks_exact(code_bytes(block) * PAGE);
    let to = to.as_chunks_mut::<{ BLOCK * PAGE }>().0;
    for (b, ((codes, scales), to)) in codes.zip(scales).zip(to).enumerate() {
        let word = |words: &[u32]| words.as_chunks::<PAGE>().0.get(b).copied();
        let minima = minima.as_chunks::<PAGE>().0.get(b);
        let rows: &[[i8; PAGE]] = match block.bits {
            8 => bytemuck::cast_slice(codes),
            _ => {
                expand_keys(block, codes, word(fifth).as_ref(), &mut room);
                &room
            }
        };
        for (codes, to) in rows.iter().zip(to.as_chunks_mut::<PAGE>().0) {
            prefetch.advance(code_bytes(block) * PAGE / BLOCK);
            let lanes = codes.as_chunks::<LANES>().0.iter();
            let lanes = lanes.zip(scales.as_chunks::<LANES>().0);
            for (n, ((codes, scales), to)) in lanes.zip(to.as_chunks_mut::<LANES>().0).enumerate() {
                let mut elements = simd.mul(simd.load_i8(codes), simd.load_f16(scales));
                if let Some(minima) = minima {
                    elements = simd.add(elements, simd.load_f16(&minima.as_chunks::<LANES>().0[n]));
                }
                simd.store(elements, to);
            }
        }
    }
}

/// Unpacks the codes of 4 or 5 bits of a block of keys at all positions of a page.
#[inline(always)]
fn expand_keys(
    block: KvBlock,
    codes: &[u8],
    fifth: Option<&[u32; PAGE]>,
    to: &mut [[i8; PAGE]; BLOCK],
) {
    let (low, high) = to.split_at_mut(BLOCK / 2);
    for (j, codes) in codes.as_chunks::<PAGE>().0.iter().enumerate() {
        for (half, (i, to)) in
            [(j, &mut low[j]), (j + BLOCK / 2, &mut high[j])].into_iter().enumerate()
        {
            for (p, (to, code)) in to.iter_mut().zip(codes).enumerate() {
                let fifth = fifth.map_or(0, |words| ((words[p] >> i & 1) << 4) as u8);
                *to = level(block, code >> (4 * half) & 15 | fifth);
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
        Stored::Bf16(elements) => rows(simd, &elements[places], head_dim, to, width, prefetch),
        Stored::Blocks(blocks) => {
            let Blocks { block, codes, fifth, scales, minima } = blocks;
            let row = head_dim / BLOCK * code_bytes(block);
            let codes = codes[seen.start * row..seen.end * row].chunks_exact(row);
            for ((codes, to), offset) in codes.zip(to.chunks_exact_mut(width)).zip(seen) {
                prefetch.advance(row);
                let codes = codes.chunks_exact(code_bytes(block));
                for (b, (codes, to)) in codes.zip(to.as_chunks_mut::<BLOCK>().0).enumerate() {
                    let at = b * PAGE + offset;
                    let codes = expand_values(block, codes, fifth.get(at).copied());
                    let scale = simd.splat(scales[at].to_f32());
                    let minimum = minima.get(at).map(|minimum| simd.splat(minimum.to_f32()));
                    let lanes = codes.as_chunks::<LANES>().0.iter();
                    for (codes, to) in lanes.zip(to.as_chunks_mut::<LANES>().0) {
                        let product = simd.mul(simd.load_i8(codes), scale);
                        let elements = minimum.map_or(product, |m| simd.add(product, m));
                        simd.store(elements, to);
                    }
                }
            }
        }
    }
}

/// The codes of a block of values, with what is subtracted from them.
#[inline(always)]
fn expand_values(block: KvBlock, codes: &[u8], fifth: Option<u32>) -> [i8; BLOCK] {
    let mut to = [0; BLOCK];
    if block.bits == 8 {
        to.iter_mut().zip(codes).for_each(|(to, code)| *to = code.cast_signed());
        return to;
    }
    let mut low = [0; BLOCK];
    for (j, code) in codes.iter().enumerate().take(BLOCK / 2) {
        (low[j], low[j + BLOCK / 2]) = (code & 15, code >> 4);
    }
    let word = fifth.unwrap_or(0);
    for (i, (to, code)) in to.iter_mut().zip(low).enumerate() {
        *to = level(block, code | ((word >> i & 1) << 4) as u8);
    }
    to
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
