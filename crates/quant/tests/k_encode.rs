//! The error of the encoders of Q4_K, Q5_K and Q6_K, compared with that of llama.cpp's.
//!
//! The expected errors are those of `quantize_row_q4_K_ref` and its siblings (`ggml-quants.c` in
//! the llama_cpp_python 0.3.36 source package, gcc -O2) on the same values, decoded by PyPI `gguf`.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail")]

use pelton_quant::{DType, decode, encode};

/// Sums of four uniform values each, or their cubes, which have long tails.
fn values(cubes: bool) -> Vec<f32> {
    let mut state = 7u64;
    let mut uniform = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 16_777_216.0 - 0.5
    };
    let sums = (0..16_384).map(|_| (0..4).fold(0.0f32, |sum, _| sum + uniform()));
    sums.map(|v| if cubes { v * v * v } else { v }).collect()
}

/// The root of the mean squared error relative to that of the values, in f64.
fn relative_error(dtype: DType, values: &[f32]) -> f64 {
    let (mut bytes, mut back) = (Vec::new(), vec![0.0; values.len()]);
    encode(dtype, values, &mut bytes).unwrap();
    decode(dtype, &bytes, &mut back).unwrap();
    let square = |v: f64| v * v;
    let error = values.iter().zip(&back).map(|(a, b)| square(f64::from(*a) - f64::from(*b)));
    let all: f64 = values.iter().map(|v| square(f64::from(*v))).sum();
    (error.sum::<f64>() / all).sqrt()
}

#[test]
fn errors_of_llama_cpp() {
    assert_eq!(values(false)[..2], [0.628_194_03, -0.870_255_35]);
    for (dtype, cubes, expected) in [
        (DType::Q4_K, false, 0.068_673_257_7),
        (DType::Q5_K, false, 0.034_857_131_6),
        (DType::Q6_K, false, 0.017_196_140_1),
        (DType::Q4_K, true, 0.090_058_440_5),
        (DType::Q5_K, true, 0.048_429_848_8),
        (DType::Q6_K, true, 0.024_098_550_0),
    ] {
        let found = relative_error(dtype, &values(cubes));
        println!("{dtype}, cubes {cubes}: {found}, llama.cpp {expected}");
        assert!(found < 1.02 * expected, "{dtype}, cubes {cubes}: {found}, llama.cpp {expected}");
    }
}

/// Values without a spread, of one sign, and far below the range of an f16.
#[test]
fn values_at_the_edges() {
    let all = [DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::Q2_K, DType::Q3_K, DType::IQ4_NL];
    for dtype in all.into_iter().chain([DType::IQ4_XS]) {
        for value in [0.0, 1.0, -1.0, 3e-3, 1e-30, -1e-45] {
            let mut bytes = Vec::new();
            encode(dtype, &[value; 256], &mut bytes).unwrap();
            let mut back = [0.0; 256];
            decode(dtype, &bytes, &mut back).unwrap();
            let close = |v: &f32| (v - value).abs() <= 0.02 * value.abs() + 1e-6;
            assert!(back.iter().all(close), "{dtype} {value:e}: {:e}", back[0]);
        }
    }
}
