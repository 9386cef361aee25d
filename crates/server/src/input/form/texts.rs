//! The texts of a form as the fields of an object.

use serde_json::{Map, Value, json};

use crate::{error::ApiError, input::Fields};

/// Characters of a client's text that messages have.
const SHOWN: usize = 80;

/// A client's text for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// The texts so far.
#[derive(Debug, Default)]
pub(super) struct Texts(Map<String, Value>);

impl Texts {
    /// Adds a text by its name: `a` is a text, `a[]` an element of a list, `a[b]` a field of an
    /// object.
    pub(super) fn add(&mut self, name: &str, text: Vec<u8>) -> Result<(), ApiError> {
        let (base, key) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((base, key)) => (base, Some(key)),
            None => (name, None),
        };
        let twice = || {
            let name = shown(name);
            let message = format!("{name} is there twice in the form, expected it once");
            ApiError::field(name, message)
        };
        let text = String::from_utf8(text).map_err(|_| {
            let name = shown(name);
            ApiError::field(name.clone(), format!("{name} is not UTF-8"))
        })?;
        let slot = self.0.entry(base.to_owned()).or_insert(Value::Null);
        match (key, slot) {
            (None, slot @ Value::Null) => *slot = text.into(),
            (Some(""), slot @ Value::Null) => *slot = json!([text]),
            (Some(""), Value::Array(list)) => list.push(text.into()),
            (Some(key), slot @ Value::Null) => *slot = json!({ key: text }),
            (Some(key), Value::Object(map)) if !map.contains_key(key) => {
                map.insert(key.to_owned(), text.into());
            }
            _ => return Err(twice()),
        }
        Ok(())
    }

    pub(super) fn fields(self) -> Fields {
        Fields::of_texts(self.0)
    }
}
