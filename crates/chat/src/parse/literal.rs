//! Calls written as calls of Python functions, and in Gemma's notation.

use serde_json::{Map, Number, Value};

use super::elements::{Call, Fault};
use super::step::is_name;

/// The most values within each other.
const DEPTH: usize = 64;

/// Gemma's quotation mark.
const GEMMA_QUOTE: &str = "<|\"|>";

/// `[f(a=1), g()]`.
pub(crate) fn python_list(text: &str) -> Option<Vec<Call>> {
    let mut reader = Reader(text);
    reader.take("[")?;
    let mut calls = Vec::new();
    loop {
        calls.push(reader.python_call()?);
        if reader.take(",").is_none() {
            break;
        }
    }
    reader.take("]")?;
    reader.0.trim().is_empty().then_some(calls)
}

/// `f.call(a=1)`, or `f(a=1)`.
pub(crate) fn python_call(text: &str) -> Option<Call> {
    let mut reader = Reader(text);
    let (name, arguments) = reader.python_call()?;
    let name = name.strip_suffix(".call").unwrap_or(&name).to_owned();
    reader.0.trim().is_empty().then_some((name, arguments))
}

/// `call:f{a:<|"|>text<|"|>}`.
pub(crate) fn gemma_call(text: &str) -> Result<Call, Fault> {
    let in_text = text.matches(GEMMA_QUOTE).count() % 2 == 1;
    gemma(text).ok_or(if in_text { Fault::Incomplete } else { Fault::Malformed })
}

fn gemma(text: &str) -> Option<Call> {
    let mut reader = Reader(text);
    reader.take("call:")?;
    let end = reader.0.find('{')?;
    let name = reader.0[..end].trim().to_owned();
    if !is_name(&name) {
        return None;
    }
    reader.0 = &reader.0[end..];
    let Value::Object(arguments) = reader.gemma(0)? else { return None };
    reader.0.trim().is_empty().then_some((name, arguments))
}

/// The rest of a text.
struct Reader<'t>(&'t str);

impl<'t> Reader<'t> {
    /// Skips white space and a text.
    fn take(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(text)?;
        Some(())
    }

    fn until(&mut self, end: impl Fn(char) -> bool) -> &'t str {
        self.0 = self.0.trim_start();
        let (word, rest) = self.0.split_at(self.0.find(end).unwrap_or(self.0.len()));
        self.0 = rest;
        word
    }

    fn python_call(&mut self) -> Option<Call> {
        let name = self.until(|c| c == '(' || c.is_whitespace()).to_owned();
        if !is_name(&name) {
            return None;
        }
        self.take("(")?;
        let mut arguments = Map::new();
        while self.take(")").is_none() {
            let key = self.until(|c| c == '=' || c.is_whitespace());
            if !is_name(key) {
                return None;
            }
            self.take("=")?;
            arguments.insert(key.to_owned(), self.python(0)?);
            if self.take(",").is_none() {
                self.take(")")?;
                break;
            }
        }
        Some((name, arguments))
    }

    fn python(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH {
            return None;
        }
        self.0 = self.0.trim_start();
        match self.0.chars().next()? {
            quote @ ('"' | '\'') => self.python_string(quote).map(Value::String),
            open @ ('[' | '(') => {
                let close = if open == '[' { "]" } else { ")" };
                self.0 = &self.0[1..];
                let mut items = Vec::new();
                while self.take(close).is_none() {
                    items.push(self.python(depth + 1)?);
                    if self.take(",").is_none() {
                        self.take(close)?;
                        break;
                    }
                }
                Some(Value::Array(items))
            }
            '{' => {
                self.0 = &self.0[1..];
                let mut entries = Map::new();
                while self.take("}").is_none() {
                    let Value::String(key) = self.python(depth + 1)? else { return None };
                    self.take(":")?;
                    entries.insert(key, self.python(depth + 1)?);
                    if self.take(",").is_none() {
                        self.take("}")?;
                        break;
                    }
                }
                Some(Value::Object(entries))
            }
            _ => constant(self.until(|c| ",)]}".contains(c) || c.is_whitespace())),
        }
    }

    fn python_string(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.0.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next()?.1 {
                    'n' => text.push('\n'),
                    'r' => text.push('\r'),
                    't' => text.push('\t'),
                    digits @ ('x' | 'u' | 'U') => {
                        let count = match digits {
                            'x' => 2,
                            'u' => 4,
                            _ => 8,
                        };
                        let code: String = chars.by_ref().take(count).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&code, 16).ok();
                        text.push(code.and_then(char::from_u32).unwrap_or('\u{fffd}'));
                    }
                    '\n' => {}
                    c @ ('\\' | '\'' | '"') => text.push(c),
                    c => text.extend(['\\', c]),
                },
                c if c == quote => {
                    self.0 = &self.0[at + 1..];
                    return Some(text);
                }
                c => text.push(c),
            }
        }
        None
    }

    fn gemma(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH {
            return None;
        }
        self.0 = self.0.trim_start();
        if let Some(rest) = self.0.strip_prefix(GEMMA_QUOTE) {
            let (text, rest) = rest.split_once(GEMMA_QUOTE)?;
            self.0 = rest;
            return Some(Value::String(text.to_owned()));
        }
        match self.0.chars().next()? {
            '"' => self.python_string('"').map(Value::String),
            '[' => {
                self.0 = &self.0[1..];
                let mut items = Vec::new();
                while self.take("]").is_none() {
                    items.push(self.gemma(depth + 1)?);
                    if self.take(",").is_none() {
                        self.take("]")?;
                        break;
                    }
                }
                Some(Value::Array(items))
            }
            '{' => {
                self.0 = &self.0[1..];
                let mut entries = Map::new();
                while self.take("}").is_none() {
                    let key = match self.0.trim_start().starts_with(['"', '<']) {
                        true => match self.gemma(depth + 1)? {
                            Value::String(key) => key,
                            _ => return None,
                        },
                        false => self.until(|c| ":{}[],".contains(c)).trim().to_owned(),
                    };
                    self.take(":")?;
                    if key.is_empty() {
                        return None;
                    }
                    entries.insert(key, self.gemma(depth + 1)?);
                    if self.take(",").is_none() {
                        self.take("}")?;
                        break;
                    }
                }
                Some(Value::Object(entries))
            }
            _ => constant(self.until(|c| ",]}".contains(c)).trim()),
        }
    }
}

/// A number or a constant of Python or JSON.
fn constant(text: &str) -> Option<Value> {
    Some(match text {
        "True" | "true" => Value::Bool(true),
        "False" | "false" => Value::Bool(false),
        "None" | "null" => Value::Null,
        _ => match serde_json::from_str(text) {
            Ok(Value::Number(number)) => Value::Number(number),
            _ => Value::Number(Number::from_f64(
                text.parse()
                    .ok()
                    .filter(|_| text.starts_with(|c: char| "+-.0123456789".contains(c)))?,
            )?),
        },
    })
}
