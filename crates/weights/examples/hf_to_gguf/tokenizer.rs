//! Translation of a byte-level BPE `tokenizer.json` to GGUF's tokenizer keys.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use pelton_weights::{Array, GgufWriter, ValueType};
use serde_json::Value;

use crate::config::{Config, Object};
use crate::convert::text_of;

/// Values of `tokenizer.ggml.token_type`.
mod token_type {
    pub(crate) const NORMAL: i32 = 1;
    pub(crate) const CONTROL: i32 = 3;
    pub(crate) const USER_DEFINED: i32 = 4;
    pub(crate) const UNUSED: i32 = 5;
}

/// Writes the tokenizer's keys, or the key that states that there is none.
pub(crate) fn set_keys(
    out: &mut GgufWriter,
    directory: &Path,
    config: &Config,
    pre: Option<&str>,
) -> Result<()> {
    let path = directory.join("tokenizer.json");
    if !path.is_file() {
        // llama.cpp's name for a model without text, with ids as input and output.
        return Ok(out.set("tokenizer.ggml.model", "no_vocab")?);
    }
    let tokenizer = Object::read(&path)?;
    let settings = match directory.join("tokenizer_config.json") {
        path if path.is_file() => Some(Object::read(&path)?),
        _ => None,
    };
    let model = tokenizer.object("model")?.context("tokenizer.json has no model")?;
    check_kind(&tokenizer, &model)?;
    let pre = pre.context("the directory has a tokenizer.json, which needs --pre NAME")?;

    let vocab = Vocabulary::read(&tokenizer, &model, config.vocab)?;
    out.set("tokenizer.ggml.model", "gpt2")?;
    out.set("tokenizer.ggml.pre", pre)?;
    let tokens = vocab.tokens.iter().map(String::as_str);
    out.set("tokenizer.ggml.tokens", Array::new(ValueType::String, tokens)?)?;
    out.set("tokenizer.ggml.token_type", Array::new(ValueType::I32, vocab.types.clone())?)?;
    out.set("tokenizer.ggml.merges", Array::new(ValueType::String, merges(&model)?)?)?;

    let mut special = |name: &str, key: &str| -> Result<Option<String>> {
        let text = settings.as_ref().and_then(|settings| settings.get(name)).and_then(text_of);
        let id = match text {
            Some(text) => {
                Some(vocab.id_of(text).with_context(|| format!("{name} {text:?} is not a token"))?)
            }
            None => config_id(config, &format!("{name}_id"))?,
        };
        let Some(id) = id else { return Ok(None) };
        let token = vocab.tokens.get(id).with_context(|| format!("{name}_id is {id}"))?;
        out.set(&format!("tokenizer.ggml.{key}"), u32::try_from(id)?)?;
        Ok(Some(token.clone()))
    };
    let bos = special("bos_token", "bos_token_id")?;
    let eos = special("eos_token", "eos_token_id")?;
    special("unk_token", "unknown_token_id")?;
    special("pad_token", "padding_token_id")?;

    let frame = tokenizer.get("post_processor").map(frame).unwrap_or_default();
    for (key, text, added) in [("bos", bos, frame.first), ("eos", eos, frame.last)] {
        let name = format!("add_{key}_token");
        let stated = settings.as_ref().map(|s| s.opt_bool(&name)).transpose()?.flatten();
        let derived = added.map(|added| added.is_some() && added == text);
        if let Some(add) = stated.or(derived) {
            out.set(&format!("tokenizer.ggml.{name}"), add)?;
        }
    }
    if let Some(template) = chat_template(directory, settings.as_ref())? {
        out.set("tokenizer.chat_template", template)?;
    }
    Ok(())
}

/// Rejects tokenizers that differ from GGUF's "gpt2".
fn check_kind(tokenizer: &Object, model: &Object) -> Result<()> {
    let kind = model.opt_str("type")?;
    ensure!(kind.is_none_or(|kind| kind == "BPE"), "the tokenizer is {kind:?}, expected BPE");
    let byte_level = tokenizer.get("decoder").is_some_and(|decoder| has_type(decoder, "ByteLevel"));
    ensure!(
        byte_level && model.opt_bool("byte_fallback")? != Some(true),
        "the tokenizer is not byte-level, expected the GPT-2 kind"
    );
    Ok(())
}

/// Whether `value`, or a step of its sequence, has the type `name`.
fn has_type(value: &Value, name: &str) -> bool {
    steps(value).any(|step| step.get("type").and_then(Value::as_str) == Some(name))
}

/// The steps of a sequence of decoders or processors, or a single one.
fn steps(value: &Value) -> impl Iterator<Item = &Value> {
    let list = ["decoders", "processors"].iter().find_map(|key| value.get(key)?.as_array());
    let single = list.is_none().then_some(value);
    list.into_iter().flatten().chain(single)
}

struct Vocabulary {
    tokens: Vec<String>,
    types: Vec<i32>,
}

impl Vocabulary {
    /// Reads one token per row of the embedding; rows without a token become unused `[PAD<id>]`.
    fn read(tokenizer: &Object, model: &Object, rows: usize) -> Result<Self> {
        let mut tokens: Vec<_> = (0..rows).map(|id| format!("[PAD{id}]")).collect();
        let mut types = vec![token_type::UNUSED; rows];
        let mut put = |text: &str, id: &Value, kind: i32| {
            let slot = id.as_u64().and_then(|id| usize::try_from(id).ok()).filter(|id| *id < rows);
            let id = slot.with_context(|| {
                format!("token {text:?} has id {id}, expected one below vocab_size {rows}")
            })?;
            text.clone_into(&mut tokens[id]);
            types[id] = kind;
            anyhow::Ok(())
        };
        let vocab = model.object("vocab")?.context("the tokenizer has no vocab")?;
        for (text, id) in vocab.entries() {
            put(text, id, token_type::NORMAL)?;
        }
        for added in tokenizer.get("added_tokens").and_then(Value::as_array).into_iter().flatten() {
            let text = text_of(added).context("an added token has no content")?;
            let special = added.get("special").and_then(Value::as_bool).unwrap_or(false);
            let kind = if special { token_type::CONTROL } else { token_type::USER_DEFINED };
            put(text, added.get("id").unwrap_or(&Value::Null), kind)?;
        }
        Ok(Self { tokens, types })
    }

    fn id_of(&self, text: &str) -> Option<usize> {
        self.tokens.iter().position(|token| token == text)
    }
}

/// The merges as "left right". They are pairs since tokenizers 0.20 and such strings before.
fn merges(model: &Object) -> Result<Vec<String>> {
    let list = model.get("merges").and_then(Value::as_array).context("the model has no merges")?;
    list.iter()
        .map(|merge| match merge {
            Value::String(text) => Ok(text.clone()),
            Value::Array(pair) => match pair.as_slice() {
                // Byte-level tokens have no spaces: a space is U+0120 in them.
                [Value::String(a), Value::String(b)] => Ok(format!("{a} {b}")),
                _ => bail!("merge {merge} is not a pair"),
            },
            _ => bail!("merge {merge} is neither a string nor a pair"),
        })
        .collect()
}

/// A special token's id in `config.json`, the first one of a list.
fn config_id(config: &Config, key: &str) -> Result<Option<usize>> {
    match config.all.get(key) {
        Some(Value::Array(ids)) => match ids.first().and_then(Value::as_u64) {
            Some(id) => Ok(Some(usize::try_from(id)?)),
            None => bail!("{key} does not begin with an id"),
        },
        _ => config.all.opt_usize(key),
    }
}

/// Tokens that a post-processor adds before and after a text: unknown, none, or a token.
#[derive(Default)]
struct Frame {
    first: Option<Option<String>>,
    last: Option<Option<String>>,
}

fn frame(processor: &Value) -> Frame {
    let mut frame = Frame::default();
    for step in steps(processor) {
        match step.get("type").and_then(Value::as_str) {
            Some("ByteLevel") => {
                frame.first.get_or_insert(None);
                frame.last.get_or_insert(None);
            }
            Some("TemplateProcessing") => {
                let single = step.get("single").and_then(Value::as_array);
                let token = |part: Option<&Value>| {
                    Some(part?.get("SpecialToken")?.get("id")?.as_str()?.to_owned())
                };
                frame.first = Some(token(single.and_then(|parts| parts.first())));
                frame.last = Some(token(single.and_then(|parts| parts.last())));
            }
            _ => {}
        }
    }
    frame
}

/// The chat template, from its own file or from `tokenizer_config.json`.
fn chat_template(directory: &Path, settings: Option<&Object>) -> Result<Option<String>> {
    let path = directory.join("chat_template.jinja");
    if path.is_file() {
        return Ok(Some(fs::read_to_string(path)?));
    }
    match settings.and_then(|settings| settings.get("chat_template")) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(named)) => named
            .iter()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"))
            .and_then(|entry| entry.get("template")?.as_str())
            .map(|text| Some(text.to_owned()))
            .context("chat_template has no entry named default"),
        Some(other) => bail!("chat_template is {other}"),
    }
}
