//! The vocabulary: `tokenizer.json`, or `vocab.json` with `merges.txt` and `added_tokens.json`.

use std::path::Path;

use serde_json::Value;

use crate::hf::json::{CONFIG_BYTES, Object, TOKENIZER_BYTES, parse, read as read_bytes, shown};
use crate::hf::tokenizer::contents::{Contents, Vocab};
use crate::hf::tokenizer::pre;
use crate::whisper::{NO_SPEECH, NO_TIMESTAMPS, START, TIMESTAMPS, Tokens, specials, timestamp};
use crate::{Error, Problem};

/// The name of the token without speech in files before large-v3.
const NO_CAPTIONS: &str = "<|nocaptions|>";

/// Tokens and merges as files have them.
#[derive(Default)]
struct Files {
    vocab: Vec<(String, u64)>,
    added: Vec<(String, u64)>,
    merges: Vec<String>,
}

/// Reads the vocabulary of a model of `rows` tokens.
pub(super) fn read(folder: &Path, rows: usize) -> Result<Tokens, Error> {
    let fast = folder.join("tokenizer.json");
    let (path, files) = match fast.is_file() {
        true => (fast.clone(), of_tokenizer(&fast)?),
        false => (folder.join("vocab.json"), of_vocabulary(folder)?),
    };
    let mut tokens = Tokens::new(rows);
    let beyond = |text: &str, id: u64| {
        let found = format!("id {id} of token {:?}", shown(&Value::from(text)));
        let expected = format!("below vocab_size {rows}");
        Error::at(&path, Problem::ConfigValue { key: "vocab".to_owned(), found, expected })
    };
    let slot = |id: u64| usize::try_from(id).unwrap_or(usize::MAX);
    for (text, id) in files.vocab {
        let framed = text.starts_with("<|") && text.ends_with("|>");
        let put = match framed {
            true => tokens.put_added(slot(id), own_text(text.clone())),
            false => tokens.put_text(slot(id), text.clone()),
        };
        put.ok_or_else(|| beyond(&text, id))?;
    }
    for (text, id) in files.added {
        tokens.put_added(slot(id), own_text(text.clone())).ok_or_else(|| beyond(&text, id))?;
    }
    complete(&mut tokens, rows);
    tokens.put_merges(files.merges);
    match tokens.fault() {
        Some(fault) => Err(Error::at(&path, Problem::WhisperVocabulary { fault })),
        None => Ok(tokens),
    }
}

/// OpenAI's text of an added token.
fn own_text(text: String) -> String {
    if text == NO_CAPTIONS { NO_SPEECH.to_owned() } else { text }
}

/// Adds special tokens that a file does not have: timestamps, which came with later files, or all
/// of OpenAI's.
fn complete(tokens: &mut Tokens, rows: usize) {
    if let Some(last) = tokens.id(NO_TIMESTAMPS) {
        tokens.put_specials(last + 1, (0..TIMESTAMPS).map(timestamp).collect());
    } else if tokens.id(START).is_none()
        && let Some((first, texts)) = specials(rows)
    {
        tokens.put_specials(first, texts);
    }
}

fn of_tokenizer(path: &Path) -> Result<Files, Error> {
    let contents: Contents = parse(path, TOKENIZER_BYTES)?;
    let invalid = |key: &str, found: String, expected: &str| {
        let expected = expected.to_owned();
        Error::at(path, Problem::ConfigValue { key: key.to_owned(), found, expected })
    };
    let pre = pre::name(&contents.pre_tokenizer, contents.model.ignore_merges == Some(true));
    if pre != "gpt-2" {
        return Err(invalid("pre_tokenizer", pre, "GPT-2's, as all of Whisper's"));
    }
    let Vocab::Ids(vocab) = contents.model.vocab else {
        return Err(invalid("vocab", "a list".to_owned(), "an object of ids by token"));
    };
    let merges = contents.model.merges.0.into_iter();
    Ok(Files {
        vocab,
        added: contents.added_tokens.into_iter().map(|token| (token.content, token.id)).collect(),
        merges: merges.map(|(left, right)| format!("{left} {right}")).collect(),
    })
}

fn of_vocabulary(folder: &Path) -> Result<Files, Error> {
    let path = folder.join("vocab.json");
    if !path.is_file() {
        let fault = "no file: neither tokenizer.json nor vocab.json is in the folder".to_owned();
        return Err(Error::at(folder, Problem::WhisperVocabulary { fault }));
    }
    let vocab = ids(&Object::read(&path, TOKENIZER_BYTES)?)?;
    let added = Object::read_if_present(&folder.join("added_tokens.json"), CONFIG_BYTES)?;
    let added = added.as_ref().map(ids).transpose()?.unwrap_or_default();
    let path = folder.join("merges.txt");
    let bytes = read_bytes(&path, TOKENIZER_BYTES)?;
    let invalid = |found: String| {
        let (key, expected) = ("merges".to_owned(), "lines of two tokens in UTF-8".to_owned());
        Error::at(&path, Problem::ConfigValue { key, found, expected })
    };
    let text = str::from_utf8(&bytes).map_err(|error| invalid(error.to_string()))?;
    let mut merges = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("#version")) {
        if line.split(' ').count() != 2 {
            return Err(invalid(shown(&Value::from(line))));
        }
        merges.push(line.to_owned());
    }
    Ok(Files { vocab, added, merges })
}

/// The entries of an object of ids by token.
fn ids(object: &Object) -> Result<Vec<(String, u64)>, Error> {
    let entry = |(text, value): (&String, &Value)| match value.as_u64() {
        Some(id) => Ok((text.clone(), id)),
        None => Err(object.invalid(text, shown(value), "an id")),
    };
    object.entries().map(entry).collect()
}
