//! `tojson` as transformers defines it: Python's `json.dumps`, without escapes for HTML.

use std::fmt::Write;

use indexmap::IndexMap;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::bounds::DEPTH;
use super::numbers::python_float;
use super::{charge, deadline, marks};

/// A JSON value as a value of the template.
fn value(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::from(()),
        Json::Bool(bool) => Value::from(*bool),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            _ => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(value).collect(),
        Json::Object(entries) => map(entries),
    }
}

/// A JSON object as a value of the template, with its order of keys.
pub(super) fn map(entries: &serde_json::Map<String, serde_json::Value>) -> Value {
    let pairs = entries.iter().map(|(key, item)| (Value::from(key.as_str()), value(item)));
    Value::from_object(pairs.collect::<IndexMap<Value, Value>>())
}

/// The options of `json.dumps`.
struct Style {
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort: bool,
    /// Characters that are never escaped, because they are removed after rendering.
    marks: String,
}

/// The filter.
pub(super) fn tojson(
    state: &State<'_, '_>,
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    options: Kwargs,
) -> Result<String, Error> {
    let ensure_ascii = ensure_ascii.or(options.get("ensure_ascii")?);
    let indent = indent.or(options.get("indent")?).filter(|indent| !indent.is_none());
    let separators: Option<Value> = options.get("separators")?;
    let sort: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let indent = indent.map(|indent| match indent.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let width = i64::try_from(indent).unwrap_or(0).clamp(0, 64);
            " ".repeat(usize::try_from(width).unwrap_or(0))
        }
    });
    let (item, key) = match separators.filter(|pair| !pair.is_none()) {
        Some(pair) => {
            let text = |i: usize| pair.get_item(&Value::from(i)).map(|part| part.to_string());
            (text(0)?, text(1)?)
        }
        None if indent.is_some() => (",".into(), ": ".into()),
        None => (", ".into(), ": ".into()),
    };
    let style = Style {
        ascii: ensure_ascii.unwrap_or(false),
        indent,
        item,
        key,
        sort: sort.unwrap_or(false),
        marks: marks::of(state),
    };
    let mut out = String::new();
    style.write(&mut out, value, 0)?;
    Ok(out)
}

impl Style {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH {
            return Err(failed("the value of tojson is nested too deeply"));
        }
        deadline::step()?;
        if out.len() > charge::left() {
            charge::bytes(usize::MAX)?;
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
            ValueKind::Number => {
                let number = f64::try_from(value.clone())?;
                out.push_str(&match number {
                    n if n.is_nan() => "NaN".to_owned(),
                    n if n.is_infinite() && n < 0.0 => "-Infinity".to_owned(),
                    n if n.is_infinite() => "Infinity".to_owned(),
                    n => python_float(n),
                });
            }
            ValueKind::String => self.string(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                charge::items(value.len().unwrap_or(0))?;
                let items = value.try_iter()?.collect::<Vec<_>>();
                self.items(out, depth, ('[', ']'), &items, |out, item| {
                    self.write(out, item, depth + 1)
                })?;
            }
            ValueKind::Map => {
                let mut keys = value.try_iter()?.collect::<Vec<_>>();
                if self.sort {
                    keys.sort();
                }
                self.items(out, depth, ('{', '}'), &keys, |out, key| {
                    match key.kind() {
                        ValueKind::String => self.string(out, key.as_str().unwrap_or_default()),
                        _ => {
                            out.push('"');
                            self.write(out, key, depth + 1)?;
                            out.push('"');
                        }
                    }
                    out.push_str(&self.key);
                    self.write(out, &value.get_item(key)?, depth + 1)
                })?;
            }
            kind => return Err(failed(format!("tojson of a value of type {kind}"))),
        }
        Ok(())
    }

    fn items(
        &self,
        out: &mut String,
        depth: usize,
        brackets: (char, char),
        items: &[Value],
        mut each: impl FnMut(&mut String, &Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(brackets.0);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.item);
            }
            self.line(out, depth + 1);
            each(out, item)?;
            if out.len() > charge::left() {
                charge::bytes(usize::MAX)?;
            }
        }
        if !items.is_empty() {
            self.line(out, depth);
        }
        out.push(brackets.1);
        Ok(())
    }

    fn line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    }

    fn string(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ascii && c > '~' && !self.marks.contains(c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Writing to a string does not fail.
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn failed(reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}
