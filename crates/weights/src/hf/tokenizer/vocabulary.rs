//! Tokens, their types, scores and merges.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value as Json;

use super::algorithm::Algorithm;
use super::contents::{Contents, Vocab, kind, steps};
use super::special::is_byte_token;
use super::{plain, pre};
use crate::hf::config::Config;
use crate::hf::json::shown;
use crate::hf::keys::{Out, array};
use crate::{Error, Problem, ValueType};

/// Values of `tokenizer.ggml.token_type`.
mod token_type {
    pub(super) const NORMAL: i32 = 1;
    pub(super) const UNKNOWN: i32 = 2;
    pub(super) const CONTROL: i32 = 3;
    pub(super) const USER_DEFINED: i32 = 4;
    pub(super) const UNUSED: i32 = 5;
    pub(super) const BYTE: i32 = 6;
}

/// SentencePiece's mark of a space, U+2581.
const MARK: char = '\u{2581}';

/// The limit of a vocabulary; the largest published one has 262,400 tokens.
const MAX_TOKENS: usize = 1 << 22;

/// Markup of Gemma 4 that is shown as text, so that replies can be parsed.
const VISIBLE: &[&str] = &[
    "<|channel>",
    "<channel|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_response>",
    "<tool_response|>",
    "<|\"|>",
];

struct Tokens {
    texts: Vec<String>,
    types: Vec<i32>,
    scores: Vec<f32>,
}

/// Sets the keys of the vocabulary; `file` is the text of the file.
pub(super) fn set(
    path: &Path,
    contents: &Contents,
    file: Vec<u8>,
    config: &Config,
    architecture: &str,
    out: &mut Out,
) -> Result<(), Error> {
    let invalid = |key: &str, found: String, expected: &str| {
        let expected = expected.to_owned();
        Error::at(path, Problem::ConfigValue { key: key.to_owned(), found, expected })
    };
    let algorithm = Algorithm::of(contents, architecture);
    if !plain::is_plain(contents, algorithm) {
        // It was parsed as JSON, which is UTF-8.
        out.set(plain::FILE, String::from_utf8(file).unwrap_or_default());
    }
    let rows = config.all.required_size(&["vocab_size"])?;
    if rows > MAX_TOKENS {
        return Err(config.all.invalid("vocab_size", rows, "at most 4194304"));
    }
    let tokens = Tokens::read(contents, algorithm, rows).map_err(|(token, id)| {
        let expected = format!("below vocab_size {rows}");
        invalid("vocab", format!("id {id} of token {:?}", shown(&Json::from(token))), &expected)
    })?;

    out.set("tokenizer.ggml.model", algorithm.name());
    match algorithm {
        Algorithm::ByteLevel => {
            let whole = contents.model.ignore_merges == Some(true);
            out.set("tokenizer.ggml.pre", pre::name(&contents.pre_tokenizer, whole));
        }
        Algorithm::Marked => {}
        _ => out.set("tokenizer.ggml.pre", "default"),
    }
    let texts = tokens.texts.iter().map(String::as_str);
    out.set("tokenizer.ggml.tokens", array(ValueType::String, texts));
    if matches!(algorithm, Algorithm::SentencePiece | Algorithm::Marked | Algorithm::Unigram) {
        out.set("tokenizer.ggml.scores", array(ValueType::F32, tokens.scores));
    }
    out.set("tokenizer.ggml.token_type", array(ValueType::I32, tokens.types));
    if matches!(algorithm, Algorithm::ByteLevel | Algorithm::Marked) {
        // Spaces separate the halves, so those inside become the byte-level alphabet's space.
        let half = |text: &str| text.replace(' ', "\u{120}");
        let merges = contents.model.merges.0.iter();
        let merges = merges.map(|(left, right)| format!("{} {}", half(left), half(right)));
        out.set("tokenizer.ggml.merges", array(ValueType::String, merges));
    }
    set_text_rules(path, contents, algorithm, out)?;
    if matches!(architecture, "bert" | "nomic-bert") {
        let types = config.all.size(&["type_vocab_size"])?.unwrap_or(1);
        out.set("tokenizer.ggml.token_type_count", types as u32);
    }
    Ok(())
}

impl Tokens {
    /// One token per row of the embedding. Rows without a token become unused `[PAD<id>]`; added
    /// tokens beyond the rows, which some files have for other models, are left out. The error is
    /// a token of the vocabulary beyond the rows.
    fn read(contents: &Contents, algorithm: Algorithm, rows: usize) -> Result<Self, (String, u64)> {
        let mut this = Self {
            texts: (0..rows).map(|id| format!("[PAD{id}]")).collect(),
            types: vec![token_type::UNUSED; rows],
            scores: vec![-10_000.0; rows],
        };
        let slot = |id: u64| usize::try_from(id).ok().filter(|id| *id < rows);
        match &contents.model.vocab {
            Vocab::Ids(ids) => {
                for (text, id) in ids {
                    let at = slot(*id).ok_or_else(|| (text.clone(), *id))?;
                    this.put(at, text, token_type::NORMAL);
                }
            }
            Vocab::Scores(scores) => {
                for ((text, score), id) in scores.iter().zip(0u64..) {
                    let at = slot(id).ok_or_else(|| (text.clone(), id))?;
                    this.put(at, text, token_type::NORMAL);
                    this.scores[at] = *score as f32;
                }
            }
        }
        let byte_fallback = contents.model.byte_fallback == Some(true);
        if algorithm == Algorithm::Unigram && byte_fallback {
            this.mark_bytes();
        }
        if matches!(algorithm, Algorithm::SentencePiece | Algorithm::Marked) {
            this.mark_bytes();
            this.rank(&contents.model.merges.0);
        }
        let unknown = |text: &str, id: usize| {
            matches!(algorithm, Algorithm::SentencePiece | Algorithm::Unigram)
                && (contents.model.unk_token.as_deref() == Some(text)
                    || contents.model.unk_id.is_some_and(|unknown| unknown as usize == id))
        };
        if splits_at_marks(contents) {
            this.leave_out_joined();
        }
        for added in &contents.added_tokens {
            let Some(at) = slot(added.id) else { continue };
            let text = &added.content;
            if unknown(text, at) {
                this.put(at, text, token_type::UNKNOWN);
            } else if algorithm == Algorithm::Marked && VISIBLE.contains(&text.as_str()) {
                this.put(at, text, token_type::USER_DEFINED);
            } else if added.special || looks_special(text) {
                this.put(at, text, token_type::CONTROL);
            } else {
                this.put(at, &text.replace(MARK, " "), token_type::USER_DEFINED);
            }
        }
        if algorithm == Algorithm::WordPiece {
            this.mark_words();
        }
        Ok(this)
    }

    fn put(&mut self, id: usize, text: &str, kind: i32) {
        text.clone_into(&mut self.texts[id]);
        self.types[id] = kind;
    }

    /// Types the tokens `<0x00>` to `<0xFF>`.
    fn mark_bytes(&mut self) {
        for (text, kind) in self.texts.iter().zip(&mut self.types) {
            if is_byte_token(text) {
                *kind = token_type::BYTE;
            }
        }
    }

    /// Marks normal tokens of more than one word as unused, which words encoded one by one never
    /// give.
    fn leave_out_joined(&mut self) {
        for (text, kind) in self.texts.iter().zip(&mut self.types) {
            let joined = text.char_indices().any(|(at, c)| at > 0 && c == MARK);
            if *kind == token_type::NORMAL && joined {
                *kind = token_type::UNUSED;
            }
        }
    }

    /// Scores tokens by the first merge that gives them. SentencePiece merges the pair whose result
    /// has the highest score, tokenizers the pair that comes first in the list.
    fn rank(&mut self, merges: &[(String, String)]) {
        let mut ranks: HashMap<String, usize> = HashMap::new();
        for (rank, (left, right)) in merges.iter().enumerate() {
            ranks.entry(format!("{left}{right}")).or_insert(rank);
        }
        for (text, score) in self.texts.iter().zip(&mut self.scores) {
            *score = match ranks.get(text) {
                Some(rank) => -(*rank as f32),
                None => -1e6,
            };
        }
    }

    /// Marks the beginnings of words in place of their continuations (`##`).
    fn mark_words(&mut self) {
        for (text, kind) in self.texts.iter_mut().zip(&self.types) {
            if *kind == token_type::CONTROL {
                continue;
            }
            *text = match text.strip_prefix("##") {
                Some(rest) => rest.to_owned(),
                None => format!("{MARK}{text}"),
            };
        }
    }
}

/// Whether an added token is markup although its file does not say so, by the converter's rule.
fn looks_special(text: &str) -> bool {
    let framed = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || framed("<|", "|>")
        || framed("<\u{FF5C}", "\u{FF5C}>")
        || framed("<unused", ">")
}

/// Sets the keys of normalization and of the space before a text.
fn set_text_rules(
    path: &Path,
    contents: &Contents,
    algorithm: Algorithm,
    out: &mut Out,
) -> Result<(), Error> {
    let flag = |step: &Json, key: &str| step.get(key).and_then(Json::as_bool);
    for step in steps(&contents.normalizer) {
        let (lower, accents) = match kind(step) {
            "Lowercase" => (Some(true), None),
            "StripAccents" => (None, Some(true)),
            "BertNormalizer" => (flag(step, "lowercase"), flag(step, "strip_accents")),
            _ => (None, None),
        };
        if let Some(lower) = lower {
            out.set("tokenizer.ggml.normalizer.lowercase", lower);
        }
        if let Some(accents) = accents {
            out.set("tokenizer.ggml.normalizer.strip_accents", accents);
        }
    }
    if matches!(algorithm, Algorithm::SentencePiece | Algorithm::Marked | Algorithm::Unigram) {
        out.set("tokenizer.ggml.add_space_prefix", adds_space(contents));
        if adds_space_once(contents) {
            out.set("tokenizer.ggml.space_prefix_once", true);
        }
        out.set("tokenizer.ggml.space_after_special", adds_space_everywhere(contents));
    }
    if algorithm != Algorithm::Unigram {
        return Ok(());
    }
    let splits = steps(&contents.pre_tokenizer).iter().any(|s| kind(s) == "WhitespaceSplit");
    let collapses = steps(&contents.normalizer).iter().any(|step| {
        let pattern = step.get("pattern").and_then(|pattern| pattern.get("Regex"));
        kind(step) == "Replace" && pattern.and_then(Json::as_str) == Some(" {2,}")
    });
    out.set("tokenizer.ggml.remove_extra_whitespaces", splits || collapses);
    for step in steps(&contents.normalizer) {
        let Some(text) = step.get("precompiled_charsmap").and_then(Json::as_str) else { continue };
        let Some(bytes) = base64(text) else {
            return Err(Error::at(
                path,
                Problem::ConfigValue {
                    key: "precompiled_charsmap".to_owned(),
                    found: "another text".to_owned(),
                    expected: "base64".to_owned(),
                },
            ));
        };
        if !bytes.is_empty() {
            out.set("tokenizer.ggml.precompiled_charsmap", array(ValueType::U8, bytes));
        }
    }
    Ok(())
}

/// Whether a space is put before a text: by a normalizer, or by a pre-tokenizer of older and of
/// newer files.
fn adds_space(contents: &Contents) -> bool {
    let prepends = steps(&contents.normalizer).iter().any(|step| kind(step) == "Prepend");
    let metaspace = steps(&contents.pre_tokenizer).into_iter().find(|s| kind(s) == "Metaspace");
    prepends
        || metaspace.is_some_and(|step| match step.get("prepend_scheme").and_then(Json::as_str) {
            Some(scheme) => scheme != "never",
            None => step.get("add_prefix_space").and_then(Json::as_bool).unwrap_or(true),
        })
}

/// Whether the words of a text are encoded one by one, each with the mark before it.
fn splits_at_marks(contents: &Contents) -> bool {
    steps(&contents.pre_tokenizer).iter().any(|step| {
        kind(step) == "Metaspace" && step.get("split").and_then(Json::as_bool).unwrap_or(true)
    })
}

/// Whether a text that begins with a space gets none in addition: by a pre-tokenizer, which sees
/// the space, but not by a normalizer.
fn adds_space_once(contents: &Contents) -> bool {
    let prepends = steps(&contents.normalizer).iter().any(|step| kind(step) == "Prepend");
    adds_space(contents) && !prepends
}

/// Whether that space is put before the text after a special token too. All files do so but the
/// newest, whose pre-tokenizer says that it comes first.
fn adds_space_everywhere(contents: &Contents) -> bool {
    let first = |step: &&Json| {
        kind(step) == "Metaspace"
            && step.get("prepend_scheme").and_then(Json::as_str) == Some("first")
    };
    let is_first = steps(&contents.pre_tokenizer).iter().any(first);
    adds_space(contents) && !is_first
}

/// Decodes base64 (RFC 4648) with or without padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut buffer, mut bits) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        buffer = (buffer << 6 | u32::from(value)) & 0xFFFF;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn base64_vectors() {
        for (text, expected) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9vYmE=", "fooba")] {
            assert_eq!(base64(text).as_deref(), Some(expected.as_bytes()));
        }
        assert_eq!(base64("Z!"), None);
    }
}
