//! Keys and values in blocks of 32 neighbouring elements of one position of a head.
//!
//! | plane | of keys | of values |
//! |---|---|---|
//! | codes of 8 bits | `[dim, PAGE]` | `[PAGE, dim]` |
//! | codes of 4 bits, bytes of elements `j` and `j + 16` of a block | `[dim / 2, PAGE]` | `[PAGE, dim / 2]` |
//! | words of the fifth bits | `[dim / 32, PAGE]` | the same |
//! | scales in f16, then minima in f16 | `[dim / 32, PAGE]` | the same |
//!
//! A position is written when its row runs, and its rounding must not change the positions before
//! it. So a block is elements of one position in keys too.

use half::f16;
use pelton_graph::{KvBlock, KvElement, PAGE};
use pelton_quant::{IQ4_NL_LEVELS, Parts};

/// Elements of a block.
pub(crate) const BLOCK: usize = KvElement::BLOCK;

/// The keys or the values of one head in one page, in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks<'a> {
    pub(crate) block: KvBlock,
    pub(crate) codes: &'a [u8],
    /// Empty without fifth bits.
    pub(crate) fifth: &'a [u32],
    pub(crate) scales: &'a [f16],
    /// Empty without minima.
    pub(crate) minima: &'a [f16],
}

/// Bytes of the codes of a block.
pub(crate) const fn code_bytes(block: KvBlock) -> usize {
    if block.bits == 8 { BLOCK } else { BLOCK / 2 }
}

/// The bytes of the planes of `count` blocks: codes, fifth bits, scales.
fn planes(block: KvBlock, count: usize) -> [usize; 3] {
    let fifth = if block.bits == 5 { size_of::<u32>() } else { 0 };
    [count * code_bytes(block), count * fifth, count * size_of::<f16>()]
}

impl<'a> Blocks<'a> {
    /// The blocks of `dim` elements of each position.
    pub(crate) fn new(block: KvBlock, bytes: &'a [u8], dim: usize) -> Self {
        let [codes, fifth, scales] = planes(block, dim / BLOCK * PAGE);
        let (codes, bytes) = bytes.split_at(codes);
        let (fifth, bytes) = bytes.split_at(fifth);
        let (scales, minima) = bytes.split_at(scales);
        let [scales, minima] = [scales, minima].map(bytemuck::cast_slice);
        Self { block, codes, fifth: bytemuck::cast_slice(fifth), scales, minima }
    }

    /// Element `d` of the position `offset`. `place` is the index of a code of the position.
    pub(crate) fn get(self, d: usize, offset: usize, place: impl Fn(usize) -> usize) -> f32 {
        let (b, i) = (d / BLOCK, d % BLOCK);
        let at = b * PAGE + offset;
        let code = match self.block.bits {
            8 => self.codes[place(d)].cast_signed(),
            _ => {
                let half = self.codes[place(b * (BLOCK / 2) + i % (BLOCK / 2))];
                let low = half >> (i / (BLOCK / 2) * 4) & 15;
                let fifth = self.fifth.get(at).map_or(0, |word| (word >> i & 1) << 4);
                level(self.block, low | fifth as u8)
            }
        };
        let product = self.scales[at].to_f32() * f32::from(code);
        self.minima.get(at).map_or(product, |minimum| product + minimum.to_f32())
    }
}

/// The level of a code of 4 or 5 bits, which the scale of its block multiplies.
#[inline(always)]
pub(crate) fn level(block: KvBlock, code: u8) -> i8 {
    if !block.uneven {
        return code.cast_signed() - block.offset;
    }
    // a chain of comparisons, which the compiler turns into vectors, other than a lookup
    let mut level = IQ4_NL_LEVELS[0];
    for i in 0..15 {
        let step = IQ4_NL_LEVELS[i + 1].wrapping_sub(IQ4_NL_LEVELS[i]);
        level = level.wrapping_add(if code as usize > i { step } else { 0 });
    }
    level
}

/// Writes the elements `x` of the position `offset`. `place` is the index of a code of the
/// position.
pub(crate) fn write(
    kv: KvElement,
    block: KvBlock,
    bytes: &mut [u8],
    x: &[f32],
    offset: usize,
    place: impl Fn(usize) -> usize,
) {
    let [codes, fifth, scales] = planes(block, x.len() / BLOCK * PAGE);
    let (codes, bytes) = bytes.split_at_mut(codes);
    let (fifth, bytes) = bytes.split_at_mut(fifth);
    let (scales, minima) = bytes.split_at_mut(scales);
    let fifth: &mut [u32] = bytemuck::cast_slice_mut(fifth);
    let [scales, minima]: [&mut [f16]; 2] = [scales, minima].map(bytemuck::cast_slice_mut);
    for (b, x) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
        let at = b * PAGE + offset;
        if block.bits == 8 {
            let (scale, of_block) = eight_bits(x);
            scales[at] = scale;
            for (i, code) in of_block.into_iter().enumerate() {
                codes[place(b * BLOCK + i)] = code.cast_unsigned();
            }
            continue;
        }
        let parts = Some(x).filter(|x| x.iter().all(|x| x.is_finite()));
        let parts = parts.and_then(|x| Parts::of(kv.dtype(), x));
        // a block with an infinity or a NaN has no values
        let Parts { d, m, codes: of_block } =
            parts.unwrap_or(Parts { d: f32::NAN, m: 0.0, codes: [0; BLOCK] });
        scales[at] = f16::from_f32(d);
        if let Some(minimum) = minima.get_mut(at) {
            *minimum = f16::from_f32(m);
        }
        if let Some(word) = fifth.get_mut(at) {
            let bits = of_block.iter().enumerate();
            *word = bits.fold(0, |word, (i, code)| word | u32::from(code >> 4 & 1) << i);
        }
        let (low, high) = of_block.split_at(BLOCK / 2);
        for (j, (low, high)) in low.iter().zip(high).enumerate() {
            codes[place(b * (BLOCK / 2) + j)] = low & 15 | high << 4;
        }
    }
}

/// The scale and the codes of a block of 8 bits, by the scale as it is stored.
fn eight_bits(x: &[f32; BLOCK]) -> (f16, [i8; BLOCK]) {
    // not `f32::max`, which would drop a NaN
    let largest = x
        .iter()
        .map(|x| x.abs())
        .fold(0.0, |largest, x| if x > largest || x.is_nan() { x } else { largest });
    let scale = f16::from_f32(largest / 127.0);
    (scale, x.map(|x| (x / scale.to_f32()).round() as i8))
}
