//! Directories with one key of `config.json` changed: the results change as those of
//! `transformers`, or the load is refused. `crates/engine/tests/mutations/make.py` writes what
//! `transformers` computes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pelton::Checkpoint;
use pelton::graph::{Phase, build_for};
use pelton_cpu::Cpu;
use serde_json::{Map, Value};

use super::{Loaded, Model, difference, integers, models};

/// Tokens of each run, as in the script.
const LENGTH: usize = 48;

/// Keys whose other values are refused, although `transformers` computes the same with some of them
/// in some classes: no published file has them.
const REFUSED: &[&str] = &[
    "_sliding_window_pattern",
    "attn_logit_softcapping",
    "hidden_act",
    "is_decoder",
    "layer_types",
    "logit_scale",
    "moe_norm_min",
    "no_rope_layer_interval",
    "norm_topk_prob",
    "qk_head_dim",
    "rope_parameters",
    "rope_scaling",
    "use_bidirectional_attention",
];

/// Keys that `transformers` checks and nothing computes with: types of ids and of dropout, and
/// sizes and choices that the tensors show, which are what is computed.
const SHOWN: &[&str] = &[
    "bos_token_id",
    "classifier_bias",
    "classifier_dropout",
    "decoder_sparse_step",
    "eos_token_id",
    "first_k_dense_replace",
    "head_dim",
    "intermediate_size",
    "mamba_d_head",
    "mamba_expand",
    "mamba_n_heads",
    "mlp_layer_types",
    "mlp_only_layers",
    "moe_every_n_layers",
    "moe_layer_interval",
    "moe_layer_start_index",
    "moe_layers",
    "moe_num_shared_experts",
    "n_shared_experts",
    "num_dense_layers",
    "num_ln_in_parallel_attn",
    "num_mtp_layers",
    "num_nextn_predict_layers",
    "output_router_logits",
    "num_shared_experts",
    "pad_token_id",
    "q_lora_rank",
    "summary_activation",
    "type_vocab_size",
    "vocab_size_per_layer_input",
];

/// Keys of activations. GELU by the error function and by tanh are one activation here, as in GGUF.
const ACTIVATIONS: &[&str] = &["activation_function", "hidden_act", "hidden_activation"];
const GELU: f32 = 0.02;

/// A change, and what `transformers` does then.
struct Case {
    keys: Map<String, Value>,
    result: Value,
}

/// The changes of a model's keys.
fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mutations").join(format!("{name}.json"))
}

fn cases(name: &str) -> Vec<Case> {
    let all: Vec<Value> = serde_json::from_slice(&fs::read(path_of(name)).unwrap()).unwrap();
    let case = |case: Value| Case {
        keys: case["keys"].as_object().unwrap().clone(),
        result: case["result"].clone(),
    };
    all.into_iter().map(case).collect()
}

/// A copy of a model's directory whose `config.json` is changed.
struct Copy {
    folder: tempfile::TempDir,
    config: Value,
}

impl Copy {
    fn new(source: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(source, folder.path());
        let config = serde_json::from_slice(&fs::read(source.join("config.json")).unwrap());
        Self { folder, config: config.unwrap() }
    }

    /// The results with these keys, or why the directory is refused.
    fn results(&self, keys: &Map<String, Value>, model: &Model) -> Result<Vec<f32>, String> {
        let mut config = self.config.clone();
        let own = match config.get_mut("text_config") {
            Some(text) => text,
            None => &mut config,
        };
        own.as_object_mut().unwrap().extend(keys.clone());
        let path = self.folder.path().join("config.json");
        fs::write(path, serde_json::to_vec(&config).unwrap()).unwrap();
        let checkpoint = Checkpoint::open(self.folder.path()).map_err(|error| error.to_string())?;
        let checkpoint = Arc::new(checkpoint);
        let mut ids = integers(model.path("ids.npy"));
        let lengths = model.path("lengths.npy");
        if lengths.is_file() {
            ids.truncate(integers(&lengths)[0] as usize);
        }
        ids.truncate(LENGTH);
        build_for(&checkpoint, Some(ids.len())).map_err(|error| error.to_string())?;
        let mut loaded = Loaded::new(&checkpoint, &Cpu::reference(), ids.len());
        Ok(match model.kind.as_str() {
            "causal" => loaded.prompt(&ids),
            _ => loaded.run(Phase::Prompt, &ids, 0, &[ids.len() as u32 - 1]),
        })
    }
}

/// Copies the files of a folder and of the folders in it.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.as_ref().unwrap(), to.join(entry.as_ref().unwrap().file_name()));
        if entry.path().is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else if !entry.path().extension().is_some_and(|end| end == "gguf" || end == "npy") {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// How a directory's results are other than those of `transformers`; `None` if they are the same.
fn fault(got: &[f32], base: &[f32], case: &Case, tolerance: f32) -> Option<String> {
    let has = |keys: &[&str]| case.keys.keys().any(|key| keys.contains(&key.as_str()));
    let tolerance = if has(ACTIVATIONS) { GELU } else { tolerance };
    let moved = difference(got, base);
    match case.result.as_array() {
        Some(places) => places.iter().find_map(|place| {
            let (index, value) = (place[0].as_u64().unwrap(), place[1].as_f64().unwrap() as f32);
            let found = got[index as usize];
            let fits = (found - value).abs() <= tolerance * value.abs().max(1.0);
            (!fits).then(|| format!("{found} at {index}, expected {value}; moved by {moved}"))
        }),
        None if case.result == "same" => {
            (moved > tolerance).then(|| format!("moved by {moved}, expected no change"))
        }
        // a value that `transformers` refuses may be computed, but not as if the key were not there
        None => {
            let dynamic = Value::from(case.keys.clone()).to_string().contains("dynamic");
            let ignored = moved <= tolerance && !dynamic && !has(SHOWN);
            ignored.then(|| "not moved, expected a change or a refusal".to_owned())
        }
    }
}

#[test]
fn every_key_is_read_or_refused() {
    let mut failed = String::new();
    let (mut files, mut refused, mut read) = (0, 0, 0);
    for model in models() {
        if !path_of(&model.name).is_file() {
            continue;
        }
        files += 1;
        let copy = Copy::new(&model.path(""));
        let base = copy.results(&Map::new(), &model).unwrap();
        let tolerance = 1e-3f32.max(4.0 * model.rounding);
        for (number, case) in cases(&model.name).iter().enumerate() {
            let keys = Value::from(case.keys.clone()).to_string();
            let fault = match copy.results(&case.keys, &model) {
                Ok(got) => {
                    read += 1;
                    fault(&got, &base, case, tolerance)
                }
                Err(error) => {
                    refused += 1;
                    // the first case states all defaults
                    let may = case.result != "same"
                        || case.keys.keys().any(|key| REFUSED.contains(&key.as_str()));
                    (number == 0 || !may)
                        .then(|| format!("refused, expected {}: {error}", case.result))
                }
            };
            if let Some(fault) = fault {
                failed += &format!("{}: {keys}: {fault}\n", model.name);
            }
        }
    }
    println!("{files} files, {read} read, {refused} refused");
    assert!(failed.is_empty(), "\n{failed}");
}
