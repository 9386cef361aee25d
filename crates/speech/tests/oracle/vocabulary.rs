//! Special tokens and non-speech tokens.

use std::collections::HashMap;
use std::sync::Arc;

use pelton_speech::{Language, Tokenizer, Vocabulary};
use serde_json::Value;

use crate::fake::{FIRST_TIMESTAMP, SOT, ids, vocabulary, vocabulary_file};

#[test]
fn special_tokens() {
    let vocabulary = vocabulary();
    assert_eq!((vocabulary.eot, vocabulary.sot), (SOT - 1, SOT));
    assert_eq!((vocabulary.translate, vocabulary.transcribe), (SOT + 100, SOT + 101));
    assert_eq!(vocabulary.start_of_lm, SOT + 102);
    assert_eq!(vocabulary.start_of_previous, SOT + 103);
    assert_eq!((vocabulary.no_speech, vocabulary.no_timestamps), (SOT + 104, SOT + 105));
    assert_eq!((vocabulary.first_timestamp, vocabulary.timestamps), (FIRST_TIMESTAMP, 1501));
    assert!(vocabulary.is_multilingual());
    // 99 languages, in the order of their tokens; Cantonese is the hundredth
    let languages: Vec<_> = Language::all().zip(SOT + 1..).take(99).collect();
    assert_eq!(vocabulary.languages(), languages);
    assert_eq!(vocabulary.language_token("yue".parse().unwrap()), None);
    assert_eq!(vocabulary.non_speech(), ids(&vocabulary_file()["non_speech"]));
    assert!(vocabulary.english_only().languages().is_empty());
}

/// `TO_LANGUAGE_CODE` of OpenAI's tokenizer.
#[test]
fn names_of_languages() {
    assert_eq!(Language::all().count(), 100);
    for (name, code) in [
        ("German", "de"),
        ("DE", "de"),
        ("Castilian", "es"),
        ("mandarin", "zh"),
        ("haitian creole", "ht"),
        ("Haitian", "ht"),
        ("moldovan", "ro"),
        ("cantonese", "yue"),
        ("jw", "jw"),
    ] {
        assert_eq!(name.parse::<Language>().unwrap().code(), code);
    }
    let error = "klingon".parse::<Language>().unwrap_err().to_string();
    assert!(error.contains("klingon"), "{error}");
}

/// A tokenizer of OpenAI's size whose texts are special tokens only.
struct Real {
    first: u32,
    specials: Vec<String>,
    encoded: HashMap<String, Vec<u32>>,
}

impl Tokenizer for Real {
    fn size(&self) -> usize {
        self.first as usize + self.specials.len()
    }

    fn text(&self, token: u32) -> &[u8] {
        let special = token.checked_sub(self.first).and_then(|i| self.specials.get(i as usize));
        special.map_or(&[], |text| text.as_bytes())
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.encoded.get(text).cloned().unwrap_or_default()
    }
}

/// The ids of reference section 3: 88 non-speech and prompt tokens of the multilingual vocabulary,
/// 90 of the English one.
#[test]
fn the_vocabularies_of_openai() {
    let file: Value = serde_json::from_str(include_str!("../fixtures/non_speech.json")).unwrap();
    for (name, first, count, languages) in
        [("multilingual", 50257, 82, 99), ("multilingual", 50257, 82, 100), ("gpt2", 50256, 84, 99)]
    {
        let mut specials = vec!["<|endoftext|>".to_owned(), "<|startoftranscript|>".to_owned()];
        specials.extend(Language::all().take(languages).map(|l| format!("<|{}|>", l.code())));
        for text in
            ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
        {
            specials.push(format!("<|{text}|>"));
        }
        specials.extend((0..1501).map(|i| format!("<|{:.2}|>", f64::from(i) * 0.02)));
        let encoded = file[name]["encoded"].as_object().unwrap().iter();
        let encoded = encoded.map(|(text, tokens)| (text.clone(), ids(tokens))).collect();
        let vocabulary = Vocabulary::new(Arc::new(Real { first, specials, encoded })).unwrap();
        assert_eq!(vocabulary.non_speech(), ids(&file[name]["banned"]), "{name}");
        assert_eq!(vocabulary.non_speech().len(), count, "{name}");
        assert_eq!(vocabulary.is_multilingual(), name == "multilingual");
        let start = first + 2 + languages as u32 + 6;
        assert_eq!((vocabulary.first_timestamp, vocabulary.timestamps), (start, 1501));
    }
}

#[test]
fn a_vocabulary_without_special_tokens() {
    let tokenizer = Real { first: 5, specials: Vec::new(), encoded: HashMap::new() };
    let error = Vocabulary::new(Arc::new(tokenizer)).unwrap_err().to_string();
    assert!(error.contains("<|0.00|>"), "{error}");
}
