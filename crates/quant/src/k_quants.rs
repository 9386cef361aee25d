//! Q2_K to Q6_K: super-blocks of 256 elements whose sub-blocks have small integer scales
//! (`block_q2_K` to `block_q6_K` of `ggml-common.h`).
//!
//! All five store codes in *runs* of 32 elements. A *group* of 32 bytes interleaves several runs.
//! Byte `l` of a group has the bits of element `l` of each of its runs, the first run in the lowest
//! bits. Codes of `b` bits make a group hold `8 / b` runs.

use bytemuck::{Pod, Zeroable};

use crate::scale::F16Scale;

/// Unpacks the `bits`-wide fields of run `run` (0 to 7).
#[inline]
fn run_of<const BYTES: usize>(packed: &[u8; BYTES], bits: usize, run: usize) -> [u8; 32] {
    let runs = 8 / bits;
    let group = packed.as_chunks::<32>().0[run / runs];
    let (shift, mask) = (bits * (run % runs), (1 << bits) - 1);
    group.map(|byte| byte >> shift & mask)
}

/// Packs the codes of run `run`, below `2^bits`, into zeroed fields, where [`run_of`] finds them.
pub(crate) fn pack_run<const BYTES: usize>(
    packed: &mut [u8; BYTES],
    bits: usize,
    run: usize,
    codes: &[u8; 32],
) {
    let runs = 8 / bits;
    for (byte, code) in packed.as_chunks_mut::<32>().0[run / runs].iter_mut().zip(codes) {
        *byte |= code << (bits * (run % runs));
    }
}

/// The scale and the minimum of sub-block `index` (0 to 7) of a Q4_K or Q5_K super-block, 0 to 63.
///
/// Bytes 0..4 of 12 hold the scales and 4..8 the minima of sub-blocks 0 to 3 in their low six bits.
/// Bytes 8..12 hold the low four bits of the scales (low half) and minima (high half) of sub-blocks
/// 4 to 7. Their upper two bits are the upper two of bytes 0..4 and 4..8 (`get_scale_min_k4` of
/// `ggml-quants.c`).
///
/// # Panics
///
/// If `index` is over 7.
///
/// ```
/// # use pelton_quant::scale_min_k4;
/// let mut scales = [0; 12];
/// scales[1] = 0b10_000011; // sub-block 1: scale 3; sub-block 5: upper bits of its scale
/// scales[5] = 0b01_000100; // sub-block 1: minimum 4; sub-block 5: upper bits of its minimum
/// scales[9] = 0b0110_0101; // sub-block 5: lower bits of its minimum and scale
/// assert_eq!(scale_min_k4(&scales, 1), (3, 4));
/// assert_eq!(scale_min_k4(&scales, 5), (0b10_0101, 0b01_0110));
/// ```
#[inline]
pub const fn scale_min_k4(scales: &[u8; 12], index: usize) -> (u8, u8) {
    if index < 4 {
        (scales[index] & 63, scales[index + 4] & 63)
    } else {
        let low = scales[index + 4];
        (low & 15 | scales[index - 4] >> 6 << 4, low >> 4 | scales[index] >> 6 << 4)
    }
}

/// A super-block of Q2_K: element `i` is `d * scale * codes[i] - dmin * min`, with the scale
/// and the minimum of sub-block `i / 16`.
///
/// | bytes | field |
/// |---|---|
/// | 0..16 | `scales`: the scale of sub-block `p` in the low half of byte `p`, its minimum in the high half |
/// | 16..80 | `qs`: two-bit codes; run `r` is in group `r / 4`, bits `2 * (r % 4)` and up |
/// | 80..82 | `d` |
/// | 82..84 | `dmin` |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ2K {
    /// The packed scales and minima.
    pub scales: [u8; 16],
    /// The packed codes.
    pub qs: [u8; 64],
    /// The super-block scale, which multiplies every sub-block scale.
    pub d: F16Scale,
    /// The super-block scale of the minima.
    pub dmin: F16Scale,
}

impl BlockQ2K {
    /// The codes in element order, 0 to 3.
    #[inline]
    pub fn codes(&self) -> [u8; 256] {
        in_runs(|run| run_of(&self.qs, 2, run))
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let codes = self.codes();
        for ((out, codes), packed) in sub_blocks::<16, _>(out, &codes).zip(self.scales) {
            scale_by(out, codes, d * f32::from(packed & 15), dmin * f32::from(packed >> 4));
        }
    }
}

/// A super-block of Q3_K: element `i` is `d * scale * codes[i]`, with the scale of
/// sub-block `i / 16`.
///
/// | bytes | field |
/// |---|---|
/// | 0..32 | `hmask`: bit `r` of byte `l` is the third bit of code `l` of run `r` |
/// | 32..96 | `qs`: two low bits per code; run `r` is in group `r / 4`, bits `2 * (r % 4)` and up |
/// | 96..108 | `scales`: see [`scales`](Self::scales) |
/// | 108..110 | `d` |
///
/// Codes are stored with an offset of 4, scales with an offset of 32.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ3K {
    /// The third bits of the codes.
    pub hmask: [u8; 32],
    /// The two low bits of the codes.
    pub qs: [u8; 64],
    /// The packed scales.
    pub scales: [u8; 12],
    /// The super-block scale, which multiplies every sub-block scale.
    pub d: F16Scale,
}

impl BlockQ3K {
    /// The codes in element order, −4 to 3.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        in_runs(|run| {
            let (low, high) = (run_of(&self.qs, 2, run), run_of(&self.hmask, 1, run));
            std::array::from_fn(|l| (low[l] | high[l] << 2) as i8 - 4)
        })
    }

    /// The scales of the 16 sub-blocks, −32 to 31.
    ///
    /// The low four bits of scales 0 to 7 are the low halves of bytes 0..8, those of 8 to 15 the
    /// high halves. The upper two bits of scale `p` are bits `2 * (p / 4)` and up of byte `8 + p %
    /// 4`.
    #[inline]
    pub fn scales(&self) -> [i8; 16] {
        std::array::from_fn(|p| {
            let low = self.scales[p % 8] >> (4 * (p / 8)) & 15;
            let high = self.scales[8 + p % 4] >> (2 * (p / 4)) & 3;
            (low | high << 4) as i8 - 32
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let codes = self.codes();
        for ((out, codes), scale) in sub_blocks::<16, _>(out, &codes).zip(self.scales()) {
            scale_signed(out, codes, d * f32::from(scale));
        }
    }
}

/// A super-block of Q4_K: element `i` is `d * scale * codes[i] - dmin * min`, with the scale
/// and the minimum of sub-block `i / 32`.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..4 | `dmin` |
/// | 4..16 | `scales`: see [`scale_min_k4`] |
/// | 16..144 | `qs`: four-bit codes; run `r` is in group `r / 2`, low half if `r` is even, else high |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4K {
    /// The super-block scale, which multiplies every sub-block scale.
    pub d: F16Scale,
    /// The super-block scale of the minima.
    pub dmin: F16Scale,
    /// The packed scales and minima.
    pub scales: [u8; 12],
    /// The packed codes.
    pub qs: [u8; 128],
}

impl BlockQ4K {
    /// The codes in element order, 0 to 15.
    #[inline]
    pub fn codes(&self) -> [u8; 256] {
        in_runs(|run| run_of(&self.qs, 4, run))
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        decode_k4(self.d, self.dmin, &self.scales, &self.codes(), out);
    }
}

/// A super-block of Q5_K: Q4_K with a fifth bit per code.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..4 | `dmin` |
/// | 4..16 | `scales`: see [`scale_min_k4`] |
/// | 16..48 | `qh`: bit `r` of byte `l` is the fifth bit of code `l` of run `r` |
/// | 48..176 | `qs`: four low bits per code; run `r` is in group `r / 2`, low half if `r` is even, else high |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5K {
    /// The super-block scale, which multiplies every sub-block scale.
    pub d: F16Scale,
    /// The super-block scale of the minima.
    pub dmin: F16Scale,
    /// The packed scales and minima.
    pub scales: [u8; 12],
    /// The fifth bits of the codes.
    pub qh: [u8; 32],
    /// The low four bits of the codes.
    pub qs: [u8; 128],
}

impl BlockQ5K {
    /// The codes in element order, 0 to 31.
    #[inline]
    pub fn codes(&self) -> [u8; 256] {
        in_runs(|run| {
            let (low, high) = (run_of(&self.qs, 4, run), run_of(&self.qh, 1, run));
            std::array::from_fn(|l| low[l] | high[l] << 4)
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        decode_k4(self.d, self.dmin, &self.scales, &self.codes(), out);
    }
}

/// A super-block of Q6_K: element `i` is `d * scales[i / 16] * codes[i]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..128 | `ql`: four low bits per code; run `r` is in group `2 * (r / 4) + r % 2`, low half if `r % 4` is 0 or 1, else high |
/// | 128..192 | `qh`: two upper bits per code; run `r` is in group `r / 4`, bits `2 * (r % 4)` and up |
/// | 192..208 | `scales`, two's complement |
/// | 208..210 | `d` |
///
/// Codes are stored with an offset of 32.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ6K {
    /// The low four bits of the codes.
    pub ql: [u8; 128],
    /// The upper two bits of the codes.
    pub qh: [u8; 64],
    /// The scales of the 16 sub-blocks.
    pub scales: [i8; 16],
    /// The super-block scale, which multiplies every sub-block scale.
    pub d: F16Scale,
}

impl BlockQ6K {
    /// The codes in element order, −32 to 31.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        in_runs(|run| {
            // The middle two of each four runs are swapped relative to Q4_K.
            let low = run_of(&self.ql, 4, [0, 2, 1, 3, 4, 6, 5, 7][run]);
            let high = run_of(&self.qh, 2, run);
            std::array::from_fn(|l| (low[l] | high[l] << 4) as i8 - 32)
        })
    }

    /// Decodes all elements.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let codes = self.codes();
        for ((out, codes), scale) in sub_blocks::<16, _>(out, &codes).zip(self.scales) {
            scale_signed(out, codes, d * f32::from(scale));
        }
    }
}

/// Collects 256 codes from their eight runs.
#[inline]
fn in_runs<T: Copy + Default>(run: impl Fn(usize) -> [T; 32]) -> [T; 256] {
    let mut codes = [T::default(); 256];
    for (i, codes) in codes.as_chunks_mut().0.iter_mut().enumerate() {
        *codes = run(i);
    }
    codes
}

/// Sub-blocks of `LEN` elements, each with its codes.
#[inline]
fn sub_blocks<'a, const LEN: usize, T>(
    out: &'a mut [f32; 256],
    codes: &'a [T; 256],
) -> impl Iterator<Item = (&'a mut [f32; LEN], &'a [T; LEN])> {
    out.as_chunks_mut().0.iter_mut().zip(codes.as_chunks().0)
}

#[inline]
fn scale_by<const LEN: usize>(out: &mut [f32; LEN], codes: &[u8; LEN], scale: f32, min: f32) {
    for (x, &q) in out.iter_mut().zip(codes) {
        *x = scale * f32::from(q) - min;
    }
}

#[inline]
fn scale_signed<const LEN: usize>(out: &mut [f32; LEN], codes: &[i8; LEN], scale: f32) {
    for (x, &q) in out.iter_mut().zip(codes) {
        *x = scale * f32::from(q);
    }
}

/// Decodes the codes of a Q4_K or Q5_K super-block: sub-blocks of 32, six-bit scales and minima.
#[inline]
fn decode_k4(
    d: F16Scale,
    dmin: F16Scale,
    scales: &[u8; 12],
    codes: &[u8; 256],
    out: &mut [f32; 256],
) {
    let (d, dmin) = (d.to_f32(), dmin.to_f32());
    for (i, (out, codes)) in sub_blocks::<32, _>(out, codes).enumerate() {
        let (scale, min) = scale_min_k4(scales, i);
        scale_by(out, codes, d * f32::from(scale), dmin * f32::from(min));
    }
}
