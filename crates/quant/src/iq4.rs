//! IQ4_NL and IQ4_XS: four-bit indices into 16 unevenly spaced levels (`block_iq4_nl`,
//! `block_iq4_xs` and `kvalues_iq4nl` of `ggml-common.h`).

use bytemuck::{Pod, Zeroable};

use crate::fit::{
    Anchor, Ends, Levels, Scaled, SubBlocks, important, mean_square, nearest, part, squares,
};
use crate::nibbles;
use crate::parts::Parts;
use crate::scale::{F16Scale, extreme, reciprocal};

/// The values of the 16 codes of IQ4_NL before scaling.
pub const IQ4_NL_LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// A block of IQ4_NL: element `i` is `d * IQ4_NL_LEVELS[codes[i]]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..18 | `qs`: byte `j` has the code of element `j` in its low half, of `j + 16` in its high half |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq4Nl {
    /// The scale.
    pub d: F16Scale,
    /// The packed codes.
    pub qs: [u8; 16],
}

impl BlockIq4Nl {
    /// The codes in element order, 0 to 15.
    #[inline]
    pub fn codes(&self) -> [u8; 32] {
        nibbles::unpack(&self.qs)
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 32]) {
        let d = self.d.to_f32();
        for (x, q) in out.iter_mut().zip(self.codes()) {
            *x = d * f32::from(IQ4_NL_LEVELS[usize::from(q)]);
        }
    }

    /// Encodes with the scale that explains most of the values' weighted squares among some near
    /// that which maps the value of the largest magnitude to the level −127.
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 32], importance: Option<&[f32; 32]>) -> Option<Self> {
        let weights = match importance {
            None => squares(values, extreme(values)),
            Some(importance) => important(values, importance, 2.0 * mean_square(values)),
        };
        let d = F16Scale::from_f32(fitted(values, &weights))?;
        let inverse = reciprocal(d.to_f32());
        Some(Self { d, qs: nibbles::pack(&values.map(|v| nearest_level(v * inverse))) })
    }
}

/// A super-block of IQ4_XS: element `i` is `d * scales()[i / 32] * IQ4_NL_LEVELS[codes[i]]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..4 | `scales_h`: bits `2 * p` and up are the upper two bits of the scale of sub-block `p` |
/// | 4..8 | `scales_l`: the lower four bits of the scales of sub-blocks `2 * j` (low half of byte `j`) and `2 * j + 1` (high half) |
/// | 8..136 | `qs`: 16 bytes for each sub-block, packed as in [`BlockIq4Nl`] |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockIq4Xs {
    /// The super-block scale, which multiplies every sub-block scale.
    pub d: F16Scale,
    /// The upper bits of the scales, a little-endian word.
    pub scales_h: [u8; 2],
    /// The lower bits of the scales.
    pub scales_l: [u8; 4],
    /// The packed codes.
    pub qs: [u8; 128],
}

impl BlockIq4Xs {
    /// The codes in element order, 0 to 15.
    #[inline]
    pub fn codes(&self) -> [u8; 256] {
        let mut codes = [0; 256];
        for (codes, qs) in codes.as_chunks_mut::<32>().0.iter_mut().zip(self.qs.as_chunks().0) {
            *codes = nibbles::unpack(qs);
        }
        codes
    }

    /// The scales of the 8 sub-blocks, −32 to 31.
    #[inline]
    pub fn scales(&self) -> [i8; 8] {
        let high = u16::from_le_bytes(self.scales_h);
        std::array::from_fn(|p| {
            let low = self.scales_l[p / 2] >> (4 * (p % 2)) & 15;
            (low | ((high >> (2 * p) & 3) << 4) as u8) as i8 - 32
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let codes = self.codes();
        let blocks = out.as_chunks_mut::<32>().0.iter_mut().zip(codes.as_chunks::<32>().0);
        for ((out, codes), scale) in blocks.zip(self.scales()) {
            let scale = d * f32::from(scale);
            for (x, &q) in out.iter_mut().zip(codes) {
                *x = scale * f32::from(IQ4_NL_LEVELS[usize::from(q)]);
            }
        }
    }

    /// Encodes with scales that are searched as for [`BlockIq4Nl`], and then among those near the
    /// rounded ones.
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 256], importance: Option<&[f32; 256]>) -> Option<Self> {
        let (blocks, _) = values.as_chunks::<32>();
        let largest = extreme(values);
        let square = importance.map_or(0.0, |_| 2.0 * mean_square(values));
        let weights: [[f32; 32]; 8] = std::array::from_fn(|p| match importance {
            None => squares(&blocks[p], largest),
            Some(importance) => important(&blocks[p], part(importance, p), square),
        });
        let sub_blocks = SubBlocks::<_, 8, 32>::new(blocks, &weights, Uneven);
        let fits = sub_blocks.fits(ENDS);
        let sums = weights.map(|weights| weights.iter().sum());
        let anchor =
            Anchor { value: extreme(&fits), level: -32.0, opposite: 31.0, step: 0.1, reach: 9 };
        let d = F16Scale::from_f32(anchor.fit(&fits, &sums, |v| nearest(v, -32.0, 31.0)))?;
        let Scaled { d, codes } = sub_blocks.scaled(&fits, d);
        let mut block = Self { d, scales_h: [0; 2], scales_l: [0; 4], qs: [0; 128] };
        let mut high = 0;
        for (p, (values, to)) in blocks.iter().zip(block.qs.as_chunks_mut().0).enumerate() {
            let stored = (codes[p] as i8 + 32) as u8;
            block.scales_l[p / 2] |= (stored & 15) << (4 * (p % 2));
            high |= u16::from(stored >> 4) << (2 * p);
            let inverse = reciprocal(d.to_f32() * codes[p]);
            *to = nibbles::pack(&values.map(|v| nearest_level(v * inverse)));
        }
        block.scales_h = high.to_le_bytes();
        Some(block)
    }
}

/// The candidates of scales.
const ENDS: Ends = Ends { level: -127.0, opposite: 113.0, step: 1.0, reach: 7 };

/// The parts of a block of IQ4_NL without a search. The codes are by the scale that maps the value
/// of the largest magnitude to the level −127. The scale is that of the least squares of these
/// codes, weighted by the squares of the values.
#[inline(always)]
pub(crate) fn plain(values: &[f32; 32]) -> Parts {
    let largest = extreme(values);
    let inverse = match largest.abs() < LEAST {
        true => return Parts { d: 0.0, m: 0.0, codes: [nearest_level(0.0); 32] },
        false => 1.0 / (largest / f32::from(IQ4_NL_LEVELS[0])),
    };
    // the upper one of two levels as near, other than where scales are searched
    let codes =
        values.map(|v| MIDDLES.iter().map(|&middle| u8::from(v * inverse >= middle)).sum::<u8>());
    let (mut products, mut squares) = (0.0, 0.0);
    for (&v, &code) in values.iter().zip(&codes) {
        let level = f32::from(IQ4_NL_LEVELS[usize::from(code)]);
        products += v * v * level * v;
        squares += v * v * level * level;
    }
    Parts { d: products / squares, m: 0.0, codes }
}

/// The magnitude below which all values of a block are 0.
const LEAST: f32 = 1e-15;

/// The scale of a block of levels.
#[inline(always)]
fn fitted(values: &[f32; 32], weights: &[f32; 32]) -> f32 {
    let Ends { level: end, opposite, step, reach } = ENDS;
    let anchor = Anchor { value: extreme(values), level: end, opposite, step, reach };
    anchor.fit(values, weights, level)
}

/// [`IQ4_NL_LEVELS`], which are not symmetric.
#[derive(Clone, Copy)]
struct Uneven;

impl Levels for Uneven {
    #[inline(always)]
    fn folded(self, value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn unfolded(self, folded: f32, _: f32) -> f32 {
        folded
    }

    #[inline(always)]
    fn limit(self, _: f32) -> f32 {
        0.0
    }

    #[inline(always)]
    fn of(self, scaled: f32, _: f32) -> f32 {
        level(scaled)
    }
}

/// The middles between neighbouring levels.
const MIDDLES: [f32; 15] = {
    let (mut middles, mut i) = ([0.0; 15], 0);
    while i < 15 {
        middles[i] = 0.5 * (IQ4_NL_LEVELS[i] as f32 + IQ4_NL_LEVELS[i + 1] as f32);
        i += 1;
    }
    middles
};

/// The level nearest to `x`, the lower one of two as near.
#[inline(always)]
fn level(x: f32) -> f32 {
    let mut level = f32::from(IQ4_NL_LEVELS[0]);
    for i in 0..15 {
        // the steps between levels are small integers, so that the sum is exact
        let step = (IQ4_NL_LEVELS[i + 1] as i16 - IQ4_NL_LEVELS[i] as i16) as f32;
        level += if x > MIDDLES[i] { step } else { 0.0 };
    }
    level
}

/// The code of the level nearest to `x`, the lower one of two as near.
#[inline(always)]
fn nearest_level(x: f32) -> u8 {
    MIDDLES.iter().map(|&middle| u8::from(x > middle)).sum()
}
