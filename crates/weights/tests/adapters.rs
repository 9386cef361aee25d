//! Adapters of PEFT under the names and in the orders of GGUF: the product of the factors is
//! compared with a model that has it in place of the weight, converted as a model.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use pelton_testing::Random;
use pelton_weights::{Checkpoint, Conversion, DType, Lora};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde_json::json;

const RANK: usize = 3;

fn fixture(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models").join(model)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `[rows, inner]` times `[inner, columns]`.
fn product(b: &[f32], a: &[f32], inner: usize) -> Vec<f32> {
    let (rows, columns) = (b.len() / inner, a.len() / inner);
    let sum = |row: usize, column: usize| -> f64 {
        (0..inner).map(|i| f64::from(b[row * inner + i]) * f64::from(a[i * columns + column])).sum()
    };
    let all = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    all.map(|(row, column)| sum(row, column) as f32).collect()
}

fn write(path: &Path, tensors: &[(String, Dtype, Vec<usize>, Vec<u8>)]) {
    let views = tensors.iter().map(|(name, dtype, shape, data)| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    fs::write(path, serialize(views, None).unwrap()).unwrap();
}

/// Checks an adapter of one module. `transposed` says that its layer stores the matrix transposed.
fn check(model: &str, module: &str, transposed: bool) {
    let folder = tempfile::tempdir().unwrap();
    let (merged, adapter) = (folder.path().join("merged"), folder.path().join("adapter"));
    fs::create_dir(&merged).unwrap();
    fs::create_dir(&adapter).unwrap();
    for file in fs::read_dir(fixture(model)).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|end| end == "json") {
            fs::copy(&file, merged.join(file.file_name().unwrap())).unwrap();
        }
    }
    let file = fs::read(fixture(model).join("model.safetensors")).unwrap();
    let stored = SafeTensors::deserialize(&file).unwrap();
    let weight = format!("{module}.weight");
    let shape =
        stored.tensor(&weight).unwrap_or_else(|_| panic!("{model}: {weight}")).shape().to_vec();
    let (outputs, inputs) = if transposed { (shape[1], shape[0]) } else { (shape[0], shape[1]) };
    let mut random = Random::new(3);
    let mut values =
        |n: usize| (0..n).map(|_| random.below(2001) as f32 / 2000.0 - 0.5).collect::<Vec<_>>();
    let (a, b) = (values(RANK * inputs), values(outputs * RANK));
    let mut added = product(&b, &a, RANK);
    if transposed {
        let from = added.clone();
        added = (0..inputs * outputs).map(|i| from[i % outputs * inputs + i / outputs]).collect();
    }
    let tensors: Vec<_> = stored
        .tensors()
        .into_iter()
        .map(|(name, view)| {
            let is_changed = name == weight;
            let dtype = if is_changed { Dtype::F32 } else { view.dtype() };
            let data = if is_changed { bytes(&added) } else { view.data().to_vec() };
            (name, dtype, view.shape().to_vec(), data)
        })
        .collect();
    write(&merged.join("model.safetensors"), &tensors);
    let factor = |part: &str, shape: [usize; 2], values: &[f32]| {
        let name = format!("base_model.model.{module}.lora_{part}.weight");
        (name, Dtype::F32, shape.to_vec(), bytes(values))
    };
    let factors = [factor("A", [RANK, inputs], &a), factor("B", [outputs, RANK], &b)];
    write(&adapter.join("adapter_model.safetensors"), &factors);
    let settings =
        json!({"peft_type": "LORA", "r": RANK, "lora_alpha": 6, "fan_in_fan_out": transposed});
    fs::write(adapter.join("adapter_config.json"), settings.to_string()).unwrap();

    let merged = Checkpoint::open(&merged).unwrap();
    let converted = Conversion::convert(&merged, Some(DType::F32)).unwrap();
    let merged =
        Checkpoint::from_bytes("merged", converted.write(Vec::new(), |_, _| {}).unwrap()).unwrap();
    let written = [fixture(model), fixture(model).join("model.gguf")].map(|base| {
        let base = Checkpoint::open(base).unwrap();
        let lora = Lora::open(&adapter, &base).unwrap_or_else(|error| panic!("{module}: {error}"));
        lora.write_gguf(&base, DType::F32, Vec::new()).unwrap()
    });
    assert!(written[0] == written[1], "{model}: the kind of the base makes a difference");
    let written = Checkpoint::from_bytes("adapter", written[0].clone()).unwrap();
    assert_eq!(written.metadata().f32("adapter.lora.alpha").unwrap(), 6.0);
    let tensors: HashMap<_, _> = written.tensors().map(|tensor| (tensor.name, tensor)).collect();
    let mut count = 0;
    for (name, a) in &tensors {
        let Some(matrix) = name.strip_suffix(".lora_a") else { continue };
        let b = tensors[&*format!("{matrix}.lora_b")];
        assert_eq!((a.shape[1], b.shape[0]), (RANK, RANK));
        let found = product(&b.decode(), &a.decode(), RANK);
        let expected =
            merged.tensor(matrix).unwrap_or_else(|| panic!("{model}: {matrix}")).decode();
        assert_eq!(found.len(), expected.len(), "{model}: {matrix}");
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-6, "{model}: {matrix}: {found}, not {expected}");
        }
        count += found.len();
    }
    assert_eq!(count, inputs * outputs, "{model}: {module}");
}

#[test]
fn matrices_with_names_of_their_own() {
    check("llama3", "model.layers.0.self_attn.q_proj", false);
    check("llama3", "model.layers.1.self_attn.k_proj", false);
    check("llama3", "model.layers.1.mlp.down_proj", false);
    check("granite", "model.layers.0.self_attn.k_proj", false);
    check("qwen3", "model.layers.0.self_attn.q_proj", false);
    check("qwen3", "lm_head", false);
    check("phi3", "model.layers.0.self_attn.qkv_proj", false);
    check("phi3", "model.layers.1.mlp.gate_up_proj", false);
}

#[test]
fn matrices_that_gguf_splits_or_orders() {
    check("gpt2", "transformer.h.0.attn.c_attn", true);
    check("gpt2", "transformer.h.1.mlp.c_proj", true);
    check("gpt-neox", "gpt_neox.layers.0.attention.query_key_value", false);
    check("falcon-40b", "transformer.h.0.self_attention.query_key_value", false);
    check("falcon-7b", "transformer.h.1.self_attention.query_key_value", false);
    check("internlm2", "model.layers.0.attention.wqkv", false);
    check("qwen3-next", "model.layers.0.linear_attn.in_proj_qkvz", false);
    check("qwen3-next", "model.layers.0.linear_attn.out_proj", false);
}
