//! The types that store each number by itself: F32, F16 and BF16, little-endian.
//!
//! Writing F16 or BF16 rounds to the nearest, ties to even. As IEEE 754 has it, what is too
//! large becomes an infinity; NaNs stay NaNs, made quiet.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Numbers that are converted at once: `half` turns whole slices into vector instructions.
const CHUNK: usize = 64;

pub(crate) fn decode_f32(bytes: &[u8], out: &mut [f32]) {
    for (x, b) in out.iter_mut().zip(bytes.as_chunks().0) {
        *x = f32::from_le_bytes(*b);
    }
}

pub(crate) fn decode_f16(bytes: &[u8], out: &mut [f32]) {
    let mut halves = [f16::ZERO; CHUNK];
    for (out, bytes) in out.chunks_mut(CHUNK).zip(bytes.chunks(2 * CHUNK)) {
        let halves = &mut halves[..out.len()];
        for (half, b) in halves.iter_mut().zip(bytes.as_chunks().0) {
            *half = f16::from_le_bytes(*b);
        }
        halves.convert_to_f32_slice(out);
    }
}

pub(crate) fn decode_bf16(bytes: &[u8], out: &mut [f32]) {
    for (x, b) in out.iter_mut().zip(bytes.as_chunks().0) {
        *x = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
    }
}

pub(crate) fn encode_f32(values: &[f32], out: &mut Vec<u8>) {
    out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
}

pub(crate) fn encode_f16(values: &[f32], out: &mut Vec<u8>) {
    let mut halves = [f16::ZERO; CHUNK];
    for values in values.chunks(CHUNK) {
        let halves = &mut halves[..values.len()];
        halves.convert_from_f32_slice(values);
        out.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    }
}

pub(crate) fn encode_bf16(values: &[f32], out: &mut Vec<u8>) {
    out.extend(values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()));
}
