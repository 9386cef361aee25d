//! Seven published vocabularies compared with the ids of their original tokenizers for 46 texts
//! each (llama.cpp, `models/ggml-vocab-*.gguf.{inp,out}`). The data is not part of the repository;
//! without it the tests are skipped.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::path::{Path, PathBuf};

use pelton_testing::{Need, skip};
use pelton_tokenizer::{Special, Tokenizer};
use pelton_weights::Checkpoint;

const NAMES: [&str; 7] =
    ["bert-bge", "deepseek-llm", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2"];

fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/vocab");
    if folder.is_dir() {
        return Some(folder);
    }
    skip(Need::Data, format_args!("no {}", folder.display()));
    None
}

fn open(folder: &Path, name: &str) -> Tokenizer {
    let checkpoint = Checkpoint::open(folder.join(format!("ggml-vocab-{name}.gguf"))).unwrap();
    Tokenizer::from_metadata(checkpoint.metadata()).unwrap()
}

fn cases(folder: &Path, name: &str) -> Vec<(String, Vec<u32>)> {
    let read = |end| {
        std::fs::read_to_string(folder.join(format!("ggml-vocab-{name}.gguf.{end}"))).unwrap()
    };
    let texts = read("inp");
    let mut texts: Vec<_> = texts.split("\n__ggml_vocab_test__\n").map(str::to_owned).collect();
    assert_eq!(texts.pop().as_deref(), Some(""));
    let ids = read("out");
    let ids = ids
        .lines()
        .map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>());
    let ids: Vec<_> = ids.collect();
    assert_eq!(texts.len(), ids.len());
    assert_eq!(texts.len(), 46);
    texts.into_iter().zip(ids).collect()
}

/// Qwen composes characters, which its GGUF files do not state (`fixtures/make_composed.py`).
#[test]
fn decomposed_texts_have_the_ids_of_composed_ones() {
    let Some(folder) = folder() else { return };
    let tokenizer = open(&folder, "qwen2");
    let cases: serde_json::Value =
        serde_json::from_str(include_str!("fixtures/composed.json")).unwrap();
    for case in cases.as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let expected: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
        assert_eq!(tokenizer.encode(text, Special::Ignore).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn ids_equal_the_published_ones() {
    let Some(folder) = folder() else { return };
    let mut wrong = Vec::new();
    for name in NAMES {
        let tokenizer = open(&folder, name);
        for (text, expected) in cases(&folder, name) {
            let ids = tokenizer.encode(&text, Special::Ignore).unwrap();
            if ids != expected {
                wrong.push(format!("{name} {text:?}\n  got      {ids:?}\n  expected {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn ids_decode_to_their_text() {
    let Some(folder) = folder() else { return };
    // Encoding by BERT is not invertible.
    for name in NAMES.into_iter().filter(|name| *name != "bert-bge") {
        let tokenizer = open(&folder, name);
        for (text, ids) in cases(&folder, name) {
            assert_eq!(tokenizer.decode(&ids, false), text, "{name}");
            let mut decoder = tokenizer.decoder();
            let mut streamed: String = ids.iter().map(|&id| decoder.push(id)).collect();
            streamed.push_str(&decoder.finish());
            assert_eq!(streamed, text, "{name}");
        }
    }
}

/// Ids of llama.cpp's `llama_tokenize` with `add_special` and `parse_special`
/// (llama_cpp_python 0.3.36). Phi-3's turn markers absorb the white space after them; in
/// SentencePiece vocabularies a space is added to a text after a special token.
#[test]
fn prompts_begin_and_end_as_the_files_specify() {
    let Some(folder) = folder() else { return };
    let hello: [(&str, &[u32]); 7] = [
        ("bert-bge", &[101, 7592, 102]),
        ("deepseek-llm", &[100000, 17464]),
        ("gpt-2", &[15496]),
        ("llama-bpe", &[128000, 9906]),
        ("llama-spm", &[1, 15043]),
        ("phi-3", &[1, 15043]),
        ("qwen2", &[9707]),
    ];
    for (name, ids) in hello {
        assert_eq!(open(&folder, name).encode_prompt("Hello").unwrap(), ids, "{name}");
    }
    let marked: [(&str, &str, &[u32]); 5] = [
        ("llama-spm", "x</s> y<s>z", &[1, 921, 2, 29871, 343, 1, 503]),
        (
            "phi-3",
            "a\n<|user|>\n Hi<|end|> x</s> y",
            &[1, 263, 13, 32010, 6324, 32007, 921, 2, 343],
        ),
        ("qwen2", "<|im_start|>user\nHi<|im_end|>", &[151644, 872, 198, 13048, 151645]),
        ("llama-bpe", " q<|eot_id|>", &[128000, 2874, 128009]),
        ("bert-bge", "z [MASK] q", &[101, 1062, 103, 1053, 102]),
    ];
    for (name, text, ids) in marked {
        assert_eq!(open(&folder, name).encode_prompt(text).unwrap(), ids, "{name}");
    }
}

/// Compares with llama.cpp's `llama_vocab_is_eog`, except for tokens of other types than control
/// and for BERT's padding.
#[test]
fn end_tokens_equal_those_of_llama_cpp() {
    let Some(folder) = folder() else { return };
    let ends: [(&str, &[u32]); 7] = [
        ("bert-bge", &[]),
        ("deepseek-llm", &[100001]),
        ("gpt-2", &[50256]),
        ("llama-bpe", &[128001, 128009]),
        ("llama-spm", &[2]),
        ("phi-3", &[2, 32000, 32007]),
        ("qwen2", &[151643, 151645]),
    ];
    for (name, ids) in ends {
        let tokenizer = open(&folder, name);
        assert_eq!(tokenizer.ends(), ids, "{name}");
        assert!(ids.iter().all(|&id| tokenizer.is_end(id)), "{name}");
        assert!(!tokenizer.is_end(5), "{name}");
    }
}
