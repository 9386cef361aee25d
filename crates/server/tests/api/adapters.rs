//! LoRA adapters of single requests.

use std::path::{Path, PathBuf};

use pelton::{
    Checkpoint, Engine, GenerateOptions, LoadOptions, Sampling,
    weights::{GgufWriter, Lora},
};
use pelton_server::ModelConfig;
use serde_json::{Value, json};

use crate::harness::start;

fn base() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/qwen3/model.gguf")
}

/// An adapter of rank 1 that adds a large product to one matrix.
fn adapter() -> PathBuf {
    let base = Checkpoint::open(base()).unwrap();
    let tensor = base.tensor("blk.0.attn_q.weight").unwrap();
    let (inputs, outputs) = (tensor.row_len(), tensor.rows());
    let dtype = base.tensor("output_norm.weight").unwrap().dtype;
    let mut writer = GgufWriter::new();
    writer.set("general.type", "adapter").unwrap();
    writer.set("adapter.type", "lora").unwrap();
    writer.set("general.architecture", "qwen3").unwrap();
    writer.set("adapter.lora.alpha", 8.0f32).unwrap();
    writer.declare("blk.0.attn_q.weight.lora_a", dtype, &[inputs, 1]).unwrap();
    writer.declare("blk.0.attn_q.weight.lora_b", dtype, &[1, outputs]).unwrap();
    let mut body = writer.begin(Vec::new()).unwrap();
    for count in [inputs, outputs] {
        let values = (0..count).map(|i| (i as f32 * 0.7).sin());
        body.write(&values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sines.gguf");
    std::fs::write(&path, body.finish().unwrap()).unwrap();
    Lora::open(&path, &base).unwrap();
    path
}

/// The texts are those of the library with the same adapters; its sums are compared with merged
/// matrices elsewhere.
#[test]
fn adapters_of_requests() {
    let path = adapter();
    let options = LoadOptions::default().context(64).lora(&path, 0.0);
    let engine = Engine::builder().device(pelton::Device::Cpu).threads(1).build().unwrap();
    let model = engine.load(base(), &options).unwrap();
    let prompt: Vec<u32> = (5..25).collect();
    let expected = |scale: Option<f32>| {
        let options = GenerateOptions::default().max_tokens(12).ignore_eos(true);
        let mut options = options.sampling(Sampling::greedy());
        if let Some(scale) = scale {
            options = options.lora("sines", scale);
        }
        model.generate(prompt.clone(), options).unwrap().text().unwrap()
    };
    let server = start(|config| {
        config.models = vec![ModelConfig::file(base())];
        config.load = options.clone().max_concurrent(2);
    });
    let send = |lora: Value| {
        let body = json!({"prompt": prompt, "max_tokens": 12, "temperature": 0,
                          "ignore_eos": true, "lora": lora});
        server.post("/v1/completions", &body)
    };
    let text = |lora: Value| send(lora).ok()["choices"][0]["text"].as_str().unwrap().to_owned();
    let (none, all) = (expected(None), expected(Some(1.0)));
    assert_ne!(none, all);
    assert_eq!(text(Value::Null), none);
    assert_eq!(text(json!([{"name": "sines"}])), all);
    assert_eq!(text(json!([{"name": "sines", "scale": 0.5}])), expected(Some(0.5)));
    assert_eq!(text(json!([])), none);
    // llama.cpp's form, whose scale is 0 unless it says another
    assert_eq!(text(json!([{"id": 0, "scale": 1.0}])), all);
    assert_eq!(text(json!([{"id": 0, "scale": 0.5}])), expected(Some(0.5)));
    assert_eq!(text(json!([{"id": 0}])), none);
    // vLLM's form: the name of the adapter in place of that of the model
    let named = |path: &str, more: Value| {
        let mut body = json!({"model": "sines", "temperature": 0});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post(path, &body)
    };
    let whole = json!({"prompt": prompt, "max_tokens": 12, "ignore_eos": true});
    let answer = named("/v1/completions", whole.clone()).ok();
    assert_eq!((&answer["choices"][0]["text"], &answer["model"]), (&json!(all), &json!("model")));
    let answer = named("/completion", whole).ok();
    assert_eq!(answer["content"], json!(all));
    let without = json!({"prompt": prompt, "max_tokens": 12, "ignore_eos": true, "lora": []});
    assert_eq!(named("/v1/completions", without).ok()["choices"][0]["text"], json!(none));
    let refused = named("/v1/embeddings", json!({"input": "a"}));
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("temperature is an unknown field"), "{}", refused.body);
    let refused = server.post("/v1/embeddings", &json!({"model": "sines", "input": [[5]]}));
    assert!(
        refused.status == 400 && refused.body.contains("is the adapter sines"),
        "{}",
        refused.body
    );
    for wrong in [
        json!([{"name": "cosines"}]),
        json!([{"scale": 1}]),
        json!("sines"),
        json!([{"name": "sines", "scale": "1"}]),
        json!([{"name": "sines"}, {"name": "sines"}]),
        json!([{"id": 1}]),
        json!([{"id": -1}]),
        json!([{"id": 0, "name": "sines"}]),
        json!([{"id": 0, "scal": 1}]),
    ] {
        let answer = send(wrong.clone());
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.body);
        assert!(answer.json()["error"]["param"].as_str().unwrap().starts_with("lora"), "{wrong}");
    }
    assert_eq!(server.get("/v1/models").ok()["data"][0]["loras"], json!(["sines"]));
}
