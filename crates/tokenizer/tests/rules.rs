//! Rules at the boundaries of texts and words, on minimal vocabularies.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use pelton_tokenizer::{DecodeState, Error, Model, Special, TokenType, Tokenizer, Vocabulary};

/// Tokens 0 `<unk>`, 1 `<s>`, 2 `</s>`, 3 to 258 bytes, then pieces from 259.
fn sentence_piece() -> Vocabulary<'static> {
    let bytes: Vec<&str> =
        (0..=255).map(|byte| &*Box::leak(format!("<0x{byte:02X}>").into_boxed_str())).collect();
    let pieces = ["▁", "a", "b", "▁a", "ab", "▁ab", "<tool>", "bb"];
    let tokens = [&["<unk>", "<s>", "</s>"], &bytes[..], &pieces].concat();
    let mut vocabulary = Vocabulary::new(Model::SentencePiece, tokens);
    vocabulary.types[0] = TokenType::Unknown;
    vocabulary.types[1..3].fill(TokenType::Control);
    vocabulary.types[3..259].fill(TokenType::Byte);
    vocabulary.types[265] = TokenType::UserDefined;
    vocabulary.scores = Some((0..vocabulary.tokens.len()).map(|id| -(id as f32)).collect());
    (vocabulary.unknown, vocabulary.bos, vocabulary.eos) = (Some(0), Some(1), Some(2));
    vocabulary
}

fn bpe(pre: &'static str) -> Vocabulary<'static> {
    let tokens = vec!["a", "b", "Ġ", "ab", "Ġa", "<|end|>", "<|im_end|>", "abb", "Ċ"];
    let mut vocabulary = Vocabulary::new(Model::Bpe, tokens);
    vocabulary.types[5..7].fill(TokenType::Control);
    vocabulary.pre = Some(pre);
    vocabulary.merges = Some(vec!["a b", "Ġ a"]);
    vocabulary
}

fn ignore(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(text, Special::Ignore).unwrap()
}

#[test]
fn plain_text_has_no_tokens_of_any_type() {
    let tokenizer = Tokenizer::new(sentence_piece()).unwrap();
    let bytes: Vec<u32> = "<tool>".bytes().map(|byte| 3 + u32::from(byte)).collect();
    assert_eq!(ignore(&tokenizer, "ab<tool>"), [264, 265]);
    let plain = tokenizer.encode("ab<tool>", Special::Plain).unwrap();
    assert_eq!(plain, [&[264][..], &bytes].concat());
    // the template's <s> is the token, and text after it goes on across the border of the parts
    let parts = [("<s>a", Special::Parse), ("b<tool><s>", Special::Plain)];
    let ids = tokenizer.encode_parts(&parts).unwrap();
    assert_eq!(ids[..2], [1, 263]);
    assert!(!ids[2..].contains(&1) && !ids.contains(&265), "{ids:?}");
}

/// llama.cpp adds the space to a text after a special token, transformers to the first text alone,
/// and Phi-3's `tokenizer.json` everywhere.
#[test]
fn sentence_piece_adds_a_space_after_special_tokens_where_the_file_says_so() {
    let text = |vocabulary: &Vocabulary<'_>| {
        let tokenizer = Tokenizer::new(vocabulary.clone()).unwrap();
        let in_text = tokenizer.encode("ab<s>ab", Special::Parse).unwrap();
        (in_text, tokenizer.encode_parts(&[("ab<s>ab", Special::Parse)]).unwrap())
    };
    let (with, without) = (vec![264, 1, 264], vec![264, 1, 263]);
    let mut vocabulary = sentence_piece();
    assert_eq!(text(&vocabulary), (with.clone(), without.clone()));
    vocabulary.space_after_special = Some(true);
    assert_eq!(text(&vocabulary), (with.clone(), with.clone()));
    vocabulary.space_after_special = Some(false);
    assert_eq!(text(&vocabulary), (without.clone(), without));
    vocabulary.space_after_special = None;
    vocabulary.name = Some("Phi-3-mini");
    assert_eq!(text(&vocabulary), (with.clone(), with));
}

#[test]
fn sentence_piece_adds_and_removes_the_first_space() {
    let tokenizer = Tokenizer::new(sentence_piece()).unwrap();
    assert_eq!(ignore(&tokenizer, "ab"), [264]);
    assert_eq!(ignore(&tokenizer, " ab"), [259, 264]);
    assert_eq!(ignore(&tokenizer, ""), [0u32; 0]);
    assert_eq!(tokenizer.encode_prompt("ab").unwrap(), [1, 264]);
    assert_eq!(tokenizer.encode_prompt("").unwrap(), [1]);
    assert_eq!(tokenizer.decode(&[264, 264], false), "ab ab");
    assert_eq!(tokenizer.decode(&[1, 264], false), "ab");
    assert_eq!(tokenizer.decode(&[1, 264], true), "<s> ab");

    let mut decoder = tokenizer.decoder();
    assert_eq!([1, 264, 264, 260].map(|id| decoder.push(id)), ["", "ab", " ab", "a"]);
    let mut decoder = DecodeState::continuing(false);
    assert_eq!([264, 264].map(|id| decoder.push(&tokenizer, id)), [" ab", " ab"]);

    let mut bare = sentence_piece();
    bare.add_space_prefix = Some(false);
    let tokenizer = Tokenizer::new(bare).unwrap();
    assert_eq!(ignore(&tokenizer, "ab"), [263]);
    assert_eq!(tokenizer.decode(&[264], false), " ab");
}

#[test]
fn sentence_piece_joins_the_best_score_first_and_falls_back_to_bytes() {
    let mut vocabulary = sentence_piece();
    vocabulary.add_space_prefix = Some(false);
    // The score of "bb" is below that of "ab"; with a higher one, "abb" becomes "a" and "bb".
    let tokenizer = Tokenizer::new(vocabulary.clone()).unwrap();
    assert_eq!(ignore(&tokenizer, "abb"), [263, 261]);
    vocabulary.scores.as_mut().unwrap()[266] = 5.0;
    let tokenizer = Tokenizer::new(vocabulary).unwrap();
    assert_eq!(ignore(&tokenizer, "abb"), [260, 266]);
    assert_eq!(ignore(&tokenizer, "é\n"), [3 + 0xc3, 3 + 0xa9, 3 + 10]);
}

#[test]
fn unknown_characters_of_vocabularies_without_bytes() {
    let mut vocabulary = sentence_piece();
    vocabulary.types[3..259].fill(TokenType::Unused);
    let tokenizer = Tokenizer::new(vocabulary.clone()).unwrap();
    assert_eq!(ignore(&tokenizer, "xya"), [259, 0, 260]);
    vocabulary.unknown = None;
    let error = Tokenizer::new(vocabulary).unwrap().encode("x", Special::Ignore).unwrap_err();
    assert!(matches!(error, Error::Unencodable { ref text } if text == "x"), "{error}");
}

#[test]
fn special_tokens_are_text_unless_parsed() {
    let tokenizer = Tokenizer::new(sentence_piece()).unwrap();
    let text = "ab</s>ab";
    assert!(!ignore(&tokenizer, text).contains(&2));
    assert_eq!(tokenizer.encode(text, Special::Parse).unwrap(), [264, 2, 264]);
    // A user-defined token is recognized and rendered in both modes.
    assert_eq!(ignore(&tokenizer, "<tool>"), [265]);
    assert_eq!(tokenizer.decode(&[265], false), "<tool>");
}

#[test]
fn merges_decide_rather_than_pieces() {
    // "abb" is a token, but not the result of a merge.
    let tokenizer = Tokenizer::new(bpe("gpt-2")).unwrap();
    assert_eq!(ignore(&tokenizer, "abb ab"), [3, 1, 2, 3]);
    assert_eq!(ignore(&tokenizer, "abb ab"), [3, 1, 2, 3], "the second time");
    // A pre-tokenizer with lookup of whole words finds it.
    let mut whole = bpe("llama3");
    whole.add_bos = Some(false);
    let tokenizer = Tokenizer::new(whole).unwrap();
    assert_eq!(ignore(&tokenizer, "abb ab"), [7, 2, 3]);
}

#[test]
fn a_byte_without_a_token_is_dropped() {
    let tokenizer = Tokenizer::new(bpe("gpt-2")).unwrap();
    assert_eq!(ignore(&tokenizer, "a\u{b}b"), [0, 1]);
}

#[test]
fn prompts_begin_and_end_by_flag_and_by_kind() {
    let mut vocabulary = sentence_piece();
    (vocabulary.add_bos, vocabulary.add_eos) = (Some(false), Some(true));
    assert_eq!(Tokenizer::new(vocabulary).unwrap().encode_prompt("ab").unwrap(), [264, 2]);

    let mut vocabulary = bpe("llama3");
    vocabulary.bos = Some(5);
    assert_eq!(Tokenizer::new(vocabulary).unwrap().encode_prompt("a").unwrap(), [5, 0]);

    let mut vocabulary = bpe("gpt-2");
    vocabulary.bos = Some(5);
    assert_eq!(Tokenizer::new(vocabulary).unwrap().encode_prompt("a").unwrap(), [0]);

    let error = Tokenizer::new(bpe("llama3")).unwrap_err().to_string();
    assert!(error.contains("tokenizer.ggml.bos_token_id is missing"), "{error}");
}

#[test]
fn ends_are_control_tokens_or_specified_by_the_file() {
    let mut vocabulary = bpe("gpt-2");
    assert_eq!(Tokenizer::new(vocabulary.clone()).unwrap().ends(), [5, 6]);
    vocabulary.types[5] = TokenType::Normal;
    vocabulary.eos = Some(0);
    vocabulary.eom = Some(8);
    assert_eq!(Tokenizer::new(vocabulary).unwrap().ends(), [0, 6, 8]);

    // In gpt-oss and Solar <|end|> does not end the turn.
    let tokens = vec!["<|end|>", "<|return|>", "<|call|>"];
    let mut vocabulary = Vocabulary { tokens, ..bpe("gpt-4o") };
    vocabulary.types = vec![TokenType::Control; 3];
    vocabulary.merges = Some(Vec::new());
    assert_eq!(Tokenizer::new(vocabulary).unwrap().ends(), [1, 2]);
}

#[test]
fn a_user_defined_end_is_not_recognized_in_text() {
    let mut vocabulary = bpe("gpt-2");
    vocabulary.types[6] = TokenType::UserDefined;
    let tokenizer = Tokenizer::new(vocabulary).unwrap();
    assert!(!ignore(&tokenizer, "a<|im_end|>b").contains(&6));
    assert!(tokenizer.encode("a<|im_end|>b", Special::Parse).unwrap().contains(&6));
    assert!(tokenizer.is_end(6));
}

#[test]
fn word_piece_separates_words_by_spaces() {
    let tokens = vec!["[UNK]", "[CLS]", "[SEP]", "▁play", "ing", "▁a"];
    let mut vocabulary = Vocabulary::new(Model::WordPiece, tokens);
    vocabulary.types[..3].fill(TokenType::Control);
    (vocabulary.unknown, vocabulary.bos, vocabulary.separator) = (Some(0), Some(1), Some(2));
    let tokenizer = Tokenizer::new(vocabulary).unwrap();
    let ids = tokenizer.encode_prompt("Playing A  xylophone").unwrap();
    assert_eq!(ids, [1, 3, 4, 5, 0, 2]);
    assert_eq!(tokenizer.decode(&ids, false), "playing a");
}

/// The templates of transformers: `[CLS] A [SEP] B [SEP]` of BERT, `<s> A </s></s> B </s>` of
/// XLM-RoBERTa.
#[test]
fn pairs_have_the_tokens_of_their_model() {
    let tokens = vec!["[UNK]", "[CLS]", "[SEP]", "▁play", "ing", "▁a"];
    let mut vocabulary = Vocabulary::new(Model::WordPiece, tokens);
    vocabulary.types[..3].fill(TokenType::Control);
    (vocabulary.unknown, vocabulary.bos, vocabulary.separator) = (Some(0), Some(1), Some(2));
    for stated in [None, Some(false), Some(true)] {
        vocabulary.add_separator = stated;
        let tokenizer = Tokenizer::new(vocabulary.clone()).unwrap();
        assert_eq!(tokenizer.encode_pair("Playing", "a a").unwrap(), [1, 3, 4, 2, 5, 5, 2]);
        // a separator in a text is text
        let ids = tokenizer.encode_pair("[SEP]", "a").unwrap();
        assert_eq!(ids.iter().filter(|&&id| id == 2).count(), 2, "{ids:?}");
    }

    let mut vocabulary = sentence_piece();
    (vocabulary.add_bos, vocabulary.add_eos) = (Some(true), Some(true));
    let pair = |vocabulary: &Vocabulary<'static>| {
        Tokenizer::new(vocabulary.clone()).unwrap().encode_pair("ab", "ab").unwrap()
    };
    assert_eq!(pair(&vocabulary), [1, 264, 2, 264, 2]);
    vocabulary.add_separator = Some(true);
    assert_eq!(pair(&vocabulary), [1, 264, 2, 2, 264, 2]);
    (vocabulary.eos, vocabulary.add_eos) = (None, Some(false));
    let error = Tokenizer::new(vocabulary).unwrap_err();
    assert!(error.to_string().contains("seperator_token_id"), "{error}");
}

#[test]
fn parts_are_one_text_with_special_tokens_where_they_are_allowed() {
    let tokenizer = Tokenizer::new(bpe("gpt-2")).unwrap();
    let parts = |parts: &[(&str, Special)]| tokenizer.encode_parts(parts).unwrap();
    let (parse, ignore) = (Special::Parse, Special::Ignore);
    // "ab" is one token although its letters come from two parts
    assert_eq!(parts(&[("<|end|>a", parse), ("b", ignore), ("<|im_end|>", parse)]), [5, 3, 6]);
    let untrusted = parts(&[("a", parse), ("<|im_end|>", ignore), ("b<|end|>", parse)]);
    assert!(!untrusted.contains(&6) && untrusted.ends_with(&[5]), "{untrusted:?}");
    // a token that two parts would make up together
    let joined = parts(&[("<|im", parse), ("_end|>", ignore)]);
    assert!(!joined.contains(&6), "{joined:?}");
    assert_eq!(parts(&[]), [0u32; 0]);
}

#[test]
fn threads_share_a_tokenizer() {
    let tokenizer = Tokenizer::new(bpe("gpt-2")).unwrap();
    let expected = ignore(&tokenizer, "abb ab");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(ignore(&tokenizer, "abb ab"), expected));
        }
    });
}

#[test]
fn tokens_can_be_inspected() {
    let tokenizer = Tokenizer::new(bpe("gpt-2")).unwrap();
    assert_eq!(tokenizer.vocab_size(), 9);
    assert_eq!(tokenizer.token_text(4), Some("Ġa"));
    assert_eq!(tokenizer.token_bytes(4), Some(b" a".as_slice()));
    assert_eq!(tokenizer.token_bytes(8), Some(b"\n".as_slice()));
    assert_eq!(tokenizer.token_bytes(5), Some(b"<|end|>".as_slice()));
    assert_eq!(tokenizer.token_type(5), Some(TokenType::Control));
    assert_eq!(tokenizer.token_bytes(9), None);
    assert_eq!(tokenizer.token_text(9), None);
    assert_eq!(tokenizer.decode(&[0, 9, u32::MAX, 1], true), "ab");

    let tokenizer = Tokenizer::new(sentence_piece()).unwrap();
    assert_eq!(tokenizer.token_bytes(3 + 0xab), Some([0xab].as_slice()));
    assert_eq!(tokenizer.token_bytes(264), Some(b" ab".as_slice()));
}

#[test]
fn decoding_returns_complete_characters() {
    let tokenizer = Tokenizer::new(sentence_piece()).unwrap();
    let byte = |byte: u8| 3 + u32::from(byte);
    let mut state = DecodeState::new(false);
    // A letter in two bytes, a llama in four, an invalid byte, and half of a rocket.
    let pieces = [
        (0xc3, ""),
        (0xa9, "é"),
        (0xf0, ""),
        (0x9f, ""),
        (0xa6, ""),
        (0x99, "🦙"),
        (0x80, "\u{fffd}"),
        (0xf0, ""),
        (0x9f, ""),
    ];
    for (value, text) in pieces {
        assert_eq!(state.push(&tokenizer, byte(value)), text, "{value:02x}");
    }
    // An incomplete sequence becomes one U+FFFD, and decoding continues.
    assert_eq!(state.push(&tokenizer, 260), "\u{fffd}a");
    assert_eq!(state.push(&tokenizer, byte(0xe2)), "");
    assert_eq!(state.finish(), "\u{fffd}");
}

#[test]
fn long_words_take_no_quadratic_time() {
    // The merge loop uses a heap and the splitter's automaton does not backtrack. If either were
    // quadratic, these texts would take minutes. No time is measured; a hang fails the run.
    let count = 200_000;
    let texts = [
        "a".repeat(count),
        "ab".repeat(count),
        " ".repeat(count) + "a",
        "\n ".repeat(count),
        "\u{301}é🦙".repeat(count / 8),
    ];
    let mut bare = sentence_piece();
    bare.tokens[264] = "a▁b";
    for vocabulary in [sentence_piece(), bare, bpe("gpt-2"), bpe("tiny_aya"), bpe("jais-2")] {
        let tokenizer = Tokenizer::new(vocabulary).unwrap();
        for text in &texts {
            let ids = ignore(&tokenizer, text);
            assert!(ids.len() <= text.len() + 1);
        }
    }
}
