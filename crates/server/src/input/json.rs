//! Strict JSON: no key twice in an object, a bounded depth, a bounded number of values.

use std::{cell::Cell, fmt};

use axum::http::StatusCode;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use pelton::Constraint;

use crate::error::ApiError;

/// The greatest depth of nested lists and objects.
const DEPTH: usize = 100;

/// The most memory of a parsed body, with its bytes and all texts and values, in bytes.
const MEMORY: usize = 62 << 20;
/// The memory of values that a body has in any case beside its texts: one of few texts may be as
/// long as the server allows.
const SPARE: usize = 4 << 20;
/// The most memory of the values of a body without their texts, in bytes: 750,000 numbers.
pub(super) const COST_MAX: usize = 750_000 * VALUE;
/// The memory of a value in a list.
pub(super) const VALUE: usize = 72;
/// The memory of an object of a few keys, and of each of its keys without its text.
pub(super) const OBJECT: usize = 640;
pub(super) const KEY: usize = 96;

/// The most memory of the texts and values of a body of some bytes.
pub(crate) fn cost_max(body: usize) -> usize {
    MEMORY.saturating_sub(body).max(body.saturating_add(SPARE))
}

/// The message about a body of too many values.
pub(super) fn too_many() -> String {
    format!("the body has more values than it may, expected at most {} numbers", COST_MAX / VALUE)
}

/// As [`parse_body`], of a text within a body.
pub(crate) fn parse(text: &str) -> Result<Value, ApiError> {
    Ok(parse_body(text.as_bytes())?.0)
}

/// Parses the body of a request. The second result is the memory that the values take, in bytes.
///
/// # Errors
///
/// If it is not UTF-8 or not JSON, has a key twice, is nested too deeply or has too many values.
pub(crate) fn parse_body(body: &[u8]) -> Result<(Value, usize), ApiError> {
    let text = text_of(body)?;
    let mut source = serde_json::Deserializer::from_str(text);
    let cost = Cost { values: Cell::new(0), texts: Cell::new(0), most: cost_max(body.len()) };
    let value = Strict { depth: 0, cost: &cost }.deserialize(&mut source);
    let value = value.and_then(|value| source.end().map(|()| value));
    let value =
        value.map_err(|error| ApiError::invalid(format!("the body is not valid JSON: {error}")))?;
    Constraint::check_numbers(text).map_err(|error| ApiError::invalid(error.to_string()))?;
    Ok((value, cost.values.get() + cost.texts.get()))
}

/// The text of a body. A byte order mark before it is skipped, as RFC 8259 allows.
fn text_of(body: &[u8]) -> Result<&str, ApiError> {
    const EXPECTED: &str = "expected JSON in UTF-8";
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    // JSON begins with an ASCII character, so that zeros show a wider encoding
    let encoding = match body {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] | [0, 0, 0, _, ..] | [_, 0, 0, 0, ..] => {
            "UTF-32"
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] => "UTF-16",
        [0x1f, 0x8b, ..] => {
            let message = format!("the body is compressed by gzip, {EXPECTED}, not compressed");
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        _ => {
            return std::str::from_utf8(body).map_err(|error| {
                let at = error.valid_up_to();
                ApiError::invalid(format!("the body is not UTF-8 from byte {at} on, {EXPECTED}"))
            });
        }
    };
    Err(ApiError::invalid(format!("the body is in {encoding}, {EXPECTED}")))
}

/// The memory of a value and of all within it in bytes, as [`parse_body`] counts it.
pub(crate) fn cost_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(|one| VALUE + cost_of(one)).sum(),
        Value::Object(map) => {
            OBJECT + map.iter().map(|(key, one)| KEY + key.len() + cost_of(one)).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The memory of the values so far, and its limit.
struct Cost {
    values: Cell<usize>,
    texts: Cell<usize>,
    most: usize,
}

impl Cost {
    fn check<E: de::Error>(&self) -> Result<(), E> {
        let (values, texts) = (self.values.get(), self.texts.get());
        match values <= COST_MAX && values + texts <= self.most {
            true => Ok(()),
            false => Err(E::custom(too_many())),
        }
    }

    fn add_values<E: de::Error>(&self, bytes: usize) -> Result<(), E> {
        self.values.set(self.values.get() + bytes);
        self.check()
    }

    fn add_text<E: de::Error>(&self, text: &str) -> Result<(), E> {
        self.texts.set(self.texts.get() + text.len());
        self.check()
    }
}

#[derive(Clone, Copy)]
struct Strict<'a> {
    depth: usize,
    cost: &'a Cost,
}

impl Strict<'_> {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        match self.depth < DEPTH {
            true => Ok(Self { depth: self.depth + 1, ..self }),
            false => Err(E::custom(format!("nested deeper than {DEPTH} lists and objects"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number is not finite"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.cost.add_text(value)?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        self.cost.add_text(&value)?;
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(value) = access.next_element_seed(inner)? {
            self.cost.add_values(VALUE)?;
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        self.cost.add_values(OBJECT)?;
        while let Some(key) = access.next_key::<String>()? {
            self.cost.add_values(KEY)?;
            self.cost.add_text(&key)?;
            let value = access.next_value_seed(inner)?;
            if map.contains_key(&key) {
                return Err(de::Error::custom(format!("the key {key:?} is there twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn good_bodies() {
        let text =
            r#" {"a": [1, -2, 1.5, "x", null, true, {"b": {}}], "big": 18446744073709551615} "#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse("\u{feff}{\"a\": 1}").unwrap(), json!({"a": 1}));
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(parse(&deep).is_ok());
        assert_eq!(parse("\"\\ud83d\\ude00\"").unwrap(), json!("\u{1f600}"));
    }

    /// The values of long requests pass; values that take far more memory than their text do not.
    #[test]
    fn many_values() {
        let list =
            |element: &str, count: usize| format!("[{}0]", format!("{element},").repeat(count));
        for body in [
            list("123456", 740_000),
            list(&list("12345", 500), 500),
            list(r#"{"role":"user","content":"Hello"}"#, 50_000),
        ] {
            assert!(parse(&body).is_ok());
        }
        assert!(size_of::<Value>() <= VALUE);
        for body in [list("[]", 10_000_000), list("{}", 1_000_000), list(r#"{"a":0}"#, 400_000)] {
            let error = parse(&body).unwrap_err();
            assert!(error.message.contains("more values"), "{error}");
        }
    }

    #[test]
    fn costs_of_values() {
        let text = r#"{"a": [1, "xy", {"b": null}, []], "c": {"d": "e"}}"#;
        let (value, cost) = parse_body(text.as_bytes()).unwrap();
        assert_eq!(cost_of(&value), cost);
    }

    /// Texts and values have one limit, and a body of few texts may be long.
    #[test]
    fn texts_and_values_share_a_limit() {
        let text = "x".repeat(31 << 20);
        assert!(parse(&format!("{{\"prompt\": \"{text}\"}}")).is_ok());
        let numbers = "0,".repeat(500_000);
        assert!(parse(&format!("[{numbers}0]")).is_ok());
        let error = parse(&format!("[{numbers}\"{text}\"]")).unwrap_err();
        assert!(error.message.contains("more values"), "{error}");
    }

    #[test]
    fn bad_bodies() {
        let deep = "[".repeat(10_000);
        let objects = "{\"a\":".repeat(10_000);
        for (body, found) in [
            (&b""[..], "EOF"),
            (b"{\"a\": 1, \"a\": 2}", "twice"),
            (b"{\"a\": {\"b\": 1, \"b\": 1}}", "twice"),
            (b"{\"a\": 1} x", "trailing"),
            (b"{'a': 1}", "key must be a string"),
            (b"{\"a\": 1e999}", "number"),
            (b"{\"a\": \"\xff\"}", "UTF-8"),
            (b"\"\\ud800\"", "hex escape"),
            (b"{\"a\": NaN}", "expected"),
            (b"\xff\xfe{\0}\0", "in UTF-16, expected JSON in UTF-8"),
            (b"{\0}\0", "in UTF-16"),
            (b"\0{\0}", "in UTF-16"),
            (b"\0\0\0{\0\0\0}", "in UTF-32"),
            (b"{\0\0\0}\0\0\0", "in UTF-32"),
            (b"\xef\xbb\xbf\xef\xbb\xbf{}", "JSON"),
            (deep.as_bytes(), "nested deeper"),
            (objects.as_bytes(), "nested deeper"),
        ] {
            let error = parse_body(body).unwrap_err();
            assert_eq!(error.status.as_u16(), 400);
            assert!(error.message.contains(found), "{} {found}", error.message);
        }
    }
}
