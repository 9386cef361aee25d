//! Objects of `tokenizer.json` with typed lookups: every key is read, or the object is refused.

use std::cell::RefCell;

use serde_json::{Map, Value};

use crate::Error;

/// The longest value in an error, in characters.
const SHOWN: usize = 60;

/// An object of the file. It remembers which keys were looked up.
#[derive(Debug)]
pub(super) struct Node<'a> {
    /// The place in the file, such as `pre_tokenizer.pretokenizers[1]`.
    place: String,
    map: &'a Map<String, Value>,
    read: RefCell<Vec<&'static str>>,
}

impl<'a> Node<'a> {
    /// # Errors
    /// If the value is no object.
    pub(super) fn new(place: String, value: &'a Value) -> Result<Self, Error> {
        match value {
            Value::Object(map) => Ok(Self { place, map, read: RefCell::default() }),
            other => Err(rejected(&place, format!("is {}, expected an object", shown(other)))),
        }
    }

    /// An error about this object.
    pub(super) fn error(&self, fault: impl Into<String>) -> Error {
        rejected(&self.place, fault)
    }

    /// An error about a key of this object.
    pub(super) fn wrong(&self, key: &'static str, expected: &str) -> Error {
        let found = self.map.get(key).map_or_else(|| "missing".to_owned(), shown);
        rejected(&self.place_of(key), format!("is {found}, expected {expected}"))
    }

    /// Refuses the first key that was not looked up.
    pub(super) fn finish(self) -> Result<(), Error> {
        let read = self.read.borrow();
        match self.map.keys().find(|key| !read.contains(&key.as_str())) {
            Some(key) => {
                let key: String = key.chars().take(SHOWN).collect();
                let place = place_of(&self.place, &key);
                Err(rejected(&place, "is a key that no rule of this kind has"))
            }
            None => Ok(()),
        }
    }

    /// Says that keys change no ids and no text.
    pub(super) fn disregard(&self, keys: &[&'static str]) {
        self.read.borrow_mut().extend(keys);
    }

    /// The value of a key; `null` counts as absent.
    pub(super) fn get(&self, key: &'static str) -> Option<&'a Value> {
        self.read.borrow_mut().push(key);
        self.map.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn flag(&self, key: &'static str) -> Result<Option<bool>, Error> {
        self.get(key)
            .map(|value| value.as_bool().ok_or_else(|| self.wrong(key, "true or false")))
            .transpose()
    }

    pub(super) fn text(&self, key: &'static str) -> Result<Option<&'a str>, Error> {
        self.get(key)
            .map(|value| value.as_str().ok_or_else(|| self.wrong(key, "a string")))
            .transpose()
    }

    pub(super) fn required_text(&self, key: &'static str) -> Result<&'a str, Error> {
        self.text(key)?.ok_or_else(|| self.wrong(key, "a string"))
    }

    pub(super) fn required_flag(&self, key: &'static str) -> Result<bool, Error> {
        self.flag(key)?.ok_or_else(|| self.wrong(key, "true or false"))
    }

    /// A string of one character.
    pub(super) fn required_char(&self, key: &'static str) -> Result<char, Error> {
        let mut chars = self.required_text(key)?.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(c),
            _ => Err(self.wrong(key, "one character")),
        }
    }

    /// An integer from 0 to 2^32 - 2.
    pub(super) fn integer(&self, key: &'static str) -> Result<Option<u32>, Error> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        self.get(key)
            .map(|value| {
                id(value)
                    .filter(|&id| id != u32::MAX)
                    .ok_or_else(|| self.wrong(key, "an integer from 0 to 2^32 - 2"))
            })
            .transpose()
    }

    pub(super) fn list(&self, key: &'static str) -> Result<&'a [Value], Error> {
        match self.get(key) {
            Some(Value::Array(items)) => Ok(items),
            _ => Err(self.wrong(key, "a list")),
        }
    }

    /// The objects of a list.
    pub(super) fn nodes(&self, key: &'static str) -> Result<Vec<Self>, Error> {
        let item = |(at, value)| Self::new(format!("{}[{at}]", self.place_of(key)), value);
        self.list(key)?.iter().enumerate().map(item).collect()
    }

    /// The object of a key.
    pub(super) fn node(&self, key: &'static str) -> Result<Option<Self>, Error> {
        self.get(key).map(|value| Self::new(self.place_of(key), value)).transpose()
    }

    pub(super) fn place_of(&self, key: &str) -> String {
        place_of(&self.place, key)
    }
}

fn place_of(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

fn rejected(place: &str, fault: impl Into<String>) -> Error {
    let place = if place.is_empty() { "the file" } else { place };
    Error::Rule { place: place.to_owned(), fault: fault.into() }
}

/// A value for an error, shortened.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
