//! Rules of `tokenizer.json` that GGUF's keys express.
//!
//! A file with other rules is kept as a whole, under the key that GGUF has for it. The tokenizer
//! then reads it rule by rule.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::algorithm::Algorithm;
use super::contents::{Contents, Vocab, steps};
use super::{pre, special};

/// GGUF's key of a whole `tokenizer.json`.
pub(super) const FILE: &str = "tokenizer.huggingface.json";

/// Whether GGUF's keys express all rules of a file.
pub(super) fn is_plain(contents: &Contents, algorithm: Algorithm) -> bool {
    let model = &contents.model;
    let unset = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
    let normalizes = !steps(&contents.normalizer).is_empty();
    let added = contents.added_tokens.iter().all(|token| {
        let normalized = token.normalized.unwrap_or(!token.special) && normalizes;
        !(token.single_word || token.lstrip || token.rstrip || normalized)
    });
    let parts = [&contents.normalizer, &contents.pre_tokenizer, &contents.decoder];
    let exact = added && parts.into_iter().all(sequences_are_exact);
    let common = exact && model.dropout.unwrap_or(0.0) == 0.0 && unset(&model.end_of_word_suffix);
    common
        && match algorithm {
            Algorithm::ByteLevel => {
                unset(&model.continuing_subword_prefix) && is_byte_level(contents)
            }
            Algorithm::SentencePiece => {
                unset(&model.continuing_subword_prefix) && is_sentence_piece(contents)
            }
            Algorithm::Marked => unset(&model.continuing_subword_prefix) && is_marked(contents),
            Algorithm::WordPiece => is_bert(contents),
            // The file's own rules of the normalization table and of scores are others than those
            // of SentencePiece.
            Algorithm::Unigram | Algorithm::Other => false,
        }
}

/// Whether sequences have no keys but those of their kind.
fn sequences_are_exact(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            (map.get("type").is_none_or(|kind| kind != "Sequence") || map.len() == 2)
                && map.values().all(sequences_are_exact)
        }
        Value::Array(items) => items.iter().all(sequences_are_exact),
        _ => true,
    }
}

fn is_byte_level(contents: &Contents) -> bool {
    let Vocab::Ids(ids) = &contents.model.vocab else { return false };
    let model = &contents.model;
    let Some(known) = pre::known(&contents.pre_tokenizer, model.ignore_merges == Some(true)) else {
        return false;
    };
    let forms: &[Value] = if known.composes { &[json!("NFC")] } else { &[] };
    let kinds = steps(&contents.normalizer);
    let normalizer = kinds.len() == forms.len()
        && kinds.iter().zip(forms).all(|(step, form)| **step == json!({"type": form}));
    // no text is unknown where each byte has a token
    let letters = ids.iter().filter(|(text, _)| special::is_byte_letter(text)).count();
    let decoder = matches!(steps(&contents.decoder).as_slice(), [step] if pre::is_byte_level(step));
    let known_bytes = letters == 256 || model.unk_token.is_none();
    normalizer && decoder && known_bytes && model.byte_fallback != Some(true)
}

/// Whether a file is a conversion of SentencePiece's BPE: merges are ranked by their results.
fn is_sentence_piece(contents: &Contents) -> bool {
    let model = &contents.model;
    let Vocab::Ids(ids) = &model.vocab else { return false };
    let prepend = json!({"type": "Prepend", "prepend": "\u{2581}"});
    let normalizers = steps(&contents.normalizer);
    let pre_tokenizers = steps(&contents.pre_tokenizer);
    let spaces = match (normalizers.as_slice(), pre_tokenizers.as_slice()) {
        ([first, second], []) => **first == prepend && **second == marks("content"),
        ([only], []) => **only == marks("content"),
        ([], [only]) => is_metaspace(only),
        _ => false,
    };
    spaces
        && decodes_marks(&contents.decoder)
        && model.ignore_merges != Some(true)
        && has_bytes(ids)
        && merges_are_complete(contents, ids)
}

/// Whether a file is of the kind of Gemma 4: merges over text with marks.
fn is_marked(contents: &Contents) -> bool {
    let Vocab::Ids(ids) = &contents.model.vocab else { return false };
    let normalizers = steps(&contents.normalizer);
    let split = json!({
        "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false,
    });
    matches!(normalizers.as_slice(), [only] if **only == marks("content"))
        && steps(&contents.pre_tokenizer).iter().all(|step| **step == split)
        && decodes_marks(&contents.decoder)
        && contents.model.ignore_merges != Some(true)
        && has_bytes(ids)
}

fn is_bert(contents: &Contents) -> bool {
    let model = &contents.model;
    let normalizer = match steps(&contents.normalizer).as_slice() {
        [Value::Object(step)] => step.iter().all(|(key, value)| match key.as_str() {
            "type" => value == "BertNormalizer",
            "clean_text" | "handle_chinese_chars" => *value == Value::Bool(true),
            "lowercase" => value.is_boolean(),
            "strip_accents" => value.is_boolean() || value.is_null(),
            _ => false,
        }),
        _ => false,
    };
    let decoder = json!({"type": "WordPiece", "prefix": "##", "cleanup": false});
    normalizer
        && contents.pre_tokenizer == json!({"type": "BertPreTokenizer"})
        && contents.decoder == decoder
        && model.continuing_subword_prefix.as_deref() == Some("##")
        && model.max_input_chars_per_word == Some(100)
}

/// The step that replaces spaces by marks.
fn marks(key: &str) -> Value {
    json!({"type": "Replace", "pattern": {"String": " "}, key: "\u{2581}"})
}

fn is_metaspace(step: &Value) -> bool {
    let Value::Object(step) = step else { return false };
    step.iter().all(|(key, value)| match key.as_str() {
        "type" => value == "Metaspace",
        "replacement" | "str_rep" => value == "\u{2581}",
        "prepend_scheme" => value.is_string(),
        "add_prefix_space" | "split" => value.is_boolean(),
        _ => false,
    })
}

/// Whether a decoder gives spaces for marks and bytes for byte tokens.
fn decodes_marks(decoder: &Value) -> bool {
    let all = steps(decoder);
    let expected = [
        json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
        json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}),
    ];
    all.len() >= 3 && all.len() <= 4 && all.iter().zip(&expected).all(|(step, one)| *step == one)
}

fn has_bytes(ids: &[(String, u64)]) -> bool {
    ids.iter().filter(|(text, _)| special::is_byte_token(text)).count() == 256
}

/// Whether every pair of tokens that form a token is a merge, ranked by that token.
fn merges_are_complete(contents: &Contents, ids: &[(String, u64)]) -> bool {
    let merges = &contents.model.merges.0;
    let pairs: HashSet<(&str, &str)> =
        merges.iter().map(|(left, right)| (left.as_str(), right.as_str())).collect();
    let texts: HashSet<&str> = ids.iter().map(|(text, _)| text.as_str()).collect();
    let added: HashSet<&str> =
        contents.added_tokens.iter().map(|token| token.content.as_str()).collect();
    let mut results = HashSet::new();
    let mut last = String::new();
    let ranked = merges.iter().all(|(left, right)| {
        let result = format!("{left}{right}");
        let again = result == last || results.insert(result.clone());
        last = result;
        again
    });
    let is_text = |text: &str| !special::is_byte_token(text) && !added.contains(text);
    ranked
        && texts.iter().filter(|text| is_text(text)).all(|text| {
            text.char_indices().skip(1).all(|(at, _)| {
                let (left, right) = text.split_at(at);
                let both = texts.contains(left) && texts.contains(right);
                !both || !is_text(left) || !is_text(right) || pairs.contains(&(left, right))
            })
        })
}
