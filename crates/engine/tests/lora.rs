//! LoRA adapters, compared with the model whose matrices have the product of the factors added.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::{fs, path::PathBuf};

use pelton::{
    Checkpoint, Engine, KvType, LoadOptions, Model,
    weights::{GgufWriter, Lora},
};
use pelton_testing::Random;
use serde_json::json;

const RANK: usize = 3;
const ALPHA: f32 = 6.0;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models").join(name)
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A matrix `[outputs, inputs]` and its factors `[RANK, inputs]` and `[outputs, RANK]`.
struct Addition {
    tensor: String,
    inputs: usize,
    outputs: usize,
    a: Vec<f32>,
    b: Vec<f32>,
}

fn additions(base: &Checkpoint, names: &[&str], seed: u64) -> Vec<Addition> {
    let mut random = Random::new(seed);
    let mut values =
        |n: usize| (0..n).map(|_| random.below(2001) as f32 / 2000.0 - 0.5).collect::<Vec<_>>();
    let one = |name: &&str| {
        let tensor = base.tensor(name).unwrap_or_else(|| panic!("{name}"));
        let (inputs, outputs) = (tensor.row_len(), tensor.rows());
        let (a, b) = (values(RANK * inputs), values(outputs * RANK));
        Addition { tensor: (*name).to_owned(), inputs, outputs, a, b }
    };
    names.iter().map(one).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn write_gguf(name: &str, architecture: &str, alpha: f32, additions: &[Addition]) -> PathBuf {
    let mut writer = GgufWriter::new();
    writer.set("general.type", "adapter").unwrap();
    writer.set("adapter.type", "lora").unwrap();
    writer.set("general.architecture", architecture).unwrap();
    writer.set("adapter.lora.alpha", alpha).unwrap();
    let model = Checkpoint::open(folder("qwen3").join("model.gguf")).unwrap();
    let dtype = model.tensor("output_norm.weight").unwrap().dtype;
    assert_eq!(dtype.name(), "F32");
    for one in additions {
        writer.declare(&format!("{}.lora_a", one.tensor), dtype, &[one.inputs, RANK]).unwrap();
        writer.declare(&format!("{}.lora_b", one.tensor), dtype, &[RANK, one.outputs]).unwrap();
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    for one in additions {
        body.write(&bytes(&one.a)).unwrap();
        body.write(&bytes(&one.b)).unwrap();
    }
    let path = temporary(name);
    fs::write(&path, body.finish().unwrap()).unwrap();
    path
}

/// The model's file with `W + scale · b·a` in place of each matrix.
fn merged(additions: &[Addition], scale: f64) -> PathBuf {
    let mut out = fs::read(folder("qwen3").join("model.gguf")).unwrap();
    let base = Checkpoint::from_bytes("base", out.clone()).unwrap();
    for one in additions {
        let tensor = base.tensor(&one.tensor).unwrap();
        // random numbers, which occur once
        let at = out.windows(tensor.bytes.len()).position(|bytes| bytes == tensor.bytes).unwrap();
        for (i, value) in tensor.decode().into_iter().enumerate() {
            let (row, column) = (i / one.inputs, i % one.inputs);
            let product: f64 = (0..RANK)
                .map(|r| {
                    f64::from(one.b[row * RANK + r]) * f64::from(one.a[r * one.inputs + column])
                })
                .sum();
            let sum = (f64::from(value) + scale * product) as f32;
            out[at + 4 * i..][..4].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let path = temporary(&format!("merged-{scale}.gguf"));
    fs::write(&path, out).unwrap();
    path
}

fn load(path: PathBuf, options: LoadOptions) -> Model {
    Engine::with_threads(2).load(path, &options.kv(KvType::F32)).unwrap()
}

fn logits(model: &Model) -> Vec<f32> {
    let ids: Vec<u32> = (0..40).map(|i| (i * 7 + 3) % 100).collect();
    model
        .session(ids.len(), move |session| {
            let mut all = Vec::new();
            session.run_all(&ids, |row| all.extend_from_slice(row))?;
            Ok(all)
        })
        .unwrap()
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

const NAMES: [&str; 6] = [
    "blk.0.attn_q.weight",
    "blk.0.attn_v.weight",
    "blk.1.attn_output.weight",
    "blk.0.ffn_gate.weight",
    "blk.1.ffn_up.weight",
    "blk.1.ffn_down.weight",
];

#[test]
fn as_the_model_with_the_factors_added() {
    let path = folder("qwen3").join("model.gguf");
    let base = Checkpoint::open(&path).unwrap();
    let additions = additions(&base, &NAMES, 1);
    let adapter = write_gguf("adapter.gguf", "qwen3", ALPHA, &additions);
    let plain = logits(&load(path.clone(), LoadOptions::default()));
    for strength in [1.0f32, -0.5] {
        let options = LoadOptions::default().lora(&adapter, strength);
        let got = logits(&load(path.clone(), options));
        let scale = f64::from(ALPHA) / RANK as f64 * f64::from(strength);
        let expected = logits(&load(merged(&additions, scale), LoadOptions::default()));
        assert!(difference(&got, &plain) > 0.1, "the adapter has an effect");
        let worst = difference(&got, &expected);
        assert!(worst < 5e-4, "{strength}: {worst}");
    }
    // two adapters that cancel each other out
    let options = LoadOptions::default().lora(&adapter, 1.0).lora(&adapter, -1.0);
    assert!(difference(&logits(&load(path, options)), &plain) < 5e-4);
}

/// A directory that PEFT saved, for a model that is a directory.
#[test]
fn peft() {
    let base = Checkpoint::open(folder("qwen3").join("model.gguf")).unwrap();
    let additions = additions(&base, &["blk.0.attn_q.weight", "blk.1.ffn_down.weight"], 2);
    let modules = ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"];
    let folder_of = |name: &str, settings: serde_json::Value| {
        let adapter = temporary(name);
        fs::create_dir_all(&adapter).unwrap();
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (one, module) in additions.iter().zip(modules) {
            for (part, shape, values) in
                [("A", [RANK, one.inputs], &one.a), ("B", [one.outputs, RANK], &one.b)]
            {
                let start = data.len();
                data.extend(bytes(values));
                header.insert(
                    format!("base_model.model.{module}.lora_{part}.weight"),
                    json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}),
                );
            }
        }
        let header = serde_json::to_vec(&header).unwrap();
        let file = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
        fs::write(adapter.join("adapter_model.safetensors"), file).unwrap();
        fs::write(adapter.join("adapter_config.json"), settings.to_string()).unwrap();
        adapter
    };
    let settings = json!({"peft_type": "LORA", "r": RANK, "lora_alpha": 6, "bias": "none"});
    for (root, scale) in [(false, 2.0), (true, 6.0 / (RANK as f64).sqrt())] {
        let mut settings = settings.clone();
        settings["use_rslora"] = json!(root);
        let adapter = folder_of("peft", settings);
        let got = logits(&load(folder("qwen3"), LoadOptions::default().lora(&adapter, 1.0)));
        let expected = logits(&load(merged(&additions, scale), LoadOptions::default()));
        let worst = difference(&got, &expected);
        assert!(worst < 5e-4, "rslora {root}: {worst}");
    }
    let directory = Checkpoint::open(folder("qwen3")).unwrap();
    for (key, value, text) in [
        ("use_dora", json!(true), "use_dora"),
        ("peft_type", json!("IA3"), "expected LORA"),
        ("modules_to_save", json!(["lm_head"]), "modules_to_save"),
        ("bias", json!("all"), "bias"),
        ("lora_alpha", json!("much"), "lora_alpha"),
        ("r", json!(0), "\"r\""),
    ] {
        let mut settings = settings.clone();
        settings[key] = value;
        let error = Lora::open(folder_of("refused", settings), &directory).unwrap_err();
        assert!(error.to_string().contains(text), "{key}: {error}");
    }
    let adapter = folder_of("kinds", settings);
    let error = Lora::open(&adapter, &base).unwrap_err();
    assert!(error.to_string().contains("expected a GGUF file as the model"), "{error}");
}

#[test]
fn adapters_that_do_not_fit_are_refused_by_name() {
    let base = Checkpoint::open(folder("qwen3").join("model.gguf")).unwrap();
    let refused = |name: &str, architecture: &str, change: &dyn Fn(&mut Vec<Addition>)| {
        let mut additions = additions(&base, &NAMES[..2], 3);
        change(&mut additions);
        let path = write_gguf(name, architecture, ALPHA, &additions);
        Lora::open(path, &base).unwrap_err().to_string()
    };
    let error = refused("other.gguf", "llama", &|_| ());
    assert!(error.contains("general.architecture") && error.contains("qwen3"), "{error}");
    let error =
        refused("unknown.gguf", "qwen3", &|all| all[0].tensor = "blk.99.attn_q.weight".into());
    assert!(error.contains("blk.99.attn_q.weight"), "{error}");
    let error = refused("swapped.gguf", "qwen3", &|all| {
        let name = all[0].tensor.clone();
        all[0].tensor = all[1].tensor.clone();
        all[1].tensor = name;
    });
    assert!(error.contains("as in the model"), "{error}");
    let error = refused("nan.gguf", "qwen3", &|all| all[1].b[0] = f32::NAN);
    assert!(error.contains("not finite"), "{error}");
    let error = refused("empty.gguf", "qwen3", &Vec::clear);
    assert!(error.contains("has no matrix"), "{error}");
    let error = Lora::open(folder("qwen3").join("model.gguf"), &base).unwrap_err().to_string();
    assert!(error.contains("general.type") || error.contains("adapter"), "{error}");
}
