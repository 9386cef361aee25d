//! Q2_K to Q6_K: super-blocks of 256 whose parts have small integer scales of their own
//! (`block_q2_K` to `block_q6_K` of `ggml-common.h`).
//!
//! All five store codes in *runs* of 32 numbers, several runs side by side in the bits of the
//! same 32 bytes: byte `l` of a group has the bits of number `l` of each of its runs, the
//! first run lowest. With `b` bits a code a group holds `8 / b` runs.

use bytemuck::{Pod, Zeroable};

use crate::scale::F16Scale;

/// The `bits`-wide fields of run `run` (0 to 7) of packed bytes.
#[inline]
fn run_of<const BYTES: usize>(packed: &[u8; BYTES], bits: usize, run: usize) -> [u8; 32] {
    let runs = 8 / bits;
    let group = packed.as_chunks::<32>().0[run / runs];
    let (shift, mask) = (bits * (run % runs), (1 << bits) - 1);
    group.map(|byte| byte >> shift & mask)
}

/// The scale and the minimum of part `part` (0 to 7) of a Q4_K or Q5_K super-block, 0 to 63.
///
/// Of the 12 bytes, 0..4 hold the scales and 4..8 the minima of parts 0 to 3 in their low six
/// bits; 8..12 hold the low four bits of the scales (low half) and minima (high half) of parts
/// 4 to 7, whose upper two bits are the upper two of bytes 0..4 and 4..8
/// (`get_scale_min_k4` of `ggml-quants.c`).
///
/// # Panics
///
/// If `part` is over 7.
///
/// ```
/// # use pelton_quant::scale_min_k4;
/// let mut scales = [0; 12];
/// scales[1] = 0b10_000011; // part 1: scale 3; part 5: upper bits of its scale
/// scales[5] = 0b01_000100; // part 1: minimum 4; part 5: upper bits of its minimum
/// scales[9] = 0b0110_0101; // part 5: lower bits of its minimum and scale
/// assert_eq!(scale_min_k4(&scales, 1), (3, 4));
/// assert_eq!(scale_min_k4(&scales, 5), (0b10_0101, 0b01_0110));
/// ```
#[inline]
pub const fn scale_min_k4(scales: &[u8; 12], part: usize) -> (u8, u8) {
    if part < 4 {
        (scales[part] & 63, scales[part + 4] & 63)
    } else {
        let low = scales[part + 4];
        (low & 15 | scales[part - 4] >> 6 << 4, low >> 4 | scales[part] >> 6 << 4)
    }
}

/// A super-block of Q2_K: number `i` is `d * scale * codes[i] - dmin * min`, with the scale
/// and the minimum of part `i / 16`.
///
/// | bytes | field |
/// |---|---|
/// | 0..16 | `scales`: of part `p`, the scale in the low half of byte `p`, the minimum in the high half |
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
    /// What the scales are multiplied by.
    pub d: F16Scale,
    /// What the minima are multiplied by.
    pub dmin: F16Scale,
}

impl BlockQ2K {
    /// The codes in element order, 0 to 3.
    #[inline]
    pub fn codes(&self) -> [u8; 256] {
        in_runs(|run| run_of(&self.qs, 2, run))
    }

    /// The numbers.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let codes = self.codes();
        for ((part, codes), packed) in parts::<16, _>(out, &codes).zip(self.scales) {
            scale_by(part, codes, d * f32::from(packed & 15), dmin * f32::from(packed >> 4));
        }
    }
}

/// A super-block of Q3_K: number `i` is `d * scale * codes[i]`, with the scale of part
/// `i / 16`.
///
/// | bytes | field |
/// |---|---|
/// | 0..32 | `hmask`: bit `r` of byte `l` is the third bit of code `l` of run `r` |
/// | 32..96 | `qs`: two low bits a code; run `r` is in group `r / 4`, bits `2 * (r % 4)` and up |
/// | 96..108 | `scales`: see [`scales`](Self::scales) |
/// | 108..110 | `d` |
///
/// Codes are stored plus 4, scales plus 32.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ3K {
    /// The third bits of the codes.
    pub hmask: [u8; 32],
    /// The two low bits of the codes.
    pub qs: [u8; 64],
    /// The packed scales.
    pub scales: [u8; 12],
    /// What the scales are multiplied by.
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

    /// The scales of the 16 parts, −32 to 31.
    ///
    /// The low four bits of scales 0 to 7 are the low halves of bytes 0..8, those of 8 to 15
    /// the high halves; the upper two bits of scale `p` are bits `2 * (p / 4)` and up of byte
    /// `8 + p % 4`.
    #[inline]
    pub fn scales(&self) -> [i8; 16] {
        std::array::from_fn(|p| {
            let low = self.scales[p % 8] >> (4 * (p / 8)) & 15;
            let high = self.scales[8 + p % 4] >> (2 * (p / 4)) & 3;
            (low | high << 4) as i8 - 32
        })
    }

    /// The numbers.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let codes = self.codes();
        for ((part, codes), scale) in parts::<16, _>(out, &codes).zip(self.scales()) {
            scale_signed(part, codes, d * f32::from(scale));
        }
    }
}

/// A super-block of Q4_K: number `i` is `d * scale * codes[i] - dmin * min`, with the scale
/// and the minimum of part `i / 32`.
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
    /// What the scales are multiplied by.
    pub d: F16Scale,
    /// What the minima are multiplied by.
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

    /// The numbers.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        decode_k4(self.d, self.dmin, &self.scales, &self.codes(), out);
    }
}

/// A super-block of Q5_K: as Q4_K, with a fifth bit.
///
/// | bytes | field |
/// |---|---|
/// | 0..2 | `d` |
/// | 2..4 | `dmin` |
/// | 4..16 | `scales`: see [`scale_min_k4`] |
/// | 16..48 | `qh`: bit `r` of byte `l` is the fifth bit of code `l` of run `r` |
/// | 48..176 | `qs`: four low bits a code; run `r` is in group `r / 2`, low half if `r` is even, else high |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5K {
    /// What the scales are multiplied by.
    pub d: F16Scale,
    /// What the minima are multiplied by.
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

    /// The numbers.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        decode_k4(self.d, self.dmin, &self.scales, &self.codes(), out);
    }
}

/// A super-block of Q6_K: number `i` is `d * scales[i / 16] * codes[i]`.
///
/// | bytes | field |
/// |---|---|
/// | 0..128 | `ql`: four low bits a code; run `r` is in group `2 * (r / 4) + r % 2`, low half if `r % 4` is 0 or 1, else high |
/// | 128..192 | `qh`: two upper bits a code; run `r` is in group `r / 4`, bits `2 * (r % 4)` and up |
/// | 192..208 | `scales`, two's complement |
/// | 208..210 | `d` |
///
/// Codes are stored plus 32.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ6K {
    /// The low four bits of the codes.
    pub ql: [u8; 128],
    /// The upper two bits of the codes.
    pub qh: [u8; 64],
    /// The scales of the 16 parts.
    pub scales: [i8; 16],
    /// What the scales are multiplied by.
    pub d: F16Scale,
}

impl BlockQ6K {
    /// The codes in element order, −32 to 31.
    #[inline]
    pub fn codes(&self) -> [i8; 256] {
        in_runs(|run| {
            // The two middle runs of each four have swapped places, compared with Q4_K.
            let low = run_of(&self.ql, 4, [0, 2, 1, 3, 4, 6, 5, 7][run]);
            let high = run_of(&self.qh, 2, run);
            std::array::from_fn(|l| (low[l] | high[l] << 4) as i8 - 32)
        })
    }

    /// The numbers.
    #[inline]
    pub fn decode(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let codes = self.codes();
        for ((part, codes), scale) in parts::<16, _>(out, &codes).zip(self.scales) {
            scale_signed(part, codes, d * f32::from(scale));
        }
    }
}

/// 256 codes from their eight runs.
#[inline]
fn in_runs<T: Copy + Default>(run: impl Fn(usize) -> [T; 32]) -> [T; 256] {
    let mut codes = [T::default(); 256];
    for (i, codes) in codes.as_chunks_mut().0.iter_mut().enumerate() {
        *codes = run(i);
    }
    codes
}

/// The parts of `LEN` numbers, each with its codes.
#[inline]
fn parts<'a, const LEN: usize, T>(
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

/// What Q4_K and Q5_K share: parts of 32, six-bit scales and minima.
#[inline]
fn decode_k4(
    d: F16Scale,
    dmin: F16Scale,
    scales: &[u8; 12],
    codes: &[u8; 256],
    out: &mut [f32; 256],
) {
    let (d, dmin) = (d.to_f32(), dmin.to_f32());
    for (i, (part, codes)) in parts::<32, _>(out, codes).enumerate() {
        let (scale, min) = scale_min_k4(scales, i);
        scale_by(part, codes, d * f32::from(scale), dmin * f32::from(min));
    }
}
