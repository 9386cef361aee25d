//! Strict JSON: no key twice in an object, a bounded depth, a bounded number of values.

use std::{cell::Cell, fmt};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::ApiError;

/// The greatest depth of nested lists and objects.
const DEPTH: usize = 100;

/// The most memory of all values of a body without their texts, in bytes: a million numbers.
pub(crate) const COST_MAX: usize = 64 << 20;
/// The memory of a value in a list that grows.
const VALUE: usize = 64;
/// The memory of an object of a few keys, and of each of its keys.
const OBJECT: usize = 640;
const KEY: usize = 96;

/// As [`parse_body`], of a text within a body.
pub(crate) fn parse(text: &str) -> Result<Value, ApiError> {
    Ok(parse_body(text.as_bytes())?.0)
}

/// Parses the body of a request. The second result is the memory that the values take without their
/// texts, in bytes.
///
/// # Errors
///
/// If it is not UTF-8 or not JSON, has a key twice, is nested too deeply or has too many values.
pub(crate) fn parse_body(body: &[u8]) -> Result<(Value, usize), ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| {
        ApiError::invalid(format!("the body is not UTF-8 from byte {} on", error.valid_up_to()))
    })?;
    let (mut source, cost) = (serde_json::Deserializer::from_str(text), Cell::new(0));
    let value = Strict { depth: 0, cost: &cost }.deserialize(&mut source);
    let value = value.and_then(|value| source.end().map(|()| value));
    let value =
        value.map_err(|error| ApiError::invalid(format!("the body is not valid JSON: {error}")))?;
    Ok((value, cost.get()))
}

#[derive(Clone, Copy)]
struct Strict<'a> {
    depth: usize,
    /// The memory so far.
    cost: &'a Cell<usize>,
}

impl Strict<'_> {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        match self.depth < DEPTH {
            true => Ok(Self { depth: self.depth + 1, ..self }),
            false => Err(E::custom(format!("nested deeper than {DEPTH} lists and objects"))),
        }
    }

    fn pay<E: de::Error>(self, bytes: usize) -> Result<(), E> {
        self.cost.set(self.cost.get() + bytes);
        match self.cost.get() <= COST_MAX {
            true => Ok(()),
            false => Err(E::custom(format!(
                "more values than a request may have, expected at most {} numbers",
                COST_MAX / VALUE
            ))),
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

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut list = Vec::new();
        while let Some(value) = access.next_element_seed(inner)? {
            self.pay(VALUE)?;
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        self.pay(OBJECT)?;
        while let Some(key) = access.next_key::<String>()? {
            self.pay(KEY)?;
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
            list("123456", 1_000_000),
            list(&list("12345", 500), 500),
            list(r#"{"role":"user","content":"Hello"}"#, 50_000),
        ] {
            assert!(parse(&body).is_ok());
        }
        for body in [list("[]", 10_000_000), list("{}", 1_000_000), list(r#"{"a":0}"#, 400_000)] {
            let error = parse(&body).unwrap_err();
            assert!(error.message.contains("more values"), "{error}");
        }
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
            (deep.as_bytes(), "nested deeper"),
            (objects.as_bytes(), "nested deeper"),
        ] {
            let error = parse_body(body).unwrap_err();
            assert_eq!(error.status.as_u16(), 400);
            assert!(error.message.contains(found), "{} {found}", error.message);
        }
    }
}
