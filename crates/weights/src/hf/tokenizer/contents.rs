//! `tokenizer.json`, read without an intermediate tree: vocabularies are large.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The file. A key without a field here is refused by its name.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::hf) struct Contents {
    pub(in crate::hf) model: Model,
    #[serde(default)]
    pub(in crate::hf) added_tokens: Vec<Added>,
    #[serde(default)]
    pub(in crate::hf) normalizer: Value,
    #[serde(default)]
    pub(in crate::hf) pre_tokenizer: Value,
    #[serde(default)]
    pub(in crate::hf) post_processor: Value,
    #[serde(default)]
    pub(in crate::hf) decoder: Value,
    #[serde(default, rename = "version")]
    _version: IgnoredAny,
    // Prompts have their own limits.
    #[serde(default, rename = "truncation")]
    _truncation: IgnoredAny,
    #[serde(default, rename = "padding")]
    _padding: IgnoredAny,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::hf) struct Model {
    /// `BPE`, `WordPiece`, `Unigram` or `WordLevel`; absent in old files, which are BPE.
    #[serde(rename = "type")]
    pub(in crate::hf) kind: Option<String>,
    pub(in crate::hf) vocab: Vocab,
    #[serde(default)]
    pub(in crate::hf) merges: Merges,
    #[serde(default)]
    pub(in crate::hf) byte_fallback: Option<bool>,
    #[serde(default)]
    pub(in crate::hf) ignore_merges: Option<bool>,
    #[serde(default)]
    pub(in crate::hf) unk_token: Option<String>,
    #[serde(default)]
    pub(in crate::hf) unk_id: Option<u32>,
    #[serde(default)]
    pub(in crate::hf) dropout: Option<f64>,
    #[serde(default)]
    pub(in crate::hf) continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub(in crate::hf) end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub(in crate::hf) max_input_chars_per_word: Option<u64>,
    // It matters in files whose rules are kept as a whole.
    #[serde(default, rename = "fuse_unk")]
    _fuse_unk: IgnoredAny,
    #[serde(default, rename = "cache_capacity")]
    _cache_capacity: IgnoredAny,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::hf) struct Added {
    pub(in crate::hf) id: u64,
    pub(in crate::hf) content: String,
    #[serde(default)]
    pub(in crate::hf) special: bool,
    #[serde(default)]
    pub(in crate::hf) single_word: bool,
    #[serde(default)]
    pub(in crate::hf) lstrip: bool,
    #[serde(default)]
    pub(in crate::hf) rstrip: bool,
    /// Absent, a special token is not normalized and others are.
    #[serde(default)]
    pub(in crate::hf) normalized: Option<bool>,
}

/// Tokens: ids by text, or texts with scores in the order of ids.
#[derive(Debug)]
pub(in crate::hf) enum Vocab {
    Ids(Vec<(String, u64)>),
    Scores(Vec<(String, f64)>),
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vocab;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of ids by token, or a list of tokens with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
                let mut ids = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    ids.push(entry);
                }
                Ok(Vocab::Ids(ids))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocab, A::Error> {
                let mut scores = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    scores.push(entry);
                }
                Ok(Vocab::Scores(scores))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Merges as pairs. They are lists of two since tokenizers 0.20, before "left right".
#[derive(Debug, Default)]
pub(in crate::hf) struct Merges(pub(in crate::hf) Vec<(String, String)>);

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs: Vec<Pair> = Vec::deserialize(deserializer)?;
        Ok(Self(pairs.into_iter().map(|pair| pair.0).collect()))
    }
}

struct Pair((String, String));

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Pair;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pair of tokens")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Pair, E> {
                match text.split_once(' ') {
                    Some((left, right)) => Ok(Pair((left.to_owned(), right.to_owned()))),
                    None => Err(E::custom(format_args!("merge {text:?} is not a pair"))),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Pair, A::Error> {
                let short = || A::Error::custom("a merge is not a pair");
                let left = seq.next_element()?.ok_or_else(short)?;
                let right = seq.next_element()?.ok_or_else(short)?;
                match seq.next_element::<IgnoredAny>()? {
                    None => Ok(Pair((left, right))),
                    Some(_) => Err(short()),
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// The steps of a sequence of normalizers, processors and the like, or a single one.
pub(in crate::hf) fn steps(value: &Value) -> Vec<&Value> {
    let lists = ["normalizers", "pretokenizers", "processors", "decoders"];
    match lists.iter().find_map(|key| value.get(key)?.as_array()) {
        Some(list) => list.iter().flat_map(steps).collect(),
        None if value.is_null() => Vec::new(),
        None => vec![value],
    }
}

/// The type of a step.
pub(in crate::hf) fn kind(step: &Value) -> &str {
    step.get("type").and_then(Value::as_str).unwrap_or_default()
}
