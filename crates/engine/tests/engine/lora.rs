//! LoRA adapters, compared with the model whose matrices have the product of the factors added.

use std::{fs, path::PathBuf};

use pelton::{
    Checkpoint, Engine, KvType, LoadOptions, Model, Sampling,
    graph::Backend,
    weights::{GgufWriter, Lora},
};
use pelton_cpu::Cpu;
use pelton_testing::{Random, npy};
use serde_json::json;

use crate::request::{Request, Run};

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
    let base = fs::read(folder("qwen3").join("model.gguf")).unwrap();
    let path = temporary(&format!("merged-{scale}.gguf"));
    fs::write(&path, with_sums(base, &[(additions, scale)])).unwrap();
    path
}

/// A model's file in F32 with `W + Σ scale · b·a` in place of each matrix.
fn with_sums(mut out: Vec<u8>, all: &[(&[Addition], f64)]) -> Vec<u8> {
    for (additions, scale) in all {
        for one in *additions {
            let base = Checkpoint::from_bytes("base", out.clone()).unwrap();
            let tensor = base.tensor(&one.tensor).unwrap();
            // random numbers, which occur once
            let mut places = out.windows(tensor.bytes.len());
            let at = places.position(|bytes| bytes == tensor.bytes).unwrap();
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
    }
    out
}

fn load(path: PathBuf, options: LoadOptions) -> Model {
    Engine::with_backend(Cpu::new(2)).load(path, &options.kv(KvType::F32)).unwrap()
}

fn logits(model: Model) -> Vec<f32> {
    let ids: Vec<u32> = (0..40).map(|i| (i * 7 + 3) % 100).collect();
    let mut all = Vec::new();
    let mut session = model.into_session().unwrap();
    session.run_all(&ids, |row| all.extend_from_slice(row)).unwrap();
    all
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
    let plain = logits(load(path.clone(), LoadOptions::default()));
    for strength in [1.0f32, -0.5] {
        let options = LoadOptions::default().lora(&adapter, strength);
        let got = logits(load(path.clone(), options));
        let scale = f64::from(ALPHA) / RANK as f64 * f64::from(strength);
        let expected = logits(load(merged(&additions, scale), LoadOptions::default()));
        assert!(difference(&got, &plain) > 0.1, "the adapter has an effect");
        let worst = difference(&got, &expected);
        assert!(worst < 5e-4, "{strength}: {worst}");
    }
    // two adapters that cancel each other out
    let options = LoadOptions::default().lora(&adapter, 1.0).lora(&adapter, -1.0);
    assert!(difference(&logits(load(path, options)), &plain) < 5e-4);
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
        let got = logits(load(folder("qwen3"), LoadOptions::default().lora(&adapter, 1.0)));
        let expected = logits(load(merged(&additions, scale), LoadOptions::default()));
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
    for (key, value, text) in [
        ("init_lora_weights", json!("pissa"), "init_lora_weights"),
        ("layer_replication", json!([[0, 1]]), "layer_replication"),
        ("a_key_of_a_later_version", json!(3), "a_key_of_a_later_version"),
        ("alpha_pattern", json!({"(": 1}), "alpha_pattern"),
        ("lora_alpha", json!(1e39), "lora_alpha"),
    ] {
        let mut settings = settings.clone();
        settings[key] = value;
        let error = Lora::open(folder_of("refused", settings), &base).unwrap_err();
        assert!(error.to_string().contains(text), "{key}: {error}");
    }
}

/// The modules of [`llama_adapter`]: queries and keys, whose rows GGUF interleaves, and others.
const MODULES: [&str; 5] = [
    "layers.0.self_attn.q_proj",
    "layers.0.self_attn.k_proj",
    "layers.1.self_attn.q_proj",
    "layers.1.self_attn.v_proj",
    "layers.1.mlp.down_proj",
];

/// Tensors of a safetensors file: name, shape and values in F32.
fn write_safetensors(path: &std::path::Path, tensors: &[(String, Vec<usize>, Vec<f32>)]) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend(bytes(values));
        let place = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), place);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let file = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
    fs::write(path, file).unwrap();
}

fn read_safetensors(path: &std::path::Path) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let file = fs::read(path).unwrap();
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
    let tensors = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    tensors
        .map(|(name, about)| {
            let offset = |i: usize| about["data_offsets"][i].as_u64().unwrap() as usize;
            let data = &file[8 + length + offset(0)..8 + length + offset(1)];
            assert_eq!(about["dtype"], "F32", "{name}");
            let values = data.chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap()));
            let shape = about["shape"].as_array().unwrap();
            let shape = shape.iter().map(|dim| dim.as_u64().unwrap() as usize).collect();
            (name.clone(), shape, values.collect())
        })
        .collect()
}

/// A directory of PEFT for the model of a directory, with an alpha and a rank of their own for a
/// module, and the model with the products added as PEFT merges them: `W + alpha / r * B A`.
fn llama_adapter(model: &str) -> (PathBuf, PathBuf) {
    let (adapter, merged) =
        (temporary(&format!("{model}-peft")), temporary(&format!("{model}-merged")));
    for path in [&adapter, &merged] {
        fs::create_dir_all(path).unwrap();
    }
    for file in fs::read_dir(folder(model)).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|end| end == "json") {
            fs::copy(&file, merged.join(file.file_name().unwrap())).unwrap();
        }
    }
    let mut tensors = read_safetensors(&folder(model).join("model.safetensors"));
    let mut random = Random::new(7);
    let mut factors = Vec::new();
    for module in MODULES {
        let name = format!("model.{module}.weight");
        let (_, shape, values) = tensors.iter_mut().find(|(own, ..)| *own == name).unwrap();
        let (outputs, inputs) = (shape[0], shape[1]);
        let (rank, alpha) = if module.ends_with("v_proj") { (5, 3.0) } else { (RANK, 6.0) };
        let mut numbers =
            |n: usize| (0..n).map(|_| random.below(2001) as f32 / 2000.0 - 0.5).collect::<Vec<_>>();
        let (a, b) = (numbers(rank * inputs), numbers(outputs * rank));
        for row in 0..outputs {
            for column in 0..inputs {
                let product: f64 = (0..rank)
                    .map(|r| f64::from(b[row * rank + r]) * f64::from(a[r * inputs + column]))
                    .sum();
                values[row * inputs + column] += (alpha / rank as f64 * product) as f32;
            }
        }
        let full = format!("base_model.model.model.{module}");
        factors.push((format!("{full}.lora_A.weight"), vec![rank, inputs], a));
        factors.push((format!("{full}.lora_B.weight"), vec![outputs, rank], b));
    }
    write_safetensors(&merged.join("model.safetensors"), &tensors);
    write_safetensors(&adapter.join("adapter_model.safetensors"), &factors);
    // fields as PEFT 0.21 writes them
    let settings = json!({
        "peft_type": "LORA", "r": RANK, "lora_alpha": 6, "bias": "none", "use_dora": false,
        "alpha_pattern": {r"layers\.1\.self_attn\.v_proj": 3}, "rank_pattern": {"v_proj": 5},
        "target_modules": ["q_proj"], "base_model_name_or_path": "x", "peft_version": "0.21.2",
        "init_lora_weights": true, "task_type": "CAUSAL_LM", "inference_mode": true,
        "fan_in_fan_out": false, "modules_to_save": null, "loftq_config": {}, "lora_dropout": 0.1,
        "megatron_core": "megatron.core", "qalora_group_size": 16, "use_rslora": false
    });
    fs::write(adapter.join("adapter_config.json"), settings.to_string()).unwrap();
    (adapter, merged)
}

/// An adapter of PEFT over a GGUF file, over a directory, and as a GGUF adapter over both.
#[test]
fn peft_over_gguf() {
    for model in ["llama3"] {
        let (adapter, merged) = llama_adapter(model);
        let expected = logits(load(merged, LoadOptions::default()));
        let gguf = folder(model).join("model.gguf");
        let written = temporary(&format!("{model}-adapter.gguf"));
        for base in [folder(model), gguf.clone()] {
            let plain = logits(load(base.clone(), LoadOptions::default()));
            assert!(difference(&plain, &expected) > 0.1, "the adapter has an effect");
            let options = LoadOptions::default().lora(&adapter, 1.0);
            let worst = difference(&logits(load(base.clone(), options)), &expected);
            assert!(worst < 1e-3, "{}: {worst}", base.display());
            // as `pelton convert` writes it
            let checkpoint = Checkpoint::open(&base).unwrap();
            let lora = Lora::open(&adapter, &checkpoint).unwrap();
            let dtype = pelton::weights::DType::F32;
            let file = lora.write_gguf(&checkpoint, dtype, Vec::new()).unwrap();
            fs::write(&written, file).unwrap();
            for over in [&gguf, &folder(model)] {
                let options = LoadOptions::default().lora(&written, 1.0);
                let worst = difference(&logits(load(over.clone(), options)), &expected);
                assert!(worst < 1e-3, "{} over {}: {worst}", base.display(), over.display());
            }
        }
    }
}

/// Adapters that PEFT saved give the logits of PEFT's model (`tests/fixtures/make_peft.py`), over
/// the directory and over the GGUF file.
#[test]
fn logits_of_peft() {
    let all = folder("../peft");
    for name in ["plain", "rslora", "patterns", "one_layer"] {
        let expected = npy::floats(all.join(name).join("logits.npy"));
        for base in [folder("llama3"), folder("llama3").join("model.gguf")] {
            let options = LoadOptions::default().lora(all.join(name), 1.0);
            let worst = difference(&logits(load(base.clone(), options)), &expected);
            assert!(worst < 5e-4, "{name} over {}: {worst}", base.display());
        }
    }
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

/// The adapters of a request: their numbers and scales.
type Chosen = &'static [(usize, f32)];

/// Tokens of the prompts of requests with adapters: more than two pages.
const PROMPT: u32 = 150;

fn request(prompt: u32, first: u32) -> Request {
    let prompt: Vec<u32> = (0..prompt).map(|i| (i * i + 3 * i + first) % 100).collect();
    let request = Request::from_tokens(prompt).max_tokens(8).ignore_eos(true);
    request.sampling(Sampling::greedy()).logprobs(1)
}

/// The greedy tokens of requests that run together, with their log-probabilities, and the tokens of
/// prompts that were cached.
fn texts(model: &Model, requests: Vec<Request>) -> Vec<(Vec<(u32, f32)>, usize)> {
    let streams: Vec<_> = requests.into_iter().map(|request| model.run(request).unwrap()).collect();
    let text = |mut stream: pelton::TokenStream| {
        let tokens = stream.by_ref().map(|token| token.unwrap());
        let tokens = tokens.map(|token| (token.id, token.logprob.unwrap())).collect();
        (tokens, stream.stats().cached_tokens)
    };
    streams.into_iter().map(text).collect()
}

fn assert_close(got: &[(u32, f32)], expected: &[(u32, f32)], what: &str) {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.0, expected.0, "{what}: token {i}");
        assert!((got.1 - expected.1).abs() < 2e-3, "{what}: {got:?} {expected:?}");
    }
}

/// Requests with adapters of their own, among them one with none, in one batch, compared with
/// models whose matrices have the factors added.
fn each_request_has_its_own(backend: impl Backend + Clone + 'static, name: &str) {
    let file = fs::read(folder("qwen3").join("model.gguf")).unwrap();
    let base = Checkpoint::from_bytes("base", file.clone()).unwrap();
    let adapters = [additions(&base, &NAMES[..4], 4), additions(&base, &NAMES[2..], 5)];
    let paths: Vec<PathBuf> = (0..)
        .zip(&adapters)
        .map(|(i, all)| write_gguf(&format!("{name}-{i}.gguf"), "qwen3", ALPHA, all))
        .collect();
    let options = LoadOptions::default().kv(KvType::F32).max_concurrent(4).rows(64);
    let loaded = options.clone().lora(&paths[0], 0.0).lora(&paths[1], 1.0);
    let engine = Engine::with_backend(backend.clone());
    let model = engine.load(folder("qwen3").join("model.gguf"), &loaded).unwrap();
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    assert_eq!(model.loras(), names);
    let all: [Chosen; 4] = [&[], &[(0, 1.0)], &[(1, -0.5)], &[(0, 0.5), (1, 1.0)]];
    let with = |request: Request, chosen: Chosen| {
        let request = request.without_loras();
        chosen.iter().fold(request, |request, &(i, scale)| match i {
            0 => request.lora(&names[0], scale),
            i => request.lora(format!("{name}-{i}"), scale),
        })
    };
    let together = all.map(|chosen| with(request(PROMPT, 1), chosen)).to_vec();
    let together = texts(&model, together);
    let again = texts(&model, vec![with(request(PROMPT, 1), all[1])]);
    assert_eq!(again[0], (together[1].0.clone(), 128), "a prefix of the same adapters");
    for (chosen, (got, cached)) in all.into_iter().zip(&together) {
        assert_eq!(*cached, 0, "a prefix of other adapters");
        let sums: Vec<_> = chosen
            .iter()
            .map(|&(i, scale)| {
                (&adapters[i][..], f64::from(ALPHA) / RANK as f64 * f64::from(scale))
            })
            .collect();
        let path = temporary(&format!("{name}-merged.gguf"));
        fs::write(&path, with_sums(file.clone(), &sums)).unwrap();
        let merged = engine.load(&path, &options).unwrap();
        let scores = |model: &Model, request| -> Vec<(u32, f32)> {
            let tokens = model.logprobs_of(request).unwrap();
            tokens.iter().map(|token| (token.id, token.logprob.unwrap_or(0.0))).collect()
        };
        let scored = scores(&model, with(request(PROMPT, 1), chosen));
        let expected = scores(&merged, request(PROMPT, 1));
        assert_close(&scored, &expected, &format!("the prompt with {chosen:?}"));
        assert_close(got, &texts(&merged, vec![request(PROMPT, 1)])[0].0, &format!("{chosen:?}"));
    }
    assert!(together[0].0 != together[1].0 && together[1].0 != together[2].0);
    // requests that name none have those of the load
    let default = texts(&model, vec![request(40, 3), with(request(40, 3), &[(1, 1.0)])]);
    assert_eq!(default[0].0, default[1].0);
    for (request, text) in [
        (request(4, 1).lora("unknown", 1.0), "unknown"),
        (request(4, 1).lora(&names[0], f32::NAN), "finite"),
        (request(4, 1).lora(&names[0], 1.0).lora(&names[0], 1.0), "twice"),
    ] {
        let error = model.run(request).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn each_request_has_its_own_on_the_cpu() {
    each_request_has_its_own(Cpu::new(2), "cpu");
    each_request_has_its_own(Cpu::reference(), "reference");
}

#[cfg(feature = "gpu")]
#[test]
fn each_request_has_its_own_on_a_gpu() {
    use pelton::gpu::{Gpu, adapters};
    use pelton_testing::{Need, skip};

    match adapters().into_iter().next() {
        Some(adapter) => each_request_has_its_own(Gpu::open_checked(&adapter).unwrap(), "gpu"),
        None => skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software"),
    }
}

/// Matrices in blocks: the products of the adapter are added to those of the stored matrices.
#[test]
fn weights_in_blocks() {
    use pelton::graph::build;
    use pelton::weights::Quantize;
    use std::sync::Arc;

    let file = fs::read(folder("qwen3").join("model.gguf")).unwrap();
    let base = || Checkpoint::from_bytes("base", file.clone()).unwrap();
    let additions = additions(&base(), &NAMES, 6);
    let adapter = write_gguf("blocks.gguf", "qwen3", ALPHA, &additions);
    let mut quantized = base().quantized(Quantize::Q8_0, |_, _| {}).unwrap();
    // the same values in F32
    let mut decoded = file.clone();
    for tensor in base().tensors() {
        let at = file.windows(tensor.bytes.len()).position(|bytes| bytes == tensor.bytes).unwrap();
        let values = quantized.tensor(tensor.name).unwrap().decode();
        decoded[at..at + tensor.bytes.len()].copy_from_slice(&bytes(&values));
    }
    let scale = f64::from(ALPHA) / RANK as f64;
    let path = temporary("blocks-merged.gguf");
    fs::write(&path, with_sums(decoded, &[(&additions, scale)])).unwrap();
    let engine = Engine::with_backend(Cpu::reference());
    let options = LoadOptions::default().kv(KvType::F32);
    let expected = logits(engine.load(path, &options).unwrap());

    let in_blocks = NAMES
        .iter()
        .filter(|name| quantized.tensor(name).is_some_and(|tensor| tensor.dtype.block_len() > 1));
    assert!(in_blocks.count() > 0, "no matrix in blocks");
    let lora = Lora::open(&adapter, &quantized).unwrap();
    let plan = build(&quantized).unwrap();
    let tensors = Lora::attach(&[lora], &mut quantized).unwrap();
    let plan = plan.add_loras(&tensors, 1).unwrap();
    let options = options.lora(&adapter, 1.0);
    let model = engine.load_plan(plan, Arc::new(quantized), &options).unwrap();
    let worst = difference(&logits(model), &expected);
    assert!(worst < 5e-4, "{worst}");
}

#[test]
fn two_adapters_of_one_name_are_refused() {
    for paths in [["greet", "greet.gguf"], ["a/greet.gguf", "b/greet.gguf"]] {
        let options = LoadOptions::default().lora(paths[0], 1.0).lora(paths[1], 0.5);
        let engine = Engine::with_backend(Cpu::new(1));
        let error = engine.load(folder("qwen3").join("model.gguf"), &options).err().unwrap();
        let [one, other] = paths;
        assert_eq!(
            error.to_string(),
            format!(
                "load option 'lora' is {one} and {other}, both by the name \"greet\", expected \
                 adapters of different names: rename one of them"
            )
        );
    }
}
