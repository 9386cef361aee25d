//! Quantization at load, compared with files that llama.cpp's converter quantized.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::path::{Path, PathBuf};

use pelton_quant::DType;
use pelton_weights::{Checkpoint, GgufWriter, Quantize};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hf").join(name)
}

/// `fixtures/hf/NAME.gguf` is the converter's Q8_0 of the directory `NAME`.
#[test]
fn q8_0_is_that_of_llama_cpp() {
    for (name, permuted) in [("qwen3", false), ("mistral", true)] {
        let mut steps = Vec::new();
        let ours = Checkpoint::open(fixture(name)).unwrap();
        let before: Vec<_> =
            ours.tensors().map(|tensor| (tensor.dtype, tensor.bytes.len())).collect();
        let ours = ours.quantized(Quantize::Q8_0, |done, of| steps.push((done, of))).unwrap();
        // the bytes of the matrices that have another type now
        let changed = before.iter().zip(ours.tensors()).filter(|((dtype, _), t)| t.dtype != *dtype);
        let total: u64 = changed.map(|((_, bytes), _)| *bytes as u64).sum();
        assert!(total > 0 && steps.is_sorted() && steps.iter().all(|(_, of)| *of == total));
        assert_eq!(steps.last(), Some(&(total, total)));
        let theirs = Checkpoint::open(fixture(&format!("{name}.gguf"))).unwrap();
        let mut compared = 0;
        for expected in theirs.tensors().filter(|tensor| tensor.shape.len() > 1) {
            let found = ours.require(expected.name, expected.shape).unwrap();
            assert_eq!(found.dtype, expected.dtype, "{name} {}", found.name);
            // The converter reorders the rows of a llama's queries and keys.
            let reordered = ["attn_q.", "attn_k."].iter().any(|part| found.name.contains(part));
            if !permuted || !reordered {
                assert!(found.bytes == expected.bytes, "{name} {}", found.name);
                compared += 1;
            }
        }
        assert!(compared >= 6, "{name}: {compared}");
    }
}

#[test]
fn vectors_and_quantized_tensors_stay() {
    let plain = Checkpoint::open(fixture("mistral")).unwrap();
    let ours = Checkpoint::open(fixture("mistral.gguf")).unwrap();
    let again = ours.quantized(Quantize::Q4_0, |_, _| {}).unwrap();
    assert_eq!(again.tensor("blk.0.attn_v.weight").unwrap().dtype, DType::Q8_0);
    assert_eq!(again.tensor("blk.0.attn_norm.weight").unwrap().dtype, DType::F32);
    // Rows of 40 are no whole number of blocks; the fixture has F16 there already.
    let quantized = plain.quantized(Quantize::Q4_0, |_, _| {}).unwrap();
    assert_eq!(quantized.tensor("blk.0.ffn_down.weight").unwrap().dtype, DType::F16);
    assert_eq!(quantized.tensor("blk.0.ffn_up.weight").unwrap().dtype, DType::Q4_0);
    // Rows of 32 cannot be Q6_K, which llama.cpp gives to the output layer.
    assert_eq!(quantized.tensor("output.weight").unwrap().dtype, DType::Q8_0);
}

#[test]
fn names_of_mixtures() {
    assert_eq!(Quantize::from_name("Q4_K_M"), Some(Quantize::Q4_K_M));
    assert_eq!(Quantize::from_name("q8_0"), Some(Quantize::Q8_0));
    assert_eq!(Quantize::from_name("q9"), None);
}

/// The types of llama.cpp's `Q4_K_M` for a model of 8 layers, and values near the original ones.
#[test]
fn mixtures_of_k_quants() {
    let names = ["blk.0.attn_v", "blk.1.attn_v", "blk.2.attn_v", "blk.1.ffn_down", "blk.0.ffn_up"];
    let names = names.map(|name| format!("{name}.weight"));
    let all: Vec<_> = names.iter().map(String::as_str).chain(["output.weight"]).collect();
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", "llama").unwrap();
    writer.set("llama.block_count", 8u32).unwrap();
    // matrices are counted, so that the model has those of all layers
    let layers = (0..8)
        .flat_map(|i| ["attn_v", "ffn_down", "ffn_up"].map(|m| format!("blk.{i}.{m}.weight")));
    let file: Vec<_> = layers.chain(["output.weight".to_owned()]).collect();
    for name in &file {
        writer.declare(name, DType::F32, &[512, 4]).unwrap();
    }
    let values: Vec<f32> = (0..2048).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut body = writer.begin(Vec::new()).unwrap();
    file.iter().for_each(|_| body.write(&bytes).unwrap());
    let file = body.finish().unwrap();
    let plain = Checkpoint::from_bytes("model", file).unwrap();
    let quantized = plain.quantized(Quantize::Q4_K_M, |_, _| {}).unwrap();
    let dtype = |name: &str| quantized.tensor(name).unwrap().dtype;
    let found: Vec<_> = all.iter().map(|name| dtype(name)).collect();
    let (few, more) = (DType::Q4_K, DType::Q6_K);
    // the first of eight layers and every third of the next ones have more bits
    assert_eq!(found, [more, few, few, few, few, more]);
    for (name, most) in all.iter().zip([0.02, 0.1, 0.1, 0.1, 0.1, 0.02]) {
        let back = quantized.tensor(name).unwrap().decode();
        let error: f32 = back.iter().zip(&values).map(|(a, b)| (a - b) * (a - b)).sum();
        assert!(error.sqrt() < most * 32.0, "{name}: {}", error.sqrt());
    }
}
