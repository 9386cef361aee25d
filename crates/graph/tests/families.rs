//! Plans of the tiny models of all families under `tests/fixtures/models`, which llama.cpp's
//! converter wrote.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::fs;
use std::path::{Path, PathBuf};

use pelton_graph::{Op, Plan, RopeStyle, Scores, build, build_for};
use pelton_testing::ModelSpec;
use pelton_weights::Checkpoint;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models")
}

fn plan(name: &str) -> Plan {
    build(&Checkpoint::open(folder().join(name).join("model.gguf")).unwrap()).unwrap()
}

#[test]
fn every_model_has_a_plan() {
    let mut failed = String::new();
    let mut count = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path().join("model.gguf");
        if !path.is_file() {
            continue;
        }
        match Checkpoint::open(&path) {
            Ok(checkpoint) => {
                count += 1;
                if let Err(error) = build(&checkpoint) {
                    failed += &format!("{error}\n");
                }
            }
            Err(error) => failed += &format!("{error}\n"),
        }
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(count >= 60, "{count}");
}

#[test]
fn printed_plans() {
    for name in ["gemma2", "cohere2", "gpt-oss", "bert", "deepseek-v3", "qwen3.5-moe", "gemma4"] {
        insta::assert_snapshot!(name, plan(name).to_string());
    }
}

/// Windowed and other layers have page tables of their own, so that pages of the former are freed.
#[test]
fn windows_have_groups() {
    let windows = |name| -> Vec<_> { plan(name).groups.iter().map(|group| group.window).collect() };
    assert_eq!(windows("gemma2"), [Some(12), None]);
    assert_eq!(windows("qwen3"), [None]);
    assert_eq!(windows("modernbert"), [None]);
}

/// YaRN's frequencies and its factor by the paper's formulas (arXiv 2309.00071), in Python's f64:
/// base 10,000, 96 elements, factor 4, 32 original positions.
#[test]
fn yarn() {
    let plan = plan("qwen3-yarn");
    let rope = &plan.ropes[0];
    assert!((rope.factor - 1.138_629_4).abs() < 1e-6, "{}", rope.factor);
    let found = [0, 4, 8, 16, 47].map(|pair| rope.frequencies[pair]);
    let expected = [1.0, 0.309_439_26, 0.071_814_49, 0.011_603_972, 3.028_819e-5];
    for (found, expected) in found.into_iter().zip(expected) {
        assert!((found / expected - 1.0f32).abs() < 1e-5, "{found}, expected {expected}");
    }
}

/// LongRoPE has two tables; a context that the short one is meant for takes it.
#[test]
fn long_and_short_tables() {
    let path = folder().join("phi3-longrope/model.gguf");
    let checkpoint = Checkpoint::open(path).unwrap();
    let first = |context| {
        let plan = build_for(&checkpoint, context).unwrap();
        (plan.context, plan.ropes[0].frequencies[1])
    };
    let unscaled = 10_000f32.powf(-1.0 / 12.0);
    let close = |(_, found): (usize, f32), divisor: f32| (found * divisor / unscaled - 1.0).abs();
    assert_eq!(first(Some(40)).0, 40);
    assert!(close(first(Some(40)), 1.1) < 1e-5);
    assert_eq!(first(None).0, 256);
    assert!(close(first(None), 1.6) < 1e-5);
    assert!(close(first(Some(41)), 1.6) < 1e-5);
}

/// Files of GLM-4.7-Flash do not tell how experts are scored; llama.cpp takes sigmoids for them.
#[test]
fn scores_of_a_choice_with_a_bias_are_sigmoids() {
    let mut file = fs::read(folder().join("deepseek-v3/model.gguf")).unwrap();
    let scores = |plan: &Plan| {
        plan.steps.iter().find_map(|step| match &step.op {
            Op::Route(route) => Some(route.scores),
            _ => None,
        })
    };
    let key = b"deepseek2.expert_gating_func";
    let at = file.windows(key.len()).position(|window| window == key).unwrap();
    file[at + key.len() - 1] = b'?';
    let silent = build(&Checkpoint::from_bytes("m", file).unwrap()).unwrap();
    assert_eq!(scores(&plan("deepseek-v3")), Some(Scores::Sigmoid));
    assert_eq!(scores(&silent), Some(Scores::Sigmoid));
}

/// The error of a model with another value of a key that is an integer.
fn error_with(name: &str, key: &str, value: u32) -> String {
    let mut file = fs::read(folder().join(name).join("model.gguf")).unwrap();
    let at = file.windows(key.len()).position(|window| window == key.as_bytes()).unwrap();
    // the type of the value comes before it
    let at = at + key.len() + 4;
    file[at..at + 4].copy_from_slice(&value.to_le_bytes());
    build(&Checkpoint::from_bytes("m", file).unwrap()).unwrap_err().to_string()
}

#[test]
fn absurd_sizes_are_refused_by_their_keys() {
    for (name, key, value, expected) in [
        ("mixtral", "llama.expert_used_count", 99, "1 to "),
        ("mixtral", "llama.expert_count", 1 << 17, "1 to 65536"),
        ("deepseek-v3", "deepseek2.expert_group_count", 4, "a divisor of the "),
        ("deepseek-v3", "deepseek2.rope.dimension_count", 1 << 15, "less than "),
        ("deepseek-v3", "deepseek2.attention.kv_lora_rank", 0, "1 to 65536"),
        ("deepseek-v3", "deepseek2.expert_gating_func", 9, "1 (softmax), 2 (sigmoid) or "),
        ("qwen3.5", "qwen35.ssm.time_step_rank", 3, "a multiple of the "),
        ("qwen3.5", "qwen35.ssm.inner_size", 3, "a multiple of the "),
        ("qwen3.5", "qwen35.ssm.conv_kernel", 1, "2 to 65536"),
        ("lfm2", "lfm2.shortconv.l_cache", 1, "2 to 65536"),
        ("granite-hybrid", "granitehybrid.ssm.state_size", 1_000_000_000, "1 to 65536"),
        ("granite-hybrid", "granitehybrid.ssm.group_count", 4, "a divisor of the 6 heads"),
        ("granite-hybrid", "granitehybrid.ssm.inner_size", 47, "a multiple of the 6 heads"),
        ("granite-hybrid", "granitehybrid.ssm.conv_kernel", 1, "2 to 65536"),
        ("gemma4-shared-kv", "gemma4.attention.shared_kv_layers", 99, "0 to "),
        ("llama4", "llama4.expert_used_count", 2, "1 in this architecture"),
        ("bert", "bert.pooling_type", 9, "0 to 4 (none, mean, first, last, rank)"),
    ] {
        let error = error_with(name, key, value);
        let start = format!("m: metadata key \"{key}\" is {value}, expected {expected}");
        assert!(error.starts_with(&start), "{error}");
    }
}

#[test]
fn tensors_must_have_the_sizes_of_keys() {
    let error = error_with("mixtral", "llama.expert_count", 3);
    assert!(error.starts_with("m: tensor \"blk.0.ffn_gate_inp.weight\" has shape"), "{error}");
    for (key, value) in [("state_size", 9), ("inner_size", 54), ("time_step_rank", 8)] {
        let error = error_with("granite-hybrid", &format!("granitehybrid.ssm.{key}"), value);
        assert!(error.starts_with("m: tensor \"blk.0.ssm_in.weight\" has shape"), "{error}");
    }
    let error = error_with("lfm2", "lfm2.shortconv.l_cache", 5);
    assert!(error.starts_with("m: tensor \"blk.0.shortconv.conv.weight\" has shape"), "{error}");
    let error = error_with("gemma2", "gemma2.attention.key_length", 22);
    assert!(error.starts_with("m: tensor \"blk.0.attn_q.weight\" has shape"), "{error}");
}

/// transformers has no class for MiniCPM 1 and 2, InternLM 2 and EXAONE 3, so there are no
/// fixtures: the factors of the published `configuration_minicpm.py`, and the pairing of each.
#[test]
fn families_without_fixtures() {
    let plan =
        |architecture| build(&ModelSpec { architecture, ..ModelSpec::default() }.checkpoint());
    let scales: Vec<_> = plan("minicpm")
        .unwrap()
        .steps
        .iter()
        .filter_map(|step| match step.op {
            Op::Scale(factor) => Some(factor),
            _ => None,
        })
        .collect();
    // scale_emb, scale_depth / √layers for each of four branches, dim_model_base / hidden
    let branch = 1.4 / 2f32.sqrt();
    assert_eq!(scales, [12.0, branch, branch, branch, branch, 4.0]);
    let style = |architecture| plan(architecture).unwrap().ropes[0].style;
    assert_eq!(style("internlm2"), RopeStyle::Interleaved);
    assert_eq!(style("exaone"), RopeStyle::Halves);
}
