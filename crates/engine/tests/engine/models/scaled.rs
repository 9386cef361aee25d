//! Files of the same weights in another layout: matrices with a factor next to them, as llama.cpp
//! writes NVFP4, and experts in tensors of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use pelton::{Checkpoint, Engine, KvType, LoadOptions, graph::build_for, weights::GgufWriter};
use pelton_cpu::Cpu;

use super::{Loaded, Subject, cpu, difference, floats, folder, integers};

fn open(path: &Path) -> Arc<Checkpoint> {
    Arc::new(Checkpoint::open(path).unwrap())
}

/// A file with the matrices of some names divided by powers of two, and the factors in tensors.
fn divided(model: &str, parts: &[&str]) -> PathBuf {
    let plain = Checkpoint::open(folder().join(model).join("model.gguf")).unwrap();
    let is_scaled = |name: &str| parts.iter().any(|part| name.ends_with(&format!("{part}.weight")));
    let mut writer = GgufWriter::new();
    for (key, value) in plain.metadata().iter() {
        writer.set(key, value.clone()).unwrap();
    }
    let scale_of = |name: &str| name.replace(".weight", ".scale");
    let mut bodies = Vec::new();
    for (number, tensor) in plain.tensors().enumerate() {
        writer.declare(tensor.name, tensor.dtype, tensor.shape).unwrap();
        if !is_scaled(tensor.name) {
            bodies.push(tensor.bytes.to_vec());
            continue;
        }
        let f32s = plain.tensor("output_norm.weight").unwrap().dtype;
        // a factor for each expert, or one
        let count = tensor.shape.get(2).copied().unwrap_or(1);
        let factors: Vec<f32> =
            (0..count).map(|i| [0.25, 4.0, 0.5, 2.0][(number + i) % 4]).collect();
        let values = tensor.decode();
        let of_one = values.len() / count;
        let values = values.iter().enumerate().map(|(i, value)| value / factors[i / of_one]);
        bodies.push(values.flat_map(f32::to_le_bytes).collect());
        writer.declare(&scale_of(tensor.name), f32s, &[count]).unwrap();
        bodies.push(factors.iter().flat_map(|factor| factor.to_le_bytes()).collect());
        let input = scale_of(tensor.name).replace(".scale", ".input_scale");
        writer.declare(&input, f32s, &[count]).unwrap();
        bodies.push(vec![0; 4 * count]);
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    bodies.iter().for_each(|bytes| body.write(bytes).unwrap());
    let name = format!("{model}-divided-{}.gguf", parts.join("-"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, body.finish().unwrap()).unwrap();
    path
}

/// Factors that are powers of two change no bit but by the order of sums.
fn compare(subjects: &[Subject]) {
    let all = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
    for (model, parts) in [
        ("qwen2", &all[..]), // biases, which have no factor
        ("phi3", &["attn_qkv", "ffn_up", "output"]),
        ("qwen3-moe", &["attn_q", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"]),
        ("llama4", &["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_up_shexp"]),
    ] {
        let (plain, scaled) =
            (open(&folder().join(model).join("model.gguf")), open(&divided(model, parts)));
        let ids = integers(folder().join(model).join("ids.npy"));
        for subject in subjects {
            let run = |file| Loaded::new(file, subject.backend.as_ref(), ids.len()).prompt(&ids);
            let worst = difference(&run(&plain), &run(&scaled));
            assert!(worst < 1e-4, "{model}, {}: {worst}", subject.name);
        }
    }
}

/// The product of an adapter has no factor.
#[test]
fn adapters_next_to_factors() {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = divided("qwen2", &["attn_q", "ffn_down"]);
    let plain = open(&folder().join("qwen2/model.gguf"));
    let f32s = plain.tensor("output_norm.weight").unwrap().dtype;
    let mut writer = GgufWriter::new();
    writer.set("general.type", "adapter").unwrap();
    writer.set("adapter.type", "lora").unwrap();
    writer.set("general.architecture", "qwen2").unwrap();
    writer.set("adapter.lora.alpha", 4.0f32).unwrap();
    let mut bodies = Vec::new();
    for name in ["blk.0.attn_q.weight", "blk.1.ffn_down.weight"] {
        let tensor = plain.tensor(name).unwrap();
        for (part, shape) in [("a", [tensor.row_len(), 2]), ("b", [2, tensor.rows()])] {
            writer.declare(&format!("{name}.lora_{part}"), f32s, &shape).unwrap();
            let value = |i: usize| ((i * 37 % 17) as f32 - 8.0) / 20.0;
            bodies.push((0..shape[0] * shape[1]).map(value).collect::<Vec<_>>());
        }
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    for values in bodies {
        body.write(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
            .unwrap();
    }
    let adapter = target.join("next-to-factors.gguf");
    fs::write(&adapter, body.finish().unwrap()).unwrap();

    let ids = integers(folder().join("qwen2/ids.npy"));
    let run = |file: &Path, adapter: Option<&Path>| {
        let options = LoadOptions::default().context(ids.len()).kv(KvType::F32);
        let options = adapter.iter().fold(options, |options, path| options.lora(*path, 1.0));
        let model = Engine::with_backend(Cpu::new(2)).load(file, &options).unwrap();
        model.into_session().unwrap().run(&ids).unwrap().to_vec()
    };
    let expected = run(&folder().join("qwen2/model.gguf"), Some(&adapter));
    let got = run(&path, Some(&adapter));
    assert!(difference(&got, &expected) < 1e-4, "{}", difference(&got, &expected));
    assert!(difference(&run(&path, None), &expected) > 1e-2, "the adapter has changed nothing");
}

/// A factor next to the biases of experts is refused, not left out.
#[test]
fn factors_next_to_biases_of_experts() {
    for part in ["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"] {
        let scaled = open(&divided("gpt-oss", &[part]));
        let error = build_for(&scaled, None).unwrap_err().to_string();
        assert!(error.contains(&format!("{part}.scale")), "{error}");
    }
}

#[test]
fn factors_of_matrices() {
    compare(&cpu());
}

#[cfg(feature = "gpu")]
#[test]
fn factors_of_matrices_on_a_gpu() {
    compare(&super::gpu());
}

/// Files of Mixtral from before April 2024, with a tensor for each expert, give the logits of
/// transformers too.
#[test]
fn experts_in_tensors_of_their_own() {
    let model = folder().join("mixtral");
    let plain = Checkpoint::open(model.join("model.gguf")).unwrap();
    let mut writer = GgufWriter::new();
    for (key, value) in plain.metadata().iter() {
        writer.set(key, value.clone()).unwrap();
    }
    let (mut bodies, mut split) = (Vec::new(), 0);
    for tensor in plain.tensors() {
        let Some(stem) = tensor.name.strip_suffix("_exps.weight") else {
            writer.declare(tensor.name, tensor.dtype, tensor.shape).unwrap();
            bodies.push(tensor.bytes);
            continue;
        };
        let &[columns, rows, experts] = tensor.shape else { panic!("{:?}", tensor.shape) };
        for (expert, bytes) in tensor.bytes.chunks(tensor.bytes.len() / experts).enumerate() {
            let name = format!("{stem}.{expert}.weight");
            writer.declare(&name, tensor.dtype, &[columns, rows]).unwrap();
            bodies.push(bytes);
            split += 1;
        }
    }
    assert_eq!(split, 2 * 3 * 5);
    let mut body = writer.begin(Vec::new()).unwrap();
    bodies.iter().for_each(|bytes| body.write(bytes).unwrap());
    let old = Arc::new(Checkpoint::from_bytes("old", body.finish().unwrap()).unwrap());
    let ids = integers(model.join("ids.npy"));
    let expected = floats(model.join("logits.npy"));
    for subject in cpu() {
        let got = Loaded::new(&old, subject.backend.as_ref(), ids.len()).prompt(&ids);
        let worst = difference(&got, &expected);
        assert!(worst < 1e-3, "{}: {worst}", subject.name);
    }
}
