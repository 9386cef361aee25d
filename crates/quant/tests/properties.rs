//! Properties of all inputs: error bounds, length checks, rejected values.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail")]

use pelton_quant::{DType, Error, decode, encode, encode_weighted};
use proptest::collection::vec;
use proptest::prelude::*;

fn quantized_with_encoder() -> Vec<DType> {
    DType::ALL.into_iter().filter(|d| d.has_encoder() && d.block_len() > 1).collect()
}

fn any_dtype() -> impl Strategy<Value = DType> {
    proptest::sample::select(DType::ALL.to_vec())
}

/// One or two times 256 values of similar magnitude, within the range of f16 scales.
fn rows() -> impl Strategy<Value = Vec<f32>> {
    (1..=2usize, -40..16i32).prop_flat_map(|(blocks, exponent)| {
        let unit = 2f32.powi(exponent);
        vec(-1f32..=1.0, blocks * 256).prop_map(move |row| row.iter().map(|v| v * unit).collect())
    })
}

fn round_trip(dtype: DType, values: &[f32]) -> Vec<f32> {
    let mut bytes = Vec::new();
    encode(dtype, values, &mut bytes).unwrap();
    assert_eq!(Some(bytes.len()), dtype.bytes_of(values.len()));
    let mut back = vec![0.0; values.len()];
    decode(dtype, &bytes, &mut back).unwrap();
    back
}

/// The rounding error of `value` as a finite f16: half a unit in the last place.
fn f16_error(value: f64) -> f64 {
    (value.abs() * 2f64.powi(-11)).max(2f64.powi(-25))
}

/// The largest error of an element of a block in its format, in f64 arithmetic. It is half a step
/// (or a whole step at the end of the range that symmetric codes lack). Added are the error of
/// rounding the scale and the minimum to f16, and a margin for f32 arithmetic.
fn bound(dtype: DType, block: &[f32]) -> f64 {
    let largest = block.iter().fold(0f64, |a, v| a.max(f64::from(v.abs())));
    let min = block.iter().fold(f64::INFINITY, |a, &v| a.min(v.into()));
    let max = block.iter().fold(f64::NEG_INFINITY, |a, &v| a.max(v.into()));
    let symmetric = |levels: f64, step: f64| {
        let d = largest / levels;
        d * step + levels * f16_error(d)
    };
    let with_minimum = |levels: f64| {
        let d = (max - min) / levels;
        d * 0.5 + levels * f16_error(d) + f16_error(min)
    };
    let format = match dtype {
        DType::Q4_0 => symmetric(8.0, 1.0),
        DType::Q5_0 => symmetric(16.0, 1.0),
        DType::Q8_0 => symmetric(127.0, 0.5),
        DType::Q4_1 => with_minimum(15.0),
        DType::Q5_1 => with_minimum(31.0),
        // the level -127 has no positive counterpart, and candidates reach 7 levels farther; twice
        // that, as the regression moves a scale on
        DType::IQ4_NL => {
            let d = largest / 127.0;
            2.0 * 21.0 * d + 127.0 * f16_error(d)
        }
        // scales are multiples of 1/32 of the largest
        DType::IQ4_XS => {
            let d = largest / 127.0 / 32.0;
            2.0 * 21.0 * largest / 127.0 + 127.0 * (2.0 * d + 32.0 * f16_error(d))
        }
        // 8 times the scale may be rounded to 6
        DType::MXFP4 => 2.0 * 2f64.powi((largest.log2().floor() as i32 - 2).max(-127)),
        DType::TQ1_0 | DType::TQ2_0 | DType::Q2_0 => 0.5 * largest + f16_error(largest),
        // the mean magnitude for any
        DType::Q1_0 => largest + f16_error(largest),
        // half of the step from 4 to 6, and six times the error of the scale
        DType::NVFP4 => {
            let d = largest / 6.0;
            let error = (d / 16.0).max(2f64.powi(-10));
            d + error + 6.0 * error
        }
        // a step of the widest sub-block, whose scale and minimum are stored in 6 bits: half a step
        // of rounding, and the errors of the stored scale at the last code and of the minimum.
        // Candidates may cut a part of a step from the range
        DType::Q2_K | DType::Q4_K | DType::Q5_K => {
            let (levels, top) = match dtype {
                DType::Q2_K => (3.0, 15.0),
                DType::Q4_K => (15.0, 63.0),
                _ => (31.0, 63.0),
            };
            let range = max.max(0.0) - min.min(0.0);
            let (d, dmin) = (range / levels / top, -min.min(0.0) / top);
            let stored = levels * (d + top * f16_error(d)) + dmin + top * f16_error(dmin);
            2.0 * range / levels + 2.0 * stored
        }
        DType::Q3_K => {
            let d = largest / 4.0 / 32.0;
            2.0 * largest / 4.0 + 4.0 * (d + 32.0 * f16_error(d))
        }
        // as with the other symmetric formats, and the error of scales of 8 bits
        DType::Q6_K => {
            let d = largest / 32.0 / 128.0;
            2.0 * largest / 32.0 + 32.0 * (d + 128.0 * f16_error(d))
        }
        _ => unreachable!("not a quantized format with an encoder"),
    };
    format + largest * 1e-5
}

proptest! {
    #[test]
    fn quantizing_stays_within_the_formats_error(
        dtype in proptest::sample::select(quantized_with_encoder()),
        row in rows(),
    ) {
        // the scales of NVFP4 end at 448
        let unit = if dtype == DType::NVFP4 { 2f32.powi(-5) } else { 1.0 };
        let row: Vec<f32> = row.iter().map(|v| v * unit).collect();
        let back = round_trip(dtype, &row);
        for (block, decoded) in row.chunks(dtype.block_len()).zip(back.chunks(dtype.block_len())) {
            let bound = bound(dtype, block);
            for (a, b) in block.iter().zip(decoded) {
                let error = (f64::from(*a) - f64::from(*b)).abs();
                prop_assert!(error <= bound, "{dtype}: {a:e} became {b:e}, bound {bound:e}");
            }
        }
    }

    #[test]
    fn any_importance_gives_values_of_the_rows_magnitude(
        dtype in proptest::sample::select(quantized_with_encoder()),
        row in rows(),
        importance in vec(prop_oneof![Just(0.0), 0f32..1.0, Just(1e30), Just(1e-40)], 256),
    ) {
        let unit = if dtype == DType::NVFP4 { 2f32.powi(-5) } else { 1.0 };
        let row: Vec<f32> = row.iter().map(|v| v * unit).collect();
        let largest = row.iter().fold(0f32, |a, v| a.max(v.abs()));
        let (mut bytes, mut back) = (Vec::new(), vec![0.0; row.len()]);
        encode_weighted(dtype, &row, &importance, &mut bytes).unwrap();
        decode(dtype, &bytes, &mut back).unwrap();
        let most = 4.0 * largest + 1e-3;
        prop_assert!(back.iter().all(|v| v.abs() <= most), "{dtype}: {largest:e}");
    }

    #[test]
    fn float_types_round_to_nearest(bits in vec(any::<f32>(), 1..50)) {
        prop_assert_eq!(&round_trip(DType::F32, &bits), &bits);
        for (a, b) in bits.iter().zip(round_trip(DType::BF16, &bits)) {
            let ulp = (f64::from(a.abs()) * 2f64.powi(-8)).max(2f64.powi(-134));
            prop_assert!(b.is_infinite() || (f64::from(*a) - f64::from(b)).abs() <= ulp);
            prop_assert!(b.is_finite() || a.abs() >= 3.38e38);
        }
        for (a, b) in bits.iter().zip(round_trip(DType::F16, &bits)) {
            prop_assert_eq!(b.is_finite(), a.abs() < 65520.0);
            if b.is_finite() {
                let error = (f64::from(*a) - f64::from(b)).abs();
                prop_assert!(error <= f16_error((*a).into()));
            }
        }
    }

    #[test]
    fn any_bytes_decode(dtype in any_dtype(), bytes in vec(any::<u8>(), 0..700), shift in 0..4usize) {
        // The blocks start `shift` bytes into the allocation, so that they are misaligned too.
        let bytes = &bytes[shift.min(bytes.len())..];
        let blocks = bytes.len() / dtype.block_bytes();
        let mut out = vec![0.0; blocks * dtype.block_len()];
        decode(dtype, &bytes[..blocks * dtype.block_bytes()], &mut out).unwrap();
    }

    #[test]
    fn decoding_is_block_by_block(dtype in any_dtype(), bytes in vec(any::<u8>(), 420..700)) {
        let (size, len) = (dtype.block_bytes(), dtype.block_len());
        let blocks = bytes.len() / size;
        let mut row = vec![0.0; blocks * len];
        decode(dtype, &bytes[..blocks * size], &mut row).unwrap();
        for (bytes, expected) in bytes.chunks_exact(size).zip(row.chunks(len)) {
            let mut block = vec![0.0; len];
            decode(dtype, bytes, &mut block).unwrap();
            prop_assert!(block.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }

    #[test]
    fn wrong_lengths_are_errors(dtype in any_dtype(), len in 0..600usize, bytes in 0..700usize) {
        let mut out = vec![7.0; len];
        let result = decode(dtype, &vec![0; bytes], &mut out);
        match dtype.bytes_of(len) {
            None => prop_assert_eq!(result, Err(Error::PartialBlock { dtype, len })),
            Some(expected) if expected != bytes => {
                let error = Error::ByteLength { dtype, len, expected, found: bytes };
                prop_assert_eq!(result, Err(error));
            }
            Some(_) => prop_assert_eq!(result, Ok(())),
        }
        prop_assert!(unchanged_on_error(&out, dtype, bytes));
    }
}

/// A failed decode leaves its output unchanged.
fn unchanged_on_error(out: &[f32], dtype: DType, bytes: usize) -> bool {
    dtype.bytes_of(out.len()) == Some(bytes) || out.iter().all(|&v| v == 7.0)
}

#[test]
fn encoding_rejects_values_out_of_range() {
    // Beyond the product of the largest f16 scale and the largest code (or the largest minimum).
    let too_large = [
        (DType::Q4_0, 65536.0 * 8.0),
        (DType::Q4_1, 65536.0 * 15.0),
        (DType::Q5_0, 65536.0 * 16.0),
        (DType::Q5_1, 65536.0 * 31.0),
        (DType::Q8_0, 65536.0 * 127.0),
        (DType::IQ4_NL, 65536.0 * 127.0 * 2.0),
        (DType::IQ4_XS, 65536.0 * 32.0 * 127.0 * 2.0),
        (DType::Q2_K, 65536.0 * 15.0 * 3.0 * 2.0),
        (DType::Q3_K, 65536.0 * 32.0 * 4.0 * 2.0),
        (DType::Q4_K, 65536.0 * 63.0 * 15.0 * 2.0),
        (DType::Q5_K, 65536.0 * 63.0 * 31.0 * 2.0),
        (DType::Q6_K, 65536.0 * 128.0 * 32.0 * 2.0),
        (DType::MXFP4, f32::INFINITY),
        (DType::TQ1_0, 65536.0),
        (DType::TQ2_0, 65536.0),
        (DType::Q2_0, 65536.0),
        (DType::Q1_0, 65536.0 * 128.0),
        (DType::NVFP4, 6.0 * 464.0),
    ];
    for (dtype, too_large) in too_large {
        let len = dtype.block_len();
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, too_large] {
            for place in [len, len + 13, 2 * len - 1] {
                let mut values = vec![0.25; 3 * len];
                values[place] = bad;
                let mut out = vec![1, 2, 3];
                let result = encode(dtype, &values, &mut out);
                assert_eq!(result, Err(Error::OutOfRange { dtype, start: len }), "{bad}");
                assert_eq!(out, [1, 2, 3], "a rejected row must not be partly written");
            }
        }
    }
    for dtype in [DType::Q4_1, DType::Q5_1] {
        let result = encode(dtype, &[-65536.0; 32], &mut Vec::new());
        assert_eq!(result, Err(Error::OutOfRange { dtype, start: 0 }), "the minimum overflows");
    }
}

#[test]
fn encoding_rejects_partial_blocks_and_types_without_encoder() {
    for dtype in quantized_with_encoder() {
        for len in [1, 31, 33, 63] {
            let result = encode(dtype, &vec![0.0; len], &mut Vec::new());
            assert_eq!(result, Err(Error::PartialBlock { dtype, len }));
        }
    }
    for dtype in DType::ALL.into_iter().filter(|dtype| !dtype.has_encoder()) {
        let result = encode(dtype, &[0.0; 256], &mut Vec::new());
        assert_eq!(result, Err(Error::CannotEncode { dtype }));
    }
}

#[test]
fn encoding_appends() {
    let mut out = vec![9];
    encode(DType::BF16, &[1.0, -2.0], &mut out).unwrap();
    encode(DType::F16, &[], &mut out).unwrap();
    encode(DType::F32, &[0.5], &mut out).unwrap();
    assert_eq!(out, [9, 0x80, 0x3F, 0x00, 0xC0, 0, 0, 0, 0x3F]);
}

#[test]
fn values_below_the_smallest_scale_become_zero() {
    // The scale has no finite reciprocal, so ggml's arithmetic would produce infinities.
    // MXFP4's scales are as small as f32 values are
    for dtype in quantized_with_encoder().into_iter().filter(|&d| d != DType::MXFP4) {
        for tiny in [f32::from_bits(1), 1e-40, -1e-40, 1e-38] {
            let mut values = [0.0; 256];
            values[..16].fill(tiny);
            assert!(round_trip(dtype, &values).iter().all(|&v| v == 0.0), "{dtype} {tiny:e}");
        }
    }
}

#[test]
fn errors_state_found_and_expected() {
    let dtype = DType::Q4_K;
    let partial = decode(dtype, &[0; 144], &mut [0.0; 100]).unwrap_err();
    assert_eq!(
        partial.to_string(),
        "100 elements do not fill blocks of Q4_K, expected a multiple of 256"
    );
    let length = decode(dtype, &[0; 143], &mut [0.0; 256]).unwrap_err();
    assert_eq!(length.to_string(), "256 elements of Q4_K have 143 bytes, expected 144");
    let range = encode(DType::Q8_0, &[f32::NAN; 64], &mut Vec::new()).unwrap_err();
    assert_eq!(
        range.to_string(),
        "elements 0 to 31 cannot be encoded as Q8_0: found a NaN, an infinity or values that \
         overflow the block's scale"
    );
    assert_eq!(
        encode(DType::IQ2_S, &[0.0; 256], &mut Vec::new()).unwrap_err().to_string(),
        "IQ2_S has no encoder, expected F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, \
         Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4, TQ1_0, TQ2_0, NVFP4, Q2_0, Q1_0"
    );
}

#[test]
fn importance_has_a_finite_value_for_each_column() {
    let encode = |values: &[f32], importance: &[f32]| {
        let mut out = vec![5];
        let result = encode_weighted(DType::Q4_0, values, importance, &mut out);
        assert!(result.is_ok() || out == [5]);
        result.map_err(|error| error.to_string())
    };
    assert_eq!(encode(&[0.5; 96], &[1.0; 32]), Ok(()));
    let rows = "elements are no whole number of rows of";
    let found = encode(&[0.5; 96], &[1.0; 64]).unwrap_err();
    assert_eq!(found, format!("96 {rows} 64 columns, which the importance has"));
    let found = encode(&[0.5; 96], &[]).unwrap_err();
    assert_eq!(found, format!("96 {rows} 0 columns, which the importance has"));
    let found = encode(&[0.5; 96], &[1.0; 48]).unwrap_err();
    assert_eq!(found, "48 elements do not fill blocks of Q4_0, expected a multiple of 32");
    for bad in [f32::NAN, -1.0, f32::INFINITY] {
        let mut importance = [1.0; 32];
        importance[7] = bad;
        let expected =
            format!("the importance of column 7 is {bad}, expected a finite value of at least 0");
        assert_eq!(encode(&[0.5; 32], &importance), Err(expected));
    }
}

/// Rows have the same importance, whether they are encoded together or one by one.
#[test]
fn importance_belongs_to_columns() {
    let values: Vec<f32> = (0..1024).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
    let importance: Vec<f32> = (0..512).map(|i| if i % 7 == 0 { 9.0 } else { 0.1 }).collect();
    for dtype in quantized_with_encoder() {
        let (mut together, mut single) = (Vec::new(), Vec::new());
        encode_weighted(dtype, &values, &importance, &mut together).unwrap();
        for row in values.chunks(512) {
            encode_weighted(dtype, row, &importance, &mut single).unwrap();
        }
        assert!(together == single, "{dtype}");
    }
}
