//! Directories of AWQ and GPTQ: their types, and what is refused.
//! `crates/engine/tests/engine/models.rs` compares the weights with an expansion in numpy, by a
//! model's logits.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::path::{Path, PathBuf};

use pelton_quant::DType;
use pelton_weights::Checkpoint;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

const Q: &str = "model.layers.0.self_attn.q_proj";

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models").join(name)
}

/// A copy with a changed `config.json`, header and bytes of tensors.
fn changed(name: &str, change: impl FnOnce(&mut Json, &mut Json, &mut [u8])) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let read = |file: &str| fs::read(model(name).join(file)).unwrap();
    let mut config: Json = serde_json::from_slice(&read("config.json")).unwrap();
    let weights = read("model.safetensors");
    let end = 8 + u64::from_le_bytes(*weights.first_chunk().unwrap()) as usize;
    let mut header: Json = serde_json::from_slice(&weights[8..end]).unwrap();
    let mut data = weights[end..].to_vec();
    change(&mut config, &mut header, &mut data);
    let header = header.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    folder
}

fn refused(folder: &TempDir) -> String {
    Checkpoint::open(folder.path()).map(|_| ()).unwrap_err().to_string()
}

/// No matrix is expanded to floats.
#[test]
fn types_without_loss() {
    for (name, types) in [
        ("llama-awq", &[DType::Q4_0, DType::Q5_0][..]),
        ("llama-gptq", &[DType::Q4_0, DType::Q5_0]),
        ("qwen2-gptq-int8", &[DType::Q8_0]),
    ] {
        let model = Checkpoint::open(model(name)).unwrap();
        let matrices = model.tensors().filter(|tensor| tensor.name.starts_with("blk."));
        let matrices: Vec<_> = matrices.filter(|tensor| tensor.shape.len() == 2).collect();
        assert_eq!(matrices.len(), 14, "{name}");
        for tensor in matrices {
            assert!(types.contains(&tensor.dtype), "{name} {}: {}", tensor.name, tensor.dtype);
        }
    }
}

#[test]
fn configurations() {
    let cases: [(&str, &str, Json, &str); 14] = [
        ("llama-awq", "bits", json!(3), "has 3 bits, expected 4 for AWQ"),
        ("llama-gptq", "bits", json!(3), "expected 4 for AWQ, and 2, 4 or 8 for GPTQ"),
        ("llama-gptq", "bits", json!(8), "which do not fit 8 bits in groups of 32"),
        ("llama-gptq", "bits", json!(u64::MAX), "bits"),
        ("llama-awq", "group_size", json!(33), "has groups of 33"),
        ("llama-awq", "group_size", json!(0), "group"),
        ("llama-awq", "group_size", json!(-1), "which do not fit 4 bits in groups of all inputs"),
        ("llama-awq", "group_size", json!(64), "which do not fit 4 bits in groups of 64"),
        ("llama-awq", "group_size", json!(1u64 << 62), "expected an integer from 0 to 2^31 - 1"),
        ("llama-awq", "group_size", json!("x"), "group_size"),
        ("llama-awq", "version", json!("gemv"), "AWQ version \"gemv\", expected gemm"),
        ("llama-gptq", "checkpoint_format", json!("marlin"), "expected gptq or gptq_v2"),
        ("llama-gptq", "quant_method", json!("hqq"), "quant_method \"hqq\", expected awq or gptq"),
        ("llama-gptq", "quant_method", json!("awq"), "which do not fit"),
    ];
    for (name, key, value, expected) in cases {
        let folder =
            changed(name, |config, _, _| config["quantization_config"][key] = value.clone());
        let error = refused(&folder);
        assert!(error.contains(expected), "{key} {value}: {error}");
    }
    let folder = changed("llama-awq", |config, _, _| {
        config.as_object_mut().unwrap().remove("quantization_config");
    });
    assert!(refused(&folder).contains("config.json has no \"quantization_config\""));
}

#[test]
fn tensors() {
    // a part that is missing has the name of another, unknown tensor
    for part in ["qzeros", "scales"] {
        let folder = changed("llama-awq", |_, header, _| {
            header.as_object_mut().unwrap().remove(&format!("{Q}.{part}")).unwrap();
        });
        let error = refused(&folder);
        assert!(error.contains(&format!("lacks its {part}")), "{error}");
    }
    let folder = changed("llama-awq", |_, header, _| {
        header[format!("{Q}.scales")]["shape"] = json!([2, 32]);
    });
    assert!(refused(&folder).contains("which do not fit"));
    let folder = changed("llama-awq", |_, header, _| {
        header[format!("{Q}.qweight")]["dtype"] = json!("F32");
    });
    assert!(refused(&folder).contains("expected I32"));
    let folder = changed("llama-awq", |_, header, _| {
        header[format!("{Q}.scales")]["dtype"] = json!("I16");
    });
    assert!(refused(&folder).contains("expected F16, BF16 or F32"));
}

/// Inputs in another order than their groups ("act-order") are refused by name.
#[test]
fn reordered_inputs() {
    let place = format!("{Q}.g_idx");
    let folder = changed("llama-gptq", |_, header, data| {
        let at = header[&place]["data_offsets"][0].as_u64().unwrap() as usize;
        data[at] ^= 1;
    });
    assert!(refused(&folder).contains("reordered inputs (desc_act)"));
    let folder = changed("llama-gptq", |config, header, _| {
        config["quantization_config"]["desc_act"] = json!(true);
        header.as_object_mut().unwrap().remove(&place).unwrap();
    });
    assert!(refused(&folder).contains("reordered inputs (desc_act)"));
}

/// GPTQ's second format stores zeros as they are.
#[test]
fn zeros_of_the_second_format() {
    let open = |format: &str| {
        let folder = changed("llama-gptq", |config, _, _| {
            config["quantization_config"]["checkpoint_format"] = json!(format);
        });
        let model = Checkpoint::open(folder.path()).unwrap();
        model.tensor("blk.0.attn_q.weight").unwrap().decode()
    };
    let scales = |values: &[f32], other: &[f32]| {
        values.iter().zip(other).map(|(a, b)| b - a).collect::<Vec<_>>()
    };
    // w = scale (code - zero), so a zero that is one less adds the scale, and never 0
    let steps = scales(&open("gptq"), &open("gptq_v2"));
    let groups: Vec<_> = steps.chunks(32).collect();
    assert!(groups.iter().all(|group| group.iter().all(|step| (step - group[0]).abs() < 1e-6)));
    assert!(groups.iter().filter(|group| group[0] > 0.0).count() > groups.len() / 2);
}
