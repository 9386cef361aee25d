//! Bit equality with the numpy code of the PyPI package `gguf`, on the blocks that
//! `make_golden.py` wrote.

#![expect(clippy::panic, reason = "helpers of tests may fail")]

use std::fs;
use std::path::PathBuf;

use pelton_quant::{DType, Parts, decode, encode};

/// The types that gguf encodes too.
const WRITABLE: [DType; 12] = [
    DType::F16,
    DType::BF16,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q8_0,
    DType::MXFP4,
    DType::TQ1_0,
    DType::TQ2_0,
    DType::Q2_0,
    DType::Q1_0,
];

fn golden(dtype: DType, kind: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{dtype}.{kind}"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn golden_f32(dtype: DType, kind: &str) -> Vec<f32> {
    let bytes = golden(dtype, kind);
    assert!(bytes.len().is_multiple_of(4) && !bytes.is_empty());
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

#[test]
fn decoding_equals_gguf_bit_for_bit() {
    // F32 has no golden file: its encoding is the identity (see `f32_keeps_every_bit`).
    for dtype in DType::ALL.into_iter().filter(|&d| d != DType::F32) {
        let blocks = golden(dtype, "blocks");
        let expected = golden_f32(dtype, "f32");
        let mut found = vec![0.5; expected.len()];
        decode(dtype, &blocks, &mut found).unwrap();
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!(
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                "{dtype} block {} element {}: {found:e}, expected {expected:e}",
                i / dtype.block_len(),
                i % dtype.block_len(),
            );
        }
    }
}

#[test]
fn encoding_equals_gguf_byte_for_byte() {
    for dtype in WRITABLE {
        let values = golden_f32(dtype, "values");
        let expected = golden(dtype, "encoded");
        let mut found = Vec::new();
        encode(dtype, &values, &mut found).unwrap();
        assert_eq!(found.len(), expected.len(), "{dtype}");
        let size = dtype.block_bytes();
        for (i, (found, expected)) in found.chunks(size).zip(expected.chunks(size)).enumerate() {
            let values_of_block = &values[i * dtype.block_len()..][..dtype.block_len()];
            if dtype == DType::F16 && values_of_block[0].is_nan() {
                // numpy keeps the bits of a NaN; hardware and `half` quiet it.
                assert!(found[1] & 0x7C == 0x7C && (found[1] & 3 != 0 || found[0] != 0));
                continue;
            }
            assert_eq!(found, expected, "{dtype} block {i}: {values_of_block:?}");
        }
    }
}

/// IQ4_NL as keys and values are rounded, on the values of Q4_0: `IQ4_NL.plain` is of ggml's
/// `quantize_row_iq4_nl_ref` (`make_golden.py`).
#[test]
fn plain_levels_equal_ggml() {
    let values = golden_f32(DType::Q4_0, "values");
    let expected = golden(DType::IQ4_NL, "plain");
    for (i, (x, expected)) in values.as_chunks().0.iter().zip(expected.chunks(18)).enumerate() {
        if x.iter().all(|x: &f32| x.abs() < 1e-15) {
            // ggml leaves the codes of a scale of 0 undefined
            assert_eq!(Parts::of(DType::IQ4_NL, x).unwrap().d, 0.0);
            continue;
        }
        let Parts { d, m: _, codes } = Parts::of(DType::IQ4_NL, x).unwrap();
        let d = half::f16::from_f32(d).to_le_bytes();
        let codes: Vec<u8> = (0..16).map(|j| codes[j] | codes[j + 16] << 4).collect();
        assert_eq!(([d[0], d[1]], &*codes), ([expected[0], expected[1]], &expected[2..]), "{i}");
    }
}

#[test]
fn f32_keeps_every_bit() {
    let values = golden_f32(DType::F16, "values");
    let expected = golden(DType::F16, "values");
    let mut bytes = Vec::new();
    encode(DType::F32, &values, &mut bytes).unwrap();
    assert_eq!(bytes, expected);
    let mut back = vec![0.0; values.len()];
    decode(DType::F32, &bytes, &mut back).unwrap();
    assert!(back.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()));
}
