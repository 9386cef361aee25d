//! Hugging Face directories compared with their conversions by llama.cpp's converter: the tiny
//! models of `tests/fixtures/models`, whose GGUF files `make_models.py` had llama.cpp write.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use pelton_quant::DType;
use pelton_weights::{Array, Checkpoint, Source, Value};
use safetensors::SafeTensors;
use serde_json::Value as Json;

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models")
}

/// Keys that say nothing about the computation, or whose value is a property of the file.
const INCIDENTAL: &[&str] = &[
    "general.name",
    "general.basename",
    "general.finetune",
    "general.size_label",
    "general.version",
    "falcon.tensor_data_layout",
    "orion.tensor_data_layout",
    "xverse.tensor_data_layout",
    "general.file_type",
    "general.quantization_version",
    "general.alignment",
];

/// Architectures whose converter reorders the rows of queries and keys for rotary embedding.
const PERMUTED: &[&str] = &[
    "llama",
    "llama-embed",
    "mistral3",
    "smollm3",
    "granite",
    "granitemoe",
    "granite_swa",
    "granitehybrid",
    "nemotron_h",
    "nemotron_h_moe",
    "minicpm",
    "internlm2",
    "arcee",
    "bailingmoe",
    "xverse",
    "baichuan",
    "deci",
    "deepseek",
    "hyperclovax",
    "muse-glimmer",
    "olmo",
];

/// Rows of heads whose two halves are interleaved, as the converter writes them.
fn interleaved(values: &[f32], row: usize, heads: usize) -> Vec<f32> {
    let rows: Vec<&[f32]> = values.chunks_exact(row).collect();
    let half = rows.len() / heads / 2;
    let of_head = |head: usize| {
        (0..half).flat_map(move |pair| [head * 2 * half + pair, head * 2 * half + half + pair])
    };
    (0..heads).flat_map(of_head).flat_map(|index| rows[index].to_vec()).collect()
}

/// Differences from llama.cpp's converter on purpose, with their reasons.
const INTENDED: &[(&str, &str)] = &[
    // The converter drops the pooler, without which the scores are not the model's.
    ("bert-reranker", "has cls.bias [48] in addition"),
    ("bert-reranker", "has cls.weight [48, 48] in addition"),
    // GGUF has no name for the bias after the sum of experts.
    ("nomic-bert-moe", "has blk.1.ffn_exps_sum.bias [48] in addition"),
    // The positions that the model was trained with; the converter subtracts XLM-R's padding from
    // another number.
    ("nomic-bert-moe", "nomic-bert-moe.context_length is U32(512), expected U32(2046)"),
    // The length of heads follows from their number, and one token type is none.
    ("nomic-bert-moe", "lacks the key nomic-bert-moe.attention.key_length = U32(16)"),
    ("nomic-bert-moe", "lacks the key nomic-bert-moe.attention.value_length = U32(16)"),
    ("nomic-bert-moe", "lacks the key tokenizer.ggml.token_type_count = U32(1)"),
    // The converter writes 2048 whatever the configuration says.
    ("falcon-7b", "falcon.context_length is U32(256), expected U32(2048)"),
    ("falcon-40b", "falcon.context_length is U32(256), expected U32(2048)"),
    // The converter extends the context of models with a stretched base to 262,144 positions.
    ("hunyuan-dense", "hunyuan-dense.context_length is U32(32768), expected U32(262144)"),
    ("hunyuan-dense", "lacks the key hunyuan-dense.rope.scaling.type = String(b\"none\")"),
    ("hunyuan-dense", "lacks the key hunyuan-dense.rope.scaling.factor = F32(1.0)"),
    (
        "hunyuan-dense",
        "lacks the key hunyuan-dense.rope.scaling.original_context_length = U32(262144)",
    ),
    // Heads for further tokens are none.
    ("exaone-moe", "lacks the key exaone-moe.nextn_predict_layers = U32(0)"),
    ("sarvam-moe", "lacks the key bailingmoe2.nextn_predict_layers = U32(0)"),
    ("solar-open", "lacks the key glm4moe.nextn_predict_layers = U32(0)"),
    // No layer is dense.
    ("solar-open", "lacks the key glm4moe.feed_forward_length = U32(12)"),
    // The converter has a length in its code, and keys of a rotation that no layer has.
    ("granite-hybrid", "granitehybrid.context_length is U32(256), expected U32(1048576)"),
    ("nemotron-h", "nemotron_h.context_length is U32(256), expected U32(1048576)"),
    ("nemotron-h", "lacks the key nemotron_h.rope.dimension_count = U32(8)"),
    ("nemotron-h", "lacks the key nemotron_h.rope.scaling.finetuned = Bool(false)"),
    ("nemotron-h-moe", "nemotron_h_moe.context_length is U32(256), expected U32(1048576)"),
    ("nemotron-h-moe", "lacks the key nemotron_h_moe.rope.dimension_count = U32(8)"),
    ("nemotron-h-moe", "lacks the key nemotron_h_moe.rope.scaling.finetuned = Bool(false)"),
    // These files have no classifier.
    ("eurobert", "lacks the key eurobert.classifier.pooling_type = U32(1)"),
    // The converter subtracts the mean of the biases, which changes no choice.
    ("sarvam-moe", "blk.1.exp_probs_b.bias has other values"),
    // No layer has experts, whose shared ones are the dense network.
    ("granite-dense-hybrid", "lacks the key granite.expert_shared_feed_forward_length = U32(24)"),
    // No layer has a recurrent state, so all layers have the same number of heads.
    (
        "granite-dense-hybrid",
        "granite.attention.head_count_kv is U32(1), expected Array(Array { item_type: I32, len: 2, \
         bytes: b\"\\x01\\0\\0\\0\\x01\\0\\0\\0\" })",
    ),
    ("granite-dense-hybrid", "lacks the key granite.ssm.conv_kernel = U32(4)"),
    ("granite-dense-hybrid", "lacks the key granite.ssm.state_size = U32(256)"),
    ("granite-dense-hybrid", "lacks the key granite.ssm.group_count = U32(1)"),
    ("granite-dense-hybrid", "lacks the key granite.ssm.inner_size = U32(48)"),
    ("granite-dense-hybrid", "lacks the key granite.ssm.time_step_rank = U32(6)"),
    // The length of heads follows from their number.
    ("afmoe", "lacks the key afmoe.rope.dimension_count = U32(16)"),
    // The converter writes factors of 1 for norms that have none.
    ("muse-glimmer", "lacks blk.0.attn_q_norm.weight [16]"),
    ("muse-glimmer", "lacks blk.0.attn_k_norm.weight [16]"),
    ("muse-glimmer", "lacks blk.1.attn_q_norm.weight [16]"),
    ("muse-glimmer", "lacks blk.1.attn_k_norm.weight [16]"),
    // Factors of activations are tensors, as directories have them; the converter writes keys.
    ("apertus", "has blk.0.ffn_act.alpha_n.weight [1] in addition"),
    ("apertus", "has blk.0.ffn_act.alpha_p.weight [1] in addition"),
    ("apertus", "has blk.0.ffn_act.beta.weight [1] in addition"),
    ("apertus", "has blk.0.ffn_act.eps.weight [1] in addition"),
    ("apertus", "has blk.1.ffn_act.alpha_n.weight [1] in addition"),
    ("apertus", "has blk.1.ffn_act.alpha_p.weight [1] in addition"),
    ("apertus", "has blk.1.ffn_act.beta.weight [1] in addition"),
    ("apertus", "has blk.1.ffn_act.eps.weight [1] in addition"),
    (
        "apertus",
        "lacks the key xielu.alpha_n = Array(Array { item_type: F32, len: 2, bytes: b\"\\0\\0\\x87\\xbf\\0\\0\\x8f\\xbf\" })",
    ),
    (
        "apertus",
        "lacks the key xielu.alpha_p = Array(Array { item_type: F32, len: 2, bytes: b\"\\0\\0\\xc5\\xbd\\0\\0\\x8b\\xbc\" })",
    ),
    (
        "apertus",
        "lacks the key xielu.beta = Array(Array { item_type: F32, len: 2, bytes: b\"\\0\\0\\0?\\0\\0\\0?\" })",
    ),
    (
        "apertus",
        "lacks the key xielu.eps = Array(Array { item_type: F32, len: 2, bytes: b\"\\0\\0\\x86\\xb5\\0\\0\\x86\\xb5\" })",
    ),
    // Latent attention is absorbed; the converter keeps one matrix of keys and values.
    ("minicpm3", "lacks blk.0.attn_kv_b.weight [20, 72]"),
    ("minicpm3", "lacks blk.1.attn_kv_b.weight [20, 72]"),
    ("minicpm3", "has blk.0.attn_k_b.weight [16, 20, 3] in addition"),
    ("minicpm3", "has blk.0.attn_v_b.weight [20, 8, 3] in addition"),
    ("minicpm3", "has blk.1.attn_k_b.weight [16, 20, 3] in addition"),
    ("minicpm3", "has blk.1.attn_v_b.weight [20, 8, 3] in addition"),
    ("minicpm3", "minicpm3.attention.head_count_kv is U32(1), expected U32(3)"),
    ("minicpm3", "minicpm3.attention.key_length is U32(8), expected U32(24)"),
    // A key that no program reads.
    ("baichuan", "lacks the key baichuan.tensor_data_layout = String(b\"Meta AI original pth\")"),
    (
        "baichuan-13b",
        "lacks the key baichuan.tensor_data_layout = String(b\"Meta AI original pth\")",
    ),
    // Values that are defaults.
    ("deepseek", "lacks the key deepseek.rope.scaling.type = String(b\"none\")"),
    ("deepseek", "lacks the key deepseek.expert_weights_scale = F32(1.0)"),
    ("codeshell", "lacks the key codeshell.rope.scaling.type = String(b\"linear\")"),
    ("codeshell", "lacks the key codeshell.rope.scaling.factor = F32(1.0)"),
    // The length of heads follows from their number.
    ("pangu-embedded", "lacks the key pangu-embedded.attention.key_length = U32(8)"),
    ("pangu-embedded", "lacks the key pangu-embedded.attention.value_length = U32(8)"),
    // The converter multiplies the tables by factors, which are keys here.
    ("jais", "output.weight has other values"),
    ("jais", "token_embd.weight has other values"),
    // As MiniCPM 3.
    ("plm", "lacks blk.0.attn_kv_b.weight [20, 84]"),
    ("plm", "lacks blk.1.attn_kv_b.weight [20, 84]"),
    ("plm", "has blk.0.attn_k_b.weight [16, 20, 3] in addition"),
    ("plm", "has blk.0.attn_v_b.weight [20, 12, 3] in addition"),
    ("plm", "has blk.1.attn_k_b.weight [16, 20, 3] in addition"),
    ("plm", "has blk.1.attn_v_b.weight [20, 12, 3] in addition"),
    ("plm", "plm.attention.head_count_kv is U32(1), expected U32(3)"),
    ("plm", "lacks the key plm.attention.key_length = U32(24)"),
    ("plm", "lacks the key plm.attention.value_length = U32(12)"),
];

fn heads(model: &Checkpoint, key: &str) -> Option<usize> {
    let architecture = model.metadata().string("general.architecture").unwrap();
    let key = format!("{architecture}.attention.{key}");
    match model.metadata().get(&key)? {
        // layers with a state have none
        Value::Array(array) => {
            all_numbers(array)?.into_iter().reduce(f64::max).map(|heads| heads as usize)
        }
        value => usize::try_from(value.as_integer()?).ok(),
    }
}

fn tensor_differences(ours: &Checkpoint, theirs: &Checkpoint, out: &mut String) {
    let architecture = theirs.metadata().string("general.architecture").unwrap();
    for expected in theirs.tensors() {
        let name = expected.name;
        let Some(found) = ours.tensor(name) else {
            writeln!(out, "  lacks {name} {:?}", expected.shape).unwrap();
            continue;
        };
        let trimmed = |shape: &[usize]| {
            shape.iter().rev().skip_while(|dim| **dim == 1).copied().collect::<Vec<_>>()
        };
        if trimmed(found.shape) != trimmed(expected.shape) {
            writeln!(out, "  {name} is {:?}, expected {:?}", found.shape, expected.shape).unwrap();
            continue;
        }
        let mut values = found.decode();
        let row = if found.shape.len() == 1 { 1 } else { found.row_len() };
        if PERMUTED.contains(&architecture) {
            let query = heads(theirs, "head_count").unwrap();
            if name.contains("attn_q.") {
                values = interleaved(&values, row, query);
            } else if name.contains("attn_k.") {
                let key = heads(theirs, "head_count_kv").unwrap_or(query);
                values = interleaved(&values, row, key);
            }
        }
        let expected = expected.decode();
        // llama.cpp computes frequencies in f32.
        let close = |a: f32, b: f32| a == b || (a - b).abs() <= 2e-6 * b.abs();
        let exact = !name.starts_with("rope_") && !name.ends_with("ssm_a");
        let same =
            values.iter().zip(&expected).all(|(a, b)| if exact { a == b } else { close(*a, *b) });
        if !same {
            writeln!(out, "  {name} has other values").unwrap();
        }
    }
    for found in ours.tensors() {
        if theirs.tensor(found.name).is_none() {
            writeln!(out, "  has {} {:?} in addition", found.name, found.shape).unwrap();
        }
    }
}

/// Numbers of a value, whatever their type.
fn numbers(value: &Value) -> Option<Vec<f64>> {
    match value {
        Value::F32(v) => Some(vec![f64::from(*v)]),
        Value::F64(v) => Some(vec![*v]),
        Value::Bool(v) => Some(vec![f64::from(u8::from(*v))]),
        Value::Array(array) => all_numbers(array),
        other => Some(vec![other.as_integer()? as f64]),
    }
}

fn all_numbers(array: &Array) -> Option<Vec<f64>> {
    let lists: Option<Vec<_>> = array.values().map(|value| numbers(&value)).collect();
    Some(lists?.concat())
}

fn same_value(found: &Value, expected: &Value) -> bool {
    match (numbers(found), numbers(expected)) {
        (Some(found), Some(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-7 * b.abs())
        }
        _ => found == expected,
    }
}

fn key_differences(ours: &Checkpoint, theirs: &Checkpoint, out: &mut String) {
    for (key, expected) in theirs.metadata().iter() {
        if INCIDENTAL.contains(&key) {
            continue;
        }
        match ours.metadata().get(key) {
            None => writeln!(out, "  lacks the key {key} = {expected:?}").unwrap(),
            Some(found) if !same_value(found, expected) => {
                writeln!(out, "  {key} is {found:?}, expected {expected:?}").unwrap();
            }
            Some(_) => {}
        }
    }
}

#[test]
fn directories_are_what_llama_cpp_converts_them_to() {
    let index: Json =
        serde_json::from_slice(&fs::read(models().join("models.json")).unwrap()).unwrap();
    let mut out = String::new();
    let mut compared = 0;
    for (name, about) in index.as_object().unwrap() {
        let folder = models().join(name);
        let mut own = String::new();
        match Checkpoint::open(&folder) {
            Err(error) => writeln!(own, "  {error}").unwrap(),
            Ok(ours) => {
                assert_eq!(ours.source(), Source::HuggingFace);
                // MXFP4 experts are expanded to BF16 by a build without that type, which cannot
                // open the GGUF file either.
                let readable = name != "gpt-oss-mxfp4" || DType::from_name("MXFP4").is_some();
                // the weights of its GGUF file are times factors, which are keys here
                let is_scaled = name == "falcon-h1";
                if about["gguf"] == true && readable && !is_scaled {
                    match Checkpoint::open(folder.join("model.gguf")) {
                        Err(error) => writeln!(own, "  {error}").unwrap(),
                        Ok(theirs) => {
                            tensor_differences(&ours, &theirs, &mut own);
                            key_differences(&ours, &theirs, &mut own);
                            compared += 1;
                        }
                    }
                }
            }
        }
        for (_, difference) in INTENDED.iter().filter(|(model, _)| model == name) {
            let before = own.len();
            own = own.replacen(&format!("  {difference}\n"), "", 1);
            assert!(own.len() < before, "{name} no longer {difference}");
        }
        if !own.is_empty() {
            write!(out, "{name}:\n{own}").unwrap();
        }
    }
    assert!(compared > 50, "only {compared} models were compared");
    assert!(out.is_empty(), "{out}");
}

/// FP8 tensors with scales by block, by row and for the whole, compared with torch.
#[test]
fn fp8_is_expanded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fp8");
    let model = Checkpoint::open(&folder).unwrap();
    let bytes = fs::read(folder.join("expected.safetensors")).unwrap();
    let expected = SafeTensors::deserialize(&bytes).unwrap();
    let names =
        [("mlp.up_proj", "ffn_up"), ("mlp.gate_proj", "ffn_gate"), ("self_attn.q_proj", "attn_q")];
    for (theirs, ours) in names {
        let found = model.require(&format!("blk.0.{ours}.weight"), &[144, 160]).unwrap();
        assert_eq!(found.dtype, DType::BF16);
        assert!(found.bytes == expected.tensor(theirs).unwrap().data(), "{ours}");
    }
}
