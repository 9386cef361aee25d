//! Quantized directories of MLX: the expected weights follow from the format's definition,
//! `scale · code + bias`, in f64.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/folders.rs"]
#[expect(dead_code, reason = "this test uses a subset")]
mod folders;

use folders::Folder;
use pelton_quant::DType;
use pelton_weights::Checkpoint;
use serde_json::{Value as Json, json};

const UP: &str = "model.layers.0.mlp.up_proj";

/// Codes in place of the weights of `up_proj` `[6, 128]`.
struct Quantized {
    bits: usize,
    group: usize,
    codes: Vec<u32>,
    scales: Vec<f32>,
    biases: Vec<f32>,
}

const COLUMNS: usize = 128;
const ROWS: usize = 6;

impl Quantized {
    fn new(bits: usize, group: usize, exact: bool) -> Self {
        // A linear congruential generator (Knuth, MMIX).
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let codes = (0..ROWS * COLUMNS).map(|_| next() % (1 << bits)).collect();
        let groups = ROWS * COLUMNS / group;
        // Eighths are exact in f16, thirds are not.
        let part = if exact { 8.0 } else { 3.0 };
        let mut numbers = || (0..groups).map(|_| (next() % 31) as f32 / part).collect();
        Self { bits, group, codes, scales: numbers(), biases: numbers() }
    }

    /// The stream of codes, lowest bits first.
    fn stream(&self) -> Vec<u8> {
        let mut bytes = vec![0u8; self.codes.len() * self.bits / 8];
        for (index, code) in self.codes.iter().enumerate() {
            for bit in 0..self.bits {
                let at = index * self.bits + bit;
                bytes[at / 8] |= ((code >> bit & 1) as u8) << (at % 8);
            }
        }
        bytes
    }

    fn expected(&self) -> Vec<f64> {
        let weight = |(index, code): (usize, &u32)| {
            let group = index / self.group;
            f64::from(self.scales[group]) * f64::from(*code) + f64::from(self.biases[group])
        };
        self.codes.iter().enumerate().map(weight).collect()
    }

    fn folder(&self, quantization: Json) -> Folder {
        let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let groups = [ROWS, COLUMNS / self.group];
        folder(
            quantization,
            &[
                ("weight", "U32", [ROWS, COLUMNS * self.bits / 32], self.stream()),
                ("scales", "F32", groups, floats(&self.scales)),
                ("biases", "F32", groups, floats(&self.biases)),
            ],
        )
    }
}

/// A directory with these tensors of `up_proj`: name, type, shape and bytes.
fn folder(quantization: Json, tensors: &[(&str, &str, [usize; 2], Vec<u8>)]) -> Folder {
    let mut folder = Folder::with_config(|config| {
        config["quantization"] = quantization;
    });
    let mut header: Json = serde_json::from_str(&folder.header).unwrap();
    header.as_object_mut().unwrap().remove(&format!("{UP}.weight"));
    for (name, dtype, shape, bytes) in tensors {
        let start = folder.data.len();
        folder.data.extend(bytes);
        let offsets = [start, folder.data.len()];
        header[format!("{UP}.{name}")] =
            json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
    }
    folder.header = header.to_string();
    folder
}

fn open(quantized: &Quantized, quantization: Json) -> Result<Checkpoint, String> {
    let folder = quantized.folder(quantization).written();
    Checkpoint::open(folder.path()).map_err(|error| error.to_string())
}

#[test]
fn affine_codes() {
    for bits in [2, 3, 4, 5, 6, 8] {
        for group in [32, 64, 128] {
            for exact in [true, false] {
                let quantized = Quantized::new(bits, group, exact);
                let model = open(&quantized, json!({"bits": bits, "group_size": group})).unwrap();
                let found = model.require("blk.0.ffn_up.weight", &[COLUMNS, ROWS]).unwrap();
                let dtype = match (bits, exact) {
                    (2..=4, true) => DType::Q4_1,
                    (5, true) => DType::Q5_1,
                    _ => DType::F16,
                };
                assert_eq!(found.dtype, dtype, "{bits} bits");
                for (found, expected) in found.decode().iter().zip(quantized.expected()) {
                    // Blocks are exact here; F16 rounds to 11 bits.
                    let most =
                        if dtype == DType::F16 { expected.abs() / 2048.0 + 1e-7 } else { 0.0 };
                    let error = (f64::from(*found) - expected).abs();
                    assert!(error <= most, "{bits} bits: {found} {expected}");
                }
            }
        }
    }
}

/// The modes of small floats, with codes and values of MLX (`fixtures/make_mlx.py`).
#[test]
fn small_floats_of_mlx() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mlx.json");
    let made: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let types = [("nvfp4", DType::NVFP4), ("mxfp8", DType::BF16), ("mxfp4", DType::MXFP4)];
    for (mode, dtype) in types {
        let made = &made[mode];
        let numbers = |key: &str| made[key].as_array().unwrap().clone();
        let words = numbers("codes").into_iter().map(|word| word.as_u64().unwrap() as u32);
        let codes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let scales: Vec<u8> =
            numbers("scales").into_iter().map(|scale| scale.as_u64().unwrap() as u8).collect();
        let quantization =
            json!({"bits": made["bits"], "group_size": made["group_size"], "mode": mode});
        let with = |scales: Vec<u8>| {
            let folder = folder(
                quantization.clone(),
                &[
                    ("weight", "U32", [ROWS, codes.len() / 4 / ROWS], codes.clone()),
                    ("scales", "U8", [ROWS, scales.len() / ROWS], scales),
                ],
            );
            Checkpoint::open(folder.written().path()).map_err(|error| error.to_string())
        };
        let model = with(scales.clone()).unwrap();
        let found = model.require("blk.0.ffn_up.weight", &[COLUMNS, ROWS]).unwrap();
        assert_eq!(found.dtype, dtype, "{mode}");
        let expected: Vec<f32> =
            numbers("values").into_iter().map(|value| value.as_f64().unwrap() as f32).collect();
        assert_eq!(found.decode(), expected, "{mode}");
        // a scale that is no number, and one scale too few
        let mut wrong = scales.clone();
        wrong[3] = 0x7f;
        assert_eq!(with(wrong).is_err(), mode == "nvfp4", "{mode}");
        let few = scales[..scales.len() - ROWS].to_vec();
        assert!(with(few).unwrap_err().contains("do not fit"), "{mode}");
    }
}

#[test]
fn a_module_may_have_its_own_format() {
    let quantized = Quantized::new(4, 64, true);
    let own = json!({"bits": 8, "group_size": 32, UP: {"bits": 4, "group_size": 64}});
    let model = open(&quantized, own).unwrap();
    assert_eq!(model.tensor("blk.0.ffn_up.weight").unwrap().dtype, DType::Q4_1);
}

#[test]
fn faults() {
    let quantized = Quantized::new(4, 64, true);
    let cases = [
        (json!(null), "config.json has no \"quantization\""),
        (json!({"bits": 4}), "\"group_size\" is missing"),
        (json!({"bits": 7, "group_size": 64}), "has 7 bits in groups of 64"),
        (json!({"bits": 4, "group_size": 7}), "has 4 bits in groups of 7"),
        (json!({"bits": 8, "group_size": 64}), "which do not fit 8 bits in groups of 64"),
        (json!({"bits": 4, "group_size": 64, "mode": "odd"}), "has mode \"odd\""),
        (json!({"bits": 4, "group_size": 64, "mode": "nvfp4"}), "expected 4 bits in groups of 16"),
        (json!({"bits": 8, "group_size": 16, "mode": "mxfp8"}), "expected 8 bits in groups of 32"),
        (json!({"bits": 4, "group_size": 2_147_483_616}), "which do not fit"),
    ];
    for (quantization, expected) in cases {
        let error = open(&quantized, quantization).map(|_| ()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
