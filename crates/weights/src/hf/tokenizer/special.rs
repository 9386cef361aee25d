//! Special tokens, and which of them a text gets.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value as Json;

use super::contents::{Contents, Vocab, kind, steps};
use crate::hf::config::Config;
use crate::hf::json::{Object, shown};
use crate::hf::keys::Out;
use crate::{Error, Problem};

/// Names in `tokenizer_config.json`, and keys of GGUF; the misspelling is that of the format.
const KINDS: &[(&str, &str)] = &[
    ("bos", "bos_token_id"),
    ("eos", "eos_token_id"),
    ("unk", "unknown_token_id"),
    ("sep", "seperator_token_id"),
    ("pad", "padding_token_id"),
    ("cls", "cls_token_id"),
    ("mask", "mask_token_id"),
];

/// Sets the ids of special tokens and whether a text gets them.
pub(super) fn set(
    path: &Path,
    contents: &Contents,
    settings: Option<&Object>,
    config: &Config,
    generation: Option<&Object>,
    out: &mut Out,
) -> Result<(), Error> {
    let mut texts: HashMap<&str, String> = HashMap::new();
    for (name, _) in KINDS {
        let stated = settings.and_then(|settings| settings.get(&format!("{name}_token")));
        if let Some(text) = stated.and_then(text_of) {
            texts.insert(name, text.to_owned());
        }
    }
    // As in transformers, BERT's first and last tokens stand for those of a text.
    for (name, other) in [("bos", "cls"), ("eos", "sep")] {
        if !texts.contains_key(name)
            && let Some(text) = texts.get(other).cloned()
        {
            texts.insert(name, text);
        }
    }
    let frame = Frame::read(contents, &mut texts).map_err(|(key, found, expected)| {
        let expected = expected.to_owned();
        Error::at(path, Problem::ConfigValue { key, found, expected })
    })?;

    let mut ids: HashMap<&str, u32> = HashMap::new();
    for (name, key) in KINDS {
        let id = match texts.get(name).and_then(|text| id_of(contents, text)) {
            Some(id) => Some(id),
            None if *name == "unk" => {
                config_id(config, name).or(contents.model.unk_id).or_else(|| unknown_word(contents))
            }
            None => config_id(config, name),
        };
        if let Some(id) = id {
            ids.insert(name, id);
            out.set(&format!("tokenizer.ggml.{key}"), id);
        }
    }
    for (name, added) in [("bos", frame.bos), ("eos", frame.eos), ("sep", frame.sep)] {
        let stated = match settings {
            Some(settings) => settings.flag(&[&format!("add_{name}_token")])?,
            None => None,
        };
        if let Some(added) = added.or(stated) {
            out.set(&format!("tokenizer.ggml.add_{name}_token"), added);
        }
    }
    set_further_ends(config, generation, ids.get("eos").copied(), out);
    Ok(())
}

/// The token of words without pieces, which WordPiece names within its model.
fn unknown_word(contents: &Contents) -> Option<u32> {
    let is_word_piece = contents.model.kind.as_deref() == Some("WordPiece");
    let text = contents.model.unk_token.as_deref().filter(|_| is_word_piece)?;
    let Vocab::Ids(ids) = &contents.model.vocab else { return None };
    let (_, id) = ids.iter().find(|(token, _)| token == text)?;
    u32::try_from(*id).ok()
}

/// Sets the tokens that end a text in addition to EOS, by `generation_config.json` or
/// `config.json`. GGUF has two more keys, for the end of a turn and of a message.
fn set_further_ends(config: &Config, generation: Option<&Object>, eos: Option<u32>, out: &mut Out) {
    let list = |object: &Object| -> Vec<u32> {
        let value = object.get("eos_token_id");
        let id = |value: &Json| value.as_u64().and_then(|id| u32::try_from(id).ok());
        match value {
            Some(Json::Array(ids)) => ids.iter().take(16).filter_map(id).collect(),
            Some(value) => id(value).into_iter().collect(),
            None => Vec::new(),
        }
    };
    let mut ends: Vec<u32> = Vec::new();
    for id in generation.map(list).into_iter().flatten().chain(list(&config.all)) {
        if Some(id) != eos && !ends.contains(&id) {
            ends.push(id);
        }
    }
    if eos.is_none() {
        return;
    }
    for (key, id) in ["eot_token_id", "eom_token_id"].into_iter().zip(ends) {
        out.set(&format!("tokenizer.ggml.{key}"), id);
    }
}

/// A string, or the string in an object's `content`: special tokens occur in both forms.
fn text_of(value: &Json) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// The id of an added token.
fn id_of(contents: &Contents, text: &str) -> Option<u32> {
    let added = contents.added_tokens.iter().find(|added| added.content == text)?;
    u32::try_from(added.id).ok()
}

/// A special token's id in `config.json`, the first of a list.
fn config_id(config: &Config, name: &str) -> Option<u32> {
    let value = config.all.get(&format!("{name}_token_id"))?;
    let first = value.as_array().and_then(|ids| ids.first()).unwrap_or(value);
    u32::try_from(first.as_u64()?).ok()
}

/// Whether a post-processor adds special tokens to a text, where it tells.
#[derive(Debug, Default)]
struct Frame {
    bos: Option<bool>,
    eos: Option<bool>,
    sep: Option<bool>,
}

/// A key of a sequence of processors, or of the parts of a template, that their kinds do not have.
fn key_of_sequence(value: &Json) -> Option<&str> {
    match value {
        Json::Object(map) => {
            let known: &[&str] = match map.get("type").and_then(Json::as_str) {
                Some("Sequence") => &["type", "processors"],
                // The keys of a step are checked by its kind, tokens have free names.
                Some(_) => &[],
                None if map.contains_key("type_id") => &["id", "type_id"],
                None if map.contains_key("SpecialToken") => &["SpecialToken"],
                None if map.contains_key("tokens") => &["id", "ids", "tokens"],
                None => &[],
            };
            let unknown =
                map.keys().find(|key| !known.is_empty() && !known.contains(&key.as_str()));
            unknown.map(String::as_str).or_else(|| map.values().find_map(key_of_sequence))
        }
        Json::Array(items) => items.iter().find_map(key_of_sequence),
        _ => None,
    }
}

/// A key, its value, and the expected one.
type Fault = (String, String, &'static str);

impl Frame {
    /// Reads the processors. A template's first and last tokens become BOS and EOS where
    /// `tokenizer_config.json` names none or, for the last one, another.
    fn read(contents: &Contents, texts: &mut HashMap<&str, String>) -> Result<Self, Fault> {
        let mut frame = Self::default();
        if let Some(key) = key_of_sequence(&contents.post_processor) {
            return Err((format!("post_processor.{key}"), "a key".to_owned(), "no such key"));
        }
        for (at, step) in steps(&contents.post_processor).into_iter().enumerate() {
            let place = format!("post_processor[{at}]");
            let known: &[&str] = match kind(step) {
                "ByteLevel" => &["add_prefix_space", "trim_offsets", "use_regex"],
                "RobertaProcessing" => &["sep", "cls", "trim_offsets", "add_prefix_space"],
                "BertProcessing" => &["sep", "cls"],
                "TemplateProcessing" => &["single", "pair", "special_tokens"],
                other => {
                    let expected =
                        "ByteLevel, RobertaProcessing, BertProcessing or TemplateProcessing";
                    return Err((format!("{place}.type"), format!("{other:?}"), expected));
                }
            };
            let mut keys = step.as_object().into_iter().flat_map(|step| step.iter());
            if let Some((key, value)) =
                keys.find(|(key, _)| *key != "type" && !known.contains(&key.as_str()))
            {
                return Err((format!("{place}.{key}"), shown(value), "no such key"));
            }
            match kind(step) {
                "ByteLevel" => {
                    frame.bos.get_or_insert(false);
                    frame.eos.get_or_insert(false);
                }
                "TemplateProcessing" => {
                    let inside = step.get("single").and_then(Json::as_array).is_some_and(|parts| {
                        let inner = parts.iter().skip(1).rev().skip(1);
                        inner.into_iter().any(|part| part.get("SpecialToken").is_some())
                    });
                    if inside {
                        let found = shown(step.get("single").unwrap_or(&Json::Null));
                        let expected = "special tokens at its beginning and its end only";
                        return Err((format!("{place}.single"), found, expected));
                    }
                    frame.template(step, texts);
                }
                _ => {
                    frame = Self { bos: Some(true), eos: Some(true), sep: Some(true) };
                    for (name, key) in [("cls", "cls"), ("sep", "sep")] {
                        let text = step.get(key).and_then(|pair| pair.get(0)?.as_str());
                        if let (false, Some(text)) = (texts.contains_key(name), text) {
                            texts.insert(name, text.to_owned());
                        }
                    }
                }
            }
        }
        Ok(frame)
    }

    fn template(&mut self, step: &Json, texts: &mut HashMap<&str, String>) {
        let empty = Vec::new();
        let parts = |key: &str| step.get(key).and_then(Json::as_array).unwrap_or(&empty);
        let token = |part: &Json| part.get("SpecialToken")?.get("id")?.as_str().map(str::to_owned);
        let single = parts("single");
        if single.len() < 2 {
            return;
        }
        let first = single.first().and_then(token);
        let last = single.last().and_then(token);
        if let Some(first) = &first {
            for name in ["bos", "cls"] {
                if !texts.contains_key(name) && !texts.values().any(|text| text == first) {
                    texts.insert(name, first.clone());
                }
            }
            let known = ["bos", "cls"].iter().any(|name| texts.get(name) == Some(first));
            self.bos = Some(known);
        }
        if let Some(last) = &last {
            texts.insert("eos", last.clone());
            self.eos = Some(true);
        }
        // A pair's texts are separated by a token of their own, unless the first text's end does.
        let pair: Vec<_> = parts("pair").iter().map(token).collect();
        let inner = pair.iter().flatten().count();
        let outer = usize::from(first.is_some()) + usize::from(last.is_some());
        if inner > outer {
            let separates = pair
                .iter()
                .flatten()
                .any(|text| ["sep", "eos"].iter().any(|name| texts.get(name) == Some(text)));
            self.sep = Some(separates && (last.is_none() || inner > outer + 1));
        }
    }
}

/// Whether a text is one character of GPT-2's alphabet of bytes.
pub(super) fn is_byte_letter(text: &str) -> bool {
    let mut chars = text.chars();
    let letter = |c| matches!(c, '!'..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{143}');
    chars.next().is_some_and(letter) && chars.next().is_none()
}

/// Whether a text is one of `<0x00>` to `<0xFF>`.
pub(super) fn is_byte_token(text: &str) -> bool {
    let hex = text.strip_prefix("<0x").and_then(|text| text.strip_suffix('>'));
    hex.is_some_and(|hex| hex.len() == 2 && u8::from_str_radix(hex, 16).is_ok())
}
