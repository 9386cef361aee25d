//! Encoders of Q3_K and Q6_K: for each sub-block the scale that explains most of the values'
//! weighted squares among some candidates, then codes for it as it is stored.

use crate::fit::{
    Anchor, Ends, Integers, Scaled, SubBlocks, important, mean_square, nearest, part, squares,
};
use crate::k_quants::{BlockQ3K, BlockQ6K, pack_run};
use crate::scale::{F16Scale, extreme, reciprocal};

/// The candidates of Q6_K: the two ends of many codes differ little.
const OF_6_BITS: Ends = Ends { level: -32.0, opposite: 0.0, step: 0.1, reach: 9 };

const OF_3_BITS: Ends = Ends { level: -4.0, opposite: 3.0, step: 0.1, reach: 9 };

impl BlockQ6K {
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 256], importance: Option<&[f32; 256]>) -> Option<Self> {
        let (parts, _) = values.as_chunks::<16>();
        let weights = std::array::from_fn(|p| match importance {
            None => squares(&parts[p], extreme(&parts[p])),
            Some(importance) => *part(importance, p),
        });
        let sub_blocks = SubBlocks::<_, 16, 16>::new(parts, &weights, Integers { bound: 32.0 });
        let fits = sub_blocks.fits(OF_6_BITS);
        let d = F16Scale::reaching(extreme(&fits) / -128.0)?;
        let unit = d.to_f32();
        let (of_scales, _) = sub_blocks.nearest_codes(&fits, unit, 128.0);
        let mut codes = [0u8; 256];
        for ((values, codes), scale) in
            parts.iter().zip(codes.as_chunks_mut::<16>().0).zip(of_scales)
        {
            let inverse = reciprocal(unit * scale);
            for (code, v) in codes.iter_mut().zip(values) {
                *code = (nearest(v * inverse, -32.0, 31.0) + 32.0) as u8;
            }
        }
        let (mut ql, mut qh) = ([0; 128], [0; 64]);
        for (run, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
            // the middle two of each four runs are swapped relative to Q4_K
            let low = [0, 2, 1, 3, 4, 6, 5, 7][run];
            pack_run(&mut ql, 4, low, &codes.map(|q| q & 15));
            pack_run(&mut qh, 2, run, &codes.map(|q| q >> 4));
        }
        Some(Self { ql, qh, scales: of_scales.map(|scale| scale as i8), d })
    }
}

impl BlockQ3K {
    #[inline(always)]
    pub(crate) fn encode(values: &[f32; 256], importance: Option<&[f32; 256]>) -> Option<Self> {
        let (parts, _) = values.as_chunks::<16>();
        let square = importance.map_or(0.0, |_| 2.0 * mean_square(values));
        let largest = extreme(values);
        let weights: [[f32; 16]; 16] = std::array::from_fn(|p| match importance {
            None => squares(&parts[p], largest),
            Some(importance) => important(&parts[p], part(importance, p), square),
        });
        let sub_blocks = SubBlocks::<_, 16, 16>::new(parts, &weights, Integers { bound: 4.0 });
        let fits = sub_blocks.fits(OF_3_BITS);
        let d = F16Scale::from_f32(scale_of_6_bits(&fits, &weights))?;
        let Scaled { d, codes: of_scales } = sub_blocks.scaled(&fits, d);
        let (mut scales, mut codes) = ([0; 12], [0u8; 256]);
        for (p, (values, codes)) in parts.iter().zip(codes.as_chunks_mut::<16>().0).enumerate() {
            set_scale(&mut scales, p, (of_scales[p] + 32.0) as u8);
            let inverse = reciprocal(d.to_f32() * of_scales[p]);
            for (code, v) in codes.iter_mut().zip(values) {
                *code = (nearest(v * inverse, -4.0, 3.0) + 4.0) as u8;
            }
        }
        let (mut qs, mut hmask) = ([0; 64], [0; 32]);
        for (run, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
            pack_run(&mut qs, 2, run, &codes.map(|q| q & 3));
            pack_run(&mut hmask, 1, run, &codes.map(|q| q >> 2));
        }
        Some(Self { hmask, qs, scales, d })
    }
}

/// The scale of sub-blocks' scales, whose codes have six bits.
#[inline(always)]
pub(crate) fn scale_of_6_bits<const PARTS: usize, const LEN: usize>(
    fits: &[f32; PARTS],
    weights: &[[f32; LEN]; PARTS],
) -> f32 {
    let sums = weights.map(|weights| weights.iter().sum());
    let anchor = Anchor { value: extreme(fits), level: -32.0, opposite: 0.0, step: 0.1, reach: 9 };
    anchor.fit(fits, &sums, |v| nearest(v, -32.0, 31.0))
}

/// Packs a scale with its offset of 32 where [`BlockQ3K::scales`] finds it.
#[inline(always)]
fn set_scale(scales: &mut [u8; 12], index: usize, scale: u8) {
    scales[index % 8] |= (scale & 15) << (4 * (index / 8));
    scales[8 + index % 4] |= (scale >> 4) << (2 * (index / 4));
}
