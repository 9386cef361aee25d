//! The file of `pelton serve --config`: the long options as keys.

use std::{ffi::OsString, fs, path::Path};

use anyhow::{Context, Result, anyhow, bail};
use clap::{
    Command,
    error::{ContextKind, ErrorKind},
};

/// The words of the command line that a file stands for. Errors name the file, and the
/// line and the key in it.
pub(super) fn words(file: &Path, command: &Command) -> Result<Vec<OsString>> {
    let named = || format!("the configuration in {}", file.display());
    let text = fs::read_to_string(file).with_context(named)?;
    let words = words_of(&text).with_context(named)?;
    check(&text, &words, command).with_context(named)?;
    Ok(words.into_iter().flat_map(|(_, words)| words).map(OsString::from).collect())
}

/// The words of each key. Models are the last ones: their words begin with no hyphen.
pub(super) fn words_of(text: &str) -> Result<Vec<(String, Vec<String>)>> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        anyhow!("line {}: {}", before.matches('\n').count() + 1, error.message())
    })?;
    let (mut all, mut models) = (Vec::new(), Vec::new());
    for (key, value) in table {
        let place = place(text, &key);
        if key == "config" {
            bail!("{place}: config is the name of another file, expected one file");
        }
        let values = match value {
            toml::Value::Array(list) => list,
            other => vec![other],
        };
        let mut words = Vec::new();
        for value in values {
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(true) => {
                    words.push(format!("--{key}"));
                    continue;
                }
                toml::Value::Boolean(false) => continue,
                _ => bail!(
                    "{place}: {key} is a table or a time, expected a string, a number or a list"
                ),
            };
            match key.as_str() {
                "models" => words.push(value),
                _ => words.push(format!("--{key}={value}")),
            }
        }
        match key.as_str() {
            "models" => models.push((key, words)),
            _ => all.push((key, words)),
        }
    }
    all.extend(models);
    Ok(all)
}

/// Checks the words of a file. The options of one key may need those of another, so a key is at
/// fault only if the whole is refused, and the key on its own is for the same reason.
fn check(text: &str, words: &[(String, Vec<String>)], command: &Command) -> Result<()> {
    let parse = |words: &mut dyn Iterator<Item = &String>| {
        let words = words.map(String::as_str);
        command.clone().try_get_matches_from(std::iter::once("pelton serve").chain(words)).err()
    };
    let Some(error) = parse(&mut words.iter().flat_map(|(_, words)| words)) else { return Ok(()) };
    for (key, words) in words {
        if let Some(own) = parse(&mut words.iter()).filter(|own| reason(own) == reason(&error)) {
            bail!("{}: {}", place(text, key), sentence(key, &own));
        }
    }
    bail!("{}", reason(&error))
}

/// Where a key is.
fn place(text: &str, key: &str) -> String {
    let is_key = |line: &str| {
        let name = line.split('=').next().unwrap_or_default();
        name.trim().trim_matches(['"', '\'']) == key
    };
    match text.lines().position(is_key) {
        Some(line) => format!("line {}", line + 1),
        None => format!("the key {key}"),
    }
}

/// Why the option that a key stands for is refused.
fn sentence(key: &str, error: &clap::Error) -> String {
    if error.kind() != ErrorKind::UnknownArgument {
        return format!("{key}: {}", reason(error));
    }
    match error.get(ContextKind::SuggestedArg) {
        Some(similar) => {
            let similar = similar.to_string();
            format!("{key} is no key, did you mean {}?", similar.trim_start_matches('-'))
        }
        None => {
            format!("{key} is no key, expected a long option of `pelton serve` without its hyphens")
        }
    }
}

/// The sentence of an error, without the usage after it.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let sentence = lines.collect::<Vec<_>>().join(" ");
    sentence.strip_prefix("error: ").unwrap_or(&sentence).to_owned()
}
