//! The float types F32, F16 and BF16, little-endian, one element per block.
//!
//! Encoding to F16 and BF16 rounds to nearest, ties to even, per IEEE 754: values out of range
//! become infinities and NaNs become quiet NaNs.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Elements per conversion call: `half` uses vector instructions for slices.
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
