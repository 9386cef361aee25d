//! Properties of all texts and all sequences of ids.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::LazyLock;

use pelton_tokenizer::{Model, Special, TokenType, Tokenizer, Vocabulary};
use pelton_weights::Checkpoint;
use proptest::prelude::*;

fn open(name: &str, bytes: &'static [u8]) -> Tokenizer {
    Tokenizer::from_metadata(Checkpoint::from_bytes(name, bytes).unwrap().metadata()).unwrap()
}

static BPE: LazyLock<Tokenizer> =
    LazyLock::new(|| open("bpe", include_bytes!("fixtures/bpe.gguf")));
static SPM: LazyLock<Tokenizer> =
    LazyLock::new(|| open("spm", include_bytes!("fixtures/spm.gguf")));
static BARE: LazyLock<Tokenizer> =
    LazyLock::new(|| open("spm-bare", include_bytes!("fixtures/spm-bare.gguf")));
static UNIGRAM: LazyLock<Tokenizer> =
    LazyLock::new(|| open("unigram", include_bytes!("fixtures/unigram.gguf")));
static WORDPIECE: LazyLock<Tokenizer> =
    LazyLock::new(|| open("wordpiece", include_bytes!("fixtures/wordpiece.gguf")));

fn all() -> [&'static Tokenizer; 5] {
    [&BPE, &SPM, &BARE, &UNIGRAM, &WORDPIECE]
}

/// Arbitrary characters, with a high share of those that tokenizers treat specially.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        any::<String>(),
        "[a-z ]{0,20}",
        "[ \t\r\n]{0,8}",
        "[0-9]{0,8}",
        Just("<|im_end|>".to_owned()),
        Just("<tool>".to_owned()),
        Just("</s>".to_owned()),
        Just("\u{2581}".to_owned()),
    ];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn byte_level_round_trip(text in text()) {
        let ids = BPE.encode(&text, Special::Ignore).unwrap();
        prop_assert_eq!(BPE.decode(&ids, false), text.clone());
        let ids = BPE.encode(&text, Special::Parse).unwrap();
        prop_assert_eq!(BPE.decode(&ids, true), text);
    }

    #[test]
    fn sentence_piece_round_trip_with_spaces_for_marks(text in text()) {
        for tokenizer in [&*SPM, &*BARE] {
            let ids = tokenizer.encode(&text, Special::Ignore).unwrap();
            prop_assert_eq!(tokenizer.decode(&ids, false), text.replace('\u{2581}', " "));
        }
    }

    #[test]
    fn ids_are_below_the_size_and_ignored_control_tokens_never_appear(text in text()) {
        for tokenizer in all() {
            let ids = tokenizer.encode(&text, Special::Ignore).unwrap();
            for id in ids {
                let token_type = tokenizer.token_type(id);
                prop_assert!(token_type.is_some());
                // WordPiece's [UNK] is a control token.
                if tokenizer.token_text(id) != Some("[UNK]") {
                    prop_assert_ne!(token_type, Some(TokenType::Control));
                }
            }
        }
    }

    #[test]
    fn incremental_decoding_equals_decoding(
        ids in prop::collection::vec(0u32..1000, 0..60),
        special: bool,
    ) {
        for tokenizer in all() {
            // The bytes of all tokens, converted to text at once.
            let mut bytes = Vec::new();
            for &id in &ids {
                let shown = match tokenizer.token_type(id) {
                    Some(TokenType::Normal | TokenType::UserDefined | TokenType::Byte) => true,
                    Some(_) => special,
                    None => false,
                };
                if shown {
                    bytes.extend_from_slice(tokenizer.token_bytes(id).unwrap());
                }
            }
            let whole = tokenizer.decode(&ids, special);
            let text = String::from_utf8_lossy(&bytes);
            let bare = std::ptr::eq(tokenizer, &*BPE) || std::ptr::eq(tokenizer, &*BARE);
            let text = if !bare { text.strip_prefix(' ').unwrap_or(&text) } else { &text };
            prop_assert_eq!(&whole, text);
            let mut state = pelton_tokenizer::DecodeState::new(special);
            let mut streamed = String::new();
            for &id in &ids {
                streamed.push_str(&state.push(tokenizer, id));
            }
            streamed.push_str(&state.finish());
            prop_assert_eq!(streamed, whole);
        }
    }

    /// An arbitrary vocabulary is either rejected or encodes.
    #[test]
    fn any_vocabulary_is_rejected_or_encodes(
        tokens in prop::collection::vec("[ab▁ĠĊ<>]{0,4}|<0x[0-9A-F]{2}>", 0..12),
        types in prop::collection::vec(0usize..6, 12),
        scores in prop::collection::vec(prop_oneof![any::<f32>(), -9.0f32..0.0], 12),
        merges in prop::collection::vec("[ab▁Ġ]{1,2} [ab▁Ġ]{1,2}", 0..4),
        charsmap in prop::collection::vec(any::<u8>(), 0..24),
        model in 0usize..4,
        text in "[ab▁ \n<>é]{0,20}",
    ) {
        use TokenType::{Byte, Control, Normal, Unknown, Unused, UserDefined};
        let models = [Model::SentencePiece, Model::Bpe, Model::WordPiece, Model::Unigram];
        let mut vocabulary =
            Vocabulary::new(models[model], tokens.iter().map(String::as_str).collect());
        for (token_type, number) in vocabulary.types.iter_mut().zip(types) {
            *token_type = [Normal, Normal, Unknown, Control, UserDefined, Unused][number];
        }
        for (token_type, text) in vocabulary.types.iter_mut().zip(&tokens) {
            if text.starts_with("<0x") {
                *token_type = Byte;
            }
        }
        vocabulary.scores = Some(scores[..tokens.len()].to_vec());
        vocabulary.merges = Some(merges.iter().map(String::as_str).collect());
        vocabulary.pre = Some(["gpt-2", "gemma4"][charsmap.len() % 2]);
        vocabulary.charsmap = charsmap;
        (vocabulary.bos, vocabulary.eos) = (Some(0), Some(0));
        (vocabulary.unknown, vocabulary.separator) = (Some(0), Some(0));
        if let Ok(tokenizer) = Tokenizer::new(vocabulary)
            && let Ok(ids) = tokenizer.encode_prompt(&text)
        {
            prop_assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
            tokenizer.decode(&ids, true);
        }
    }
}
