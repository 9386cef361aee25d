//! Options for rotations and for keys of the metadata, against transformers: the fixture
//! `qwen3-yarn` without its extension in the file, and with it in the options.

use std::{
    fs,
    path::{Path, PathBuf},
};

use pelton::{
    Device, Engine, Error, GenerateOptions, KvType, LoadOption, LoadOptions, Prompt, Sampling,
};
use pelton_testing::npy::{floats, integers};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models").join(name)
}

/// The fixture without its extension.
fn plain() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder("qwen3-yarn")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "gguf") {
            fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let path = copy.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["max_position_embeddings"] = 32.into();
    config.as_object_mut().unwrap().remove("rope_scaling").unwrap();
    fs::write(&path, config.to_string()).unwrap();
    copy
}

fn options(values: &[(&str, &str)]) -> LoadOptions {
    let mut options = LoadOptions::default().kv(KvType::F32);
    for (name, value) in values {
        LoadOption::find(name).unwrap().set(&mut options, value).unwrap();
    }
    options
}

fn load(path: &Path, values: &[(&str, &str)]) -> Result<pelton::Model, Error> {
    let engine = Engine::builder().device(Device::Cpu).threads(1).build().unwrap();
    engine.load(path, &options(values))
}

/// The greatest difference of the likeliest log-probabilities after the fixture's text.
fn difference(path: &Path, values: &[(&str, &str)]) -> f64 {
    let model = load(path, values).unwrap();
    let ids = integers(folder("qwen3-yarn").join("ids.npy"));
    let tokens = ids;
    assert!(tokens.len() > 32 && model.context() > tokens.len(), "{}", model.context());
    let logits = floats(folder("qwen3-yarn").join("logits.npy"));
    let last: Vec<f64> =
        logits[logits.len() - logits.len() / tokens.len()..].iter().map(|&x| x.into()).collect();
    let sum = last.iter().map(|x| x.exp()).sum::<f64>().ln();
    let greedy = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(1).logprobs(10);
    let mut stream = model.generate(Prompt::Tokens(tokens), greedy).unwrap();
    let top = stream.next().unwrap().unwrap().top;
    assert_eq!(top.len(), 10);
    let of =
        |one: &pelton::TokenLogprob| (f64::from(one.logprob) - last[one.id as usize] + sum).abs();
    top.iter().map(of).fold(0.0, f64::max)
}

const YARN: [(&str, &str); 2] = [("rope_scaling", "yarn"), ("rope_scale", "4")];

#[test]
fn extensions_are_those_of_the_reference() {
    let plain = plain();
    let gguf = folder("qwen3-yarn").join("model.gguf");
    let original = [&YARN[..], &[("yarn_orig_ctx", "32")]].concat();
    let keys = [
        ("override_kv", "*.rope.scaling.type=str:yarn"),
        ("override_kv", "qwen3.rope.scaling.factor=float:4"),
        ("override_kv", "*.rope.scaling.original_context_length=int:32"),
        ("override_kv", "*.context_length=int:128"),
    ];
    for (path, values) in [
        (plain.path(), &YARN[..]),
        (plain.path(), &original),
        (plain.path(), &keys),
        (&gguf, &[]),
        (&gguf, &original),
        // the file says yarn, and whence
        (&gguf, &[("rope_scale", "4")]),
    ] {
        let found = difference(path, values);
        assert!(found < 1e-3, "{}, {values:?}: {found}", path.display());
    }
    for (path, values) in [
        (plain.path(), &[("rope_scale", "4")][..]),
        (plain.path(), &[("rope_scaling", "yarn"), ("rope_scale", "3")]),
        (&gguf, &[("rope_scaling", "yarn"), ("rope_scale", "4"), ("yarn_orig_ctx", "200")]),
        (&gguf, &[("override_kv", "*.rope.freq_base=float:2000")]),
        (&gguf, &[("rope_freq_base", "2000")]),
    ] {
        let found = difference(path, values);
        assert!(found > 1e-2, "{}, {values:?}: {found}", path.display());
    }
}

/// The context is the extended one, and the option `none` takes an extension back.
#[test]
fn the_context_follows_the_extension() {
    let plain = plain();
    let context = |path: &Path, values: &[(&str, &str)]| {
        load(path, &[&[("fit_context", "true")][..], values].concat()).unwrap().context()
    };
    assert_eq!(context(plain.path(), &[]), 32);
    assert_eq!(context(plain.path(), &YARN), 128);
    assert_eq!(context(plain.path(), &[("rope_scale", "2.5")]), 80);
    let gguf = folder("qwen3-yarn").join("model.gguf");
    assert_eq!(context(&gguf, &[("rope_scaling", "none")]), 32);
    assert_eq!(context(&gguf, &[("override_kv", "qwen3.context_length=int:64")]), 64);
}

#[test]
fn extensions_that_cannot_be_are_refused() {
    let plain = plain();
    let error =
        |path: &Path, values: &[(&str, &str)]| load(path, values).err().unwrap().to_string();
    let lacks = error(plain.path(), &[("rope_scaling", "yarn")]);
    assert_eq!(lacks, "rope_scaling yarn cannot be: it needs a factor: rope_scale");
    let wrong = [("rope_scaling", "linear"), ("rope_scale", "2"), ("yarn_orig_ctx", "9")];
    assert!(error(plain.path(), &wrong).contains("belongs to yarn alone"));
    assert!(error(&folder("phi3-longrope"), &YARN).contains("tables of factors"));
    assert!(error(&folder("gpt2"), &YARN).contains("no rotations"));
    // a value of another type is an error of the key
    let error = error(plain.path(), &[("override_kv", "qwen3.block_count=str:two")]);
    assert!(error.contains("qwen3.block_count"), "{error}");
    for text in ["a", "a=1", "=int:1", "a=int:x", "a=float:inf", "a=bool:1", "a=list:1"] {
        let row = LoadOption::find("override_kv").unwrap();
        let refused = row.set(&mut LoadOptions::default(), text).unwrap_err();
        assert!(refused.starts_with("expected"), "{text}: {refused}");
    }
}

/// Tokens of a text follow a key of the tokenizer.
#[test]
fn tokens_follow_the_metadata() {
    let gguf = folder("qwen3-yarn").join("model.gguf");
    let count = |values: &[(&str, &str)]| {
        let model = load(&gguf, values).unwrap();
        let stream = model.generate("a", GenerateOptions::default().max_tokens(1)).unwrap();
        let handle = stream.handle().clone();
        assert!(stream.count() <= 1);
        handle.stats().prompt_tokens
    };
    let with = count(&[("override_kv", "tokenizer.ggml.add_bos_token=bool:true")]);
    let without = count(&[("override_kv", "tokenizer.ggml.add_bos_token=bool:false")]);
    assert_eq!(with, without + 1);
}
