//! A name and one element for each argument.

use serde_json::{Map, Value};

use super::step::is_name;
use super::tools::{Tools, json_or_text};
use crate::format::Separator;

/// The name and the arguments of a call.
pub(crate) type Call = (String, Map<String, Value>);

/// Why a body is no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It ends within a value: what seemed to be its end may be part of the value.
    Incomplete,
    Malformed,
}

/// The texts around names and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) name_end: &'static str,
    pub(crate) parameter: &'static str,
    pub(crate) parameter_end: Separator,
    pub(crate) value_end: &'static str,
}

impl Layout {
    /// The call that a body is.
    pub(crate) fn parse(&self, body: &str, tools: &Tools) -> Result<Call, Fault> {
        let (name, mut rest) = match self.name_end.trim() {
            "" => {
                let end = body.trim_start().find(|c: char| c.is_whitespace() || c == '<');
                body.trim_start().split_at(end.unwrap_or(body.trim_start().len()))
            }
            name_end => body.split_once(name_end).ok_or(Fault::Malformed)?,
        };
        let name = name.trim();
        if !is_name(name) {
            return Err(Fault::Malformed);
        }
        let mut arguments = Map::new();
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return Ok((name.to_owned(), arguments));
            }
            let from_key = rest.strip_prefix(self.parameter).ok_or(Fault::Malformed)?;
            let (key, is_string, from_value) = self.key(from_key).ok_or(Fault::Malformed)?;
            let (raw, after) =
                from_value.split_once(self.value_end.trim()).ok_or(Fault::Incomplete)?;
            rest = after;
            let raw = match self.value_end.starts_with('\n') {
                true => {
                    let raw = raw.strip_prefix('\n').unwrap_or(raw);
                    raw.strip_suffix('\n').unwrap_or(raw)
                }
                false => raw,
            };
            let value = match is_string {
                Some(true) => Value::String(raw.to_owned()),
                Some(false) => json_or_text(raw),
                None => tools.value(name, key, raw),
            };
            arguments.insert(key.to_owned(), value);
        }
    }

    /// The name of a parameter, whether its value is a string, and the text from its value on.
    fn key<'t>(&self, text: &'t str) -> Option<(&'t str, Option<bool>, &'t str)> {
        match self.parameter_end {
            Separator::Text(first, second) => {
                let (key, rest) = text.split_once(first.trim())?;
                let rest = match second {
                    "" => rest,
                    second => rest.trim_start().strip_prefix(second)?,
                };
                Some((key.trim(), None, rest))
            }
            Separator::Typed { string, json } => {
                let (key, _) = text.split_once('"')?;
                let rest = &text[key.len()..];
                match rest.strip_prefix(string) {
                    Some(rest) => Some((key, Some(true), rest)),
                    None => Some((key, Some(false), rest.strip_prefix(json)?)),
                }
            }
        }
    }
}
