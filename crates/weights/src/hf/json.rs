//! JSON files of bounded size, and objects with typed lookups.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

pub(super) use crate::read::read;
use crate::{Error, Problem};

/// Limit of configuration files in bytes: `config.json`, `tokenizer_config.json` and the like.
/// Published ones are below 100 KiB, with lists of added tokens below 4 MiB.
pub(super) const CONFIG_BYTES: u64 = 16 << 20;

/// Limit of `tokenizer.json` in bytes; published ones are below 40 MiB.
pub(super) const TOKENIZER_BYTES: u64 = 256 << 20;

/// Limit of `model.safetensors.index.json` in bytes; published ones are below 20 MiB.
pub(super) const INDEX_BYTES: u64 = 64 << 20;

/// Reads and parses a JSON file. The parser rejects values nested more than 128 deep.
pub(super) fn parse<T: serde::de::DeserializeOwned>(path: &Path, limit: u64) -> Result<T, Error> {
    parse_bytes(path, &read(path, limit)?)
}

/// Parses the bytes of a JSON file.
pub(super) fn parse_bytes<T: serde::de::DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
) -> Result<T, Error> {
    serde_json::from_slice(bytes)
        .map_err(|fault| Error::at(path, Problem::Json { fault: fault.to_string() }))
}

/// A value for an error message, at most 80 characters of it.
pub(super) fn shown(value: &Value) -> String {
    const SHOWN: usize = 80;
    let mut text = value.to_string();
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A JSON object of a file with typed lookups. `null` counts as absent, as in transformers, and is
/// no reason for a default. It remembers which keys were looked up, its own and those of the
/// objects in it.
#[derive(Clone, Debug)]
pub(super) struct Object {
    file: Arc<str>,
    /// Keys from the file's outermost object to this one, each with a full stop behind it.
    path: String,
    /// Paths of keys that were looked up, of all objects of the file.
    read: Arc<Mutex<HashSet<String>>>,
    map: Map<String, Value>,
    /// Values of keys that the file does not have.
    defaults: Map<String, Value>,
}

impl Object {
    pub(super) fn read(path: &Path, limit: u64) -> Result<Self, Error> {
        Ok(Self::new(path.display().to_string().into(), parse(path, limit)?))
    }

    pub(super) fn read_if_present(path: &Path, limit: u64) -> Result<Option<Self>, Error> {
        if path.is_file() { Self::read(path, limit).map(Some) } else { Ok(None) }
    }

    pub(super) fn new(file: Arc<str>, map: Map<String, Value>) -> Self {
        let (path, read) = (String::new(), Arc::default());
        Self { file, path, read, map, defaults: Map::new() }
    }

    /// The path of its keys, empty for the outermost object of a file.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The same object with values for absent keys.
    pub(super) fn with_defaults(self, defaults: Map<String, Value>) -> Self {
        Self { defaults, ..self }
    }

    /// Sets the entries of `other`, which replace those of this object.
    pub(super) fn extend(&mut self, other: Self) {
        self.map.extend(other.map);
    }

    /// Sets the value of a key, if there is one.
    pub(super) fn set(&mut self, key: &str, value: Option<Value>) {
        self.map.extend(value.map(|value| (key.to_owned(), value)));
    }

    /// The entries whose keys were not looked up, with their paths; also those of the objects under
    /// the keys `within`.
    pub(super) fn unread(&self, within: &[&str]) -> Vec<(String, Value)> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unread = Vec::new();
        let mut objects = vec![(self.path.clone(), &self.map)];
        while let Some((path, map)) = objects.pop() {
            for (key, value) in map {
                let own = format!("{path}{key}");
                match value {
                    Value::Object(inner) if !path.is_empty() || within.contains(&key.as_str()) => {
                        objects.push((format!("{own}."), inner));
                    }
                    value if !read.contains(&own) => unread.push((own, value.clone())),
                    _ => {}
                }
            }
        }
        unread
    }

    /// Says that keys change nothing, because of another key.
    pub(super) fn disregard(&self, keys: &[&str]) {
        keys.iter().for_each(|key| self.mark(key));
    }

    fn mark(&self, key: &str) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.insert(format!("{}{key}", self.path));
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.mark(key);
        self.map.contains_key(key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.first(&[key]).map(|(_, value)| value)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.map.iter()
    }

    pub(super) fn error(&self, problem: Problem) -> Error {
        Error::new(&self.file, problem)
    }

    pub(super) fn invalid(&self, key: &str, found: impl ToString, expected: &str) -> Error {
        self.error(Problem::ConfigValue {
            key: key.to_owned(),
            found: found.to_string(),
            expected: expected.to_owned(),
        })
    }

    pub(super) fn missing(&self, key: &str, expected: &'static str) -> Error {
        self.error(Problem::ConfigMissing { key: key.to_owned(), expected })
    }

    /// The first of several names of a key that is present; the first default if none is.
    pub(super) fn first<'a>(&self, names: &[&'a str]) -> Option<(&'a str, &Value)> {
        let of = |map: &'_ Map<String, Value>| {
            let mut present = names.iter().filter(|name| map.contains_key(**name));
            present.find(|name| !map[**name].is_null()).copied()
        };
        if let Some(name) = of(&self.map) {
            self.mark(name);
            return Some((name, &self.map[name]));
        }
        if names.iter().any(|name| self.map.contains_key(*name)) {
            return None;
        }
        of(&self.defaults).map(|name| (name, &self.defaults[name]))
    }

    pub(super) fn object(&self, key: &str) -> Result<Option<Self>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Self {
                file: Arc::clone(&self.file),
                path: format!("{}{key}.", self.path),
                read: Arc::clone(&self.read),
                map: map.clone(),
                defaults: Map::new(),
            })),
            Some(other) => Err(self.invalid(key, shown(other), "an object")),
        }
    }

    /// An optional integer from 0 to 2^31 − 1, the range of all sizes.
    pub(super) fn size(&self, names: &[&str]) -> Result<Option<usize>, Error> {
        let Some((key, value)) = self.first(names) else { return Ok(None) };
        integer(value)
            .map(Some)
            .ok_or_else(|| self.invalid(key, shown(value), "an integer from 0 to 2^31 - 1"))
    }

    /// A required integer from 1 to 2^31 − 1.
    pub(super) fn required_size(&self, names: &[&str]) -> Result<usize, Error> {
        match self.size(names)? {
            Some(0) => {
                let key = self.first(names).map_or("", |(key, _)| key);
                Err(self.invalid(key, 0, "an integer from 1 to 2^31 - 1"))
            }
            Some(size) => Ok(size),
            None => {
                let key = names.first().copied().unwrap_or_default();
                Err(self.missing(key, "an integer from 1 to 2^31 - 1"))
            }
        }
    }

    /// An optional finite number in the range of binary32.
    pub(super) fn number(&self, names: &[&str]) -> Result<Option<f64>, Error> {
        let Some((key, value)) = self.first(names) else { return Ok(None) };
        match value.as_f64() {
            Some(number) if (number as f32).is_finite() => Ok(Some(number)),
            _ => Err(self.invalid(key, shown(value), "a number in the range of f32")),
        }
    }

    pub(super) fn required_number(&self, names: &[&str]) -> Result<f64, Error> {
        self.number(names)?.ok_or_else(|| {
            let key = names.first().copied().unwrap_or_default();
            self.missing(key, "a number")
        })
    }

    pub(super) fn text(&self, names: &[&str]) -> Result<Option<&str>, Error> {
        let Some((key, value)) = self.first(names) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.invalid(key, shown(value), "a string"))
    }

    pub(super) fn flag(&self, names: &[&str]) -> Result<Option<bool>, Error> {
        let Some((key, value)) = self.first(names) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.invalid(key, shown(value), "true or false"))
    }

    pub(super) fn list(&self, key: &str) -> Result<Option<&[Value]>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(self.invalid(key, shown(other), "a list")),
        }
    }
}

/// An integer from 0 to 2^31 − 1; a float without a fraction counts, as in Python's comparisons.
fn integer(value: &Value) -> Option<usize> {
    const MAX: u64 = (1 << 31) - 1;
    let whole = |number: f64| (number >= 0.0 && number.fract() == 0.0).then_some(number as u64);
    let number = value.as_u64().or_else(|| value.as_f64().and_then(whole))?;
    usize::try_from(number).ok().filter(|_| number <= MAX)
}
