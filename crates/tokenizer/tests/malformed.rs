//! Inconsistent vocabularies are rejected with a message that names the key.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use pelton_tokenizer::{DecodeState, Error, Model, Special, TokenType, Tokenizer, Vocabulary};
use pelton_weights::{Array, Checkpoint, GgufWriter, ValueType};

fn bpe() -> Vocabulary<'static> {
    let mut vocabulary = Vocabulary::new(Model::Bpe, vec!["a", "b", "ab", "Ġ"]);
    vocabulary.pre = Some("gpt-2");
    vocabulary.merges = Some(vec!["a b"]);
    vocabulary
}

fn rejected(change: impl FnOnce(&mut Vocabulary<'static>)) -> String {
    let mut vocabulary = bpe();
    change(&mut vocabulary);
    Tokenizer::new(vocabulary).unwrap_err().to_string()
}

#[track_caller]
fn check(message: &str, expected: &[&str]) {
    for part in expected {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

#[test]
fn the_unmodified_vocabulary_is_valid() {
    Tokenizer::new(bpe()).unwrap();
}

#[test]
fn arrays_of_other_lengths() {
    check(&rejected(|v| v.scores = Some(vec![0.0; 3])), &["scores", "3", "4"]);
    check(&rejected(|v| v.types.push(TokenType::Normal)), &["token_type", "5", "4"]);
}

#[test]
fn ids_out_of_range() {
    check(&rejected(|v| v.bos = Some(4)), &["bos_token_id is 4", "4 tokens"]);
    check(&rejected(|v| v.eos = Some(u32::MAX)), &["eos_token_id is 4294967295"]);
    check(&rejected(|v| v.eot = Some(9)), &["eot_token_id"]);
    check(&rejected(|v| v.eom = Some(9)), &["eom_token_id"]);
    check(&rejected(|v| v.unknown = Some(9)), &["unknown_token_id"]);
    check(&rejected(|v| v.separator = Some(9)), &["seperator_token_id"]);
}

#[test]
fn merges() {
    check(&rejected(|v| v.merges = None), &["tokenizer.ggml.merges is missing"]);
    let faults = [
        ("a", "two pieces"),
        ("", "two pieces"),
        ("a ", "two pieces"),
        (" b", "two pieces"),
        ("x b", "left piece"),
        ("a x", "right piece"),
        ("b a", "concatenation"),
        ("a b b", "right piece"),
    ];
    for (merge, fault) in faults {
        let message = rejected(|v| v.merges = Some(vec!["a b", merge]));
        check(&message, &["merges", "index 1", &format!("{merge:?}"), fault]);
    }
}

#[test]
fn pre_tokenizers() {
    check(&rejected(|v| v.pre = None), &["tokenizer.ggml.pre is missing"]);
    check(&rejected(|v| v.pre = Some("my-own")), &["\"my-own\"", "not in the table"]);
    check(&rejected(|v| v.pre = Some("")), &["\"\""]);
}

#[test]
fn tokens() {
    check(&rejected(|v| v.types[3] = TokenType::Byte), &["token 3", "<0x00>"]);
    let long = "a".repeat(5000).leak();
    check(&rejected(|v| v.tokens[3] = long), &["token 3", "5000", "4096"]);
}

#[test]
fn scores() {
    let sentence_piece = |scores: Option<Vec<f32>>| {
        rejected(|v| {
            v.model = Model::SentencePiece;
            v.bos = Some(0);
            v.scores = scores;
        })
    };
    check(&sentence_piece(None), &["tokenizer.ggml.scores is missing"]);
    check(&sentence_piece(Some(vec![0.0, 0.0, f32::NAN, 0.0])), &["token 2", "NaN"]);
    check(&sentence_piece(Some(vec![f32::INFINITY; 4])), &["token 0", "inf"]);
}

#[test]
fn required_unknown_tokens() {
    let needed = |model| {
        rejected(|v| {
            v.model = model;
            v.scores = Some(vec![0.0; 4]);
            (v.bos, v.eos, v.separator) = (Some(0), Some(0), Some(0));
        })
    };
    check(&needed(Model::WordPiece), &["unknown_token_id is missing"]);
    check(&needed(Model::Unigram), &["unknown_token_id is missing"]);
}

#[test]
fn normalization_tables() {
    let unigram = |charsmap: &[u8]| {
        let mut vocabulary = bpe();
        vocabulary.model = Model::Unigram;
        vocabulary.scores = Some(vec![0.0; 4]);
        (vocabulary.eos, vocabulary.unknown) = (Some(0), Some(1));
        vocabulary.charsmap = charsmap.to_vec();
        let tokenizer = Tokenizer::new(vocabulary)?;
        tokenizer.encode("a\u{c0}b", pelton_tokenizer::Special::Ignore)
    };
    unigram(&[]).unwrap();
    let fault = |bytes: &[u8]| unigram(bytes).unwrap_err().to_string();
    check(&fault(&[1, 0]), &["precompiled_charsmap", "header"]);
    check(&fault(&[255, 255, 255, 255, 0]), &["whole number"]);
    check(&fault(&[8, 0, 0, 0, 0, 0, 0, 0, 0]), &["shorter than its header declares"]);
    check(&fault(&[4, 0, 0, 0, 0, 0, 0, 0, 1]), &["NUL byte"]);
    check(&fault(&[4, 0, 0, 0, 0, 0, 0, 0, 0xff, 0]), &["UTF-8"]);
    // One unit, whose children are out of range.
    check(&fault(&[4, 0, 0, 0, 0, 0, 0xff, 0x7f, 0]), &["outside its double array"]);
}

/// A model file with these keys in addition to a `gpt2` vocabulary.
fn file(keys: &[(&str, pelton_weights::Value)]) -> Result<Tokenizer, Error> {
    let strings = |texts: &[&str]| {
        let texts = texts.iter().map(|&text| pelton_weights::Value::from(text));
        pelton_weights::Value::from(Array::new(ValueType::String, texts).unwrap())
    };
    let mut writer = GgufWriter::new();
    let mut set = |key: &str, value: pelton_weights::Value| {
        if !keys.iter().any(|(changed, _)| *changed == key) {
            writer.set(key, value).unwrap();
        }
    };
    set("tokenizer.ggml.model", "gpt2".into());
    set("tokenizer.ggml.pre", "gpt-2".into());
    set("tokenizer.ggml.tokens", strings(&["a", "b", "ab"]));
    set("tokenizer.ggml.merges", strings(&["a b"]));
    for (key, value) in keys {
        writer.set(key, value.clone()).unwrap();
    }
    let mut bytes = Vec::new();
    writer.begin(&mut bytes).unwrap().finish().unwrap();
    let checkpoint = Checkpoint::from_bytes("test.gguf", bytes).unwrap();
    Tokenizer::from_metadata(checkpoint.metadata())
}

#[test]
fn files() {
    let set = |key, value| file(&[(key, value)]);
    assert_eq!(file(&[]).unwrap().vocab_size(), 3);
    for none in ["no_vocab", "none"] {
        let error = set("tokenizer.ggml.model", none.into()).unwrap_err();
        assert!(matches!(error, Error::NoVocabulary));
    }
    let message = |key, value| set(key, value).unwrap_err().to_string();
    check(&message("tokenizer.ggml.model", "rwkv".into()), &["\"rwkv\"", "expected"]);
    check(&message("tokenizer.ggml.model", 3u32.into()), &["tokenizer.ggml.model", "a string"]);
    check(&message("tokenizer.ggml.tokens", "x".into()), &["tokenizer.ggml.tokens"]);
    check(&message("tokenizer.ggml.bos_token_id", "x".into()), &["bos_token_id"]);
    check(&message("tokenizer.ggml.add_bos_token", 1u32.into()), &["add_bos_token"]);
    check(&message("tokenizer.ggml.add_bos_token", true.into()), &["bos_token_id is missing"]);
    let types = Array::new(ValueType::I32, [1, 1, 7]).unwrap();
    check(&message("tokenizer.ggml.token_type", types.into()), &["token 2", "type 7"]);
    let types = Array::new(ValueType::I32, [1, 1]).unwrap();
    check(&message("tokenizer.ggml.token_type", types.into()), &["token_type", "2", "3"]);
}

#[test]
fn a_file_without_a_vocabulary() {
    let mut bytes = Vec::new();
    GgufWriter::new().begin(&mut bytes).unwrap().finish().unwrap();
    let checkpoint = Checkpoint::from_bytes("test.gguf", bytes).unwrap();
    let error = Tokenizer::from_metadata(checkpoint.metadata()).unwrap_err();
    assert!(matches!(error, Error::NoVocabulary));
}

/// As the official Gemma 4 QAT files have them (llama.cpp#25739): the lowest id wins, and every id
/// is decoded.
#[test]
fn tokens_with_the_same_text() {
    let mut vocabulary = Vocabulary::new(Model::Bpe, vec!["a", "b", "ab", "<p>", "b", "ab", "<p>"]);
    vocabulary.pre = Some("gpt-2");
    vocabulary.merges = Some(vec!["a b"]);
    let types = &mut vocabulary.types;
    (types[3], types[6]) = (TokenType::Control, TokenType::Control);
    let tokenizer = Tokenizer::new(vocabulary).unwrap();
    assert_eq!(tokenizer.encode("abb<p>a", Special::Parse).unwrap(), [2, 1, 3, 0]);
    for (id, text) in (0..).zip(["a", "b", "ab", "<p>", "b", "ab", "<p>"]) {
        let mut decoder = DecodeState::new(true);
        assert_eq!(decoder.push(&tokenizer, id) + &decoder.finish(), text, "{id}");
    }
    let bytes: Vec<String> = (0..256).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut tokens: Vec<&str> = bytes.iter().map(String::as_str).collect();
    tokens.push("<0x41>");
    let mut vocabulary = Vocabulary::new(Model::SentencePiece, tokens);
    vocabulary.scores = Some(vec![0.0; 257]);
    vocabulary.bos = Some(0);
    vocabulary.types = vec![TokenType::Byte; 257];
    let tokenizer = Tokenizer::new(vocabulary).unwrap();
    assert_eq!(tokenizer.encode("A", Special::Ignore).unwrap().last(), Some(&0x41));
}
