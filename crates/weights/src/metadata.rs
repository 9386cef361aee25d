//! Typed access to a model file's metadata.

use std::collections::HashMap;

use crate::gguf::cursor::Cursor;
use crate::{Array, Error, Problem, Value, ValueType};

/// Keys and values in file order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    in_order: Vec<(String, Value)>,
    index: HashMap<String, usize>,
}

impl Entries {
    /// Adds a value; returns `false` if the key exists already.
    pub(crate) fn insert(&mut self, key: &str, value: Value) -> bool {
        if self.index.contains_key(key) {
            return false;
        }
        self.index.insert(key.to_owned(), self.in_order.len());
        self.in_order.push((key.to_owned(), value));
        true
    }

    /// Adds a value, or puts it in the place of the key's own.
    pub(crate) fn replace(&mut self, key: &str, value: Value) {
        match self.index.get(key).and_then(|&position| self.in_order.get_mut(position)) {
            Some((_, own)) => *own = value,
            None => _ = self.insert(key, value),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        let &position = self.index.get(key)?;
        Some(&self.in_order.get(position)?.1)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.in_order.iter().map(|(key, value)| (key.as_str(), value))
    }
}

/// A file's metadata, with lookups by key and type.
///
/// Every error names the file, the key, the value found and the type expected. Integers may be
/// stored in any integer type, because writers differ; a binary64 number may stand for a
/// binary32 one. No other conversions are made.
#[derive(Debug)]
pub struct Metadata {
    file: String,
    entries: Entries,
}

impl Metadata {
    pub(crate) fn new(file: String, entries: Entries) -> Self {
        Self { file, entries }
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn replace(&mut self, key: &str, value: Value) {
        self.entries.replace(key, value);
    }

    /// The value of a key, of any type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// All keys and values, in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter()
    }

    /// A required string.
    ///
    /// # Errors
    /// If the key is missing, not a string or not UTF-8.
    pub fn string(&self, key: &str) -> Result<&str, Error> {
        self.opt_string(key)?.ok_or_else(|| self.missing(key, STRING))
    }

    /// An optional string.
    ///
    /// # Errors
    /// If it is not a string or not UTF-8.
    pub fn opt_string(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => match str::from_utf8(text) {
                Ok(text) => Ok(Some(text)),
                Err(_) => {
                    Err(self.error(Problem::Utf8 { key: key.to_owned(), place: String::new() }))
                }
            },
            Some(other) => Err(self.wrong_type(key, other, STRING)),
        }
    }

    /// A required integer in the range of `u32`.
    ///
    /// # Errors
    /// If the key is missing, not an integer or out of range.
    pub fn u32(&self, key: &str) -> Result<u32, Error> {
        self.integer(key, U32)
    }

    /// An optional integer in the range of `u32`.
    ///
    /// # Errors
    /// If it is not an integer or out of range.
    pub fn opt_u32(&self, key: &str) -> Result<Option<u32>, Error> {
        self.opt_integer(key, U32)
    }

    /// A required integer in the range of `u64`.
    ///
    /// # Errors
    /// If the key is missing, not an integer or out of range.
    pub fn u64(&self, key: &str) -> Result<u64, Error> {
        self.integer(key, U64)
    }

    /// A required integer in the range of `usize`.
    ///
    /// # Errors
    /// If the key is missing, not an integer or out of range.
    pub fn usize(&self, key: &str) -> Result<usize, Error> {
        self.integer(key, USIZE)
    }

    /// An optional integer in the range of `usize`.
    ///
    /// # Errors
    /// If it is not an integer or out of range.
    pub fn opt_usize(&self, key: &str) -> Result<Option<usize>, Error> {
        self.opt_integer(key, USIZE)
    }

    /// A required number in binary32, or in binary64 and then rounded to binary32.
    ///
    /// # Errors
    /// If the key is missing or not a floating-point number.
    pub fn f32(&self, key: &str) -> Result<f32, Error> {
        self.opt_f32(key)?.ok_or_else(|| self.missing(key, F32))
    }

    /// An optional number in binary32, or in binary64 and then rounded to binary32.
    ///
    /// # Errors
    /// If it is not a floating-point number.
    pub fn opt_f32(&self, key: &str) -> Result<Option<f32>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::F32(value)) => Ok(Some(*value)),
            Some(Value::F64(value)) => Ok(Some(*value as f32)),
            Some(other) => Err(self.wrong_type(key, other, F32)),
        }
    }

    /// A required boolean.
    ///
    /// # Errors
    /// If the key is missing or not a boolean.
    pub fn bool(&self, key: &str) -> Result<bool, Error> {
        self.opt_bool(key)?.ok_or_else(|| self.missing(key, BOOL))
    }

    /// An optional boolean.
    ///
    /// # Errors
    /// If it is not a boolean.
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(other) => Err(self.wrong_type(key, other, BOOL)),
        }
    }

    /// An optional array of strings of any bytes, not necessarily UTF-8.
    ///
    /// # Errors
    /// If it is not an array of strings.
    pub fn opt_bytes_array(
        &self,
        key: &str,
    ) -> Result<Option<impl ExactSizeIterator<Item = &[u8]>>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(array)) if array.item_type == ValueType::String => {
                Ok(Some(array.strings()))
            }
            Some(other) => Err(self.wrong_type(key, other, STRINGS)),
        }
    }

    /// A required array of strings. Each is validated when the iterator reaches it; the error of
    /// one that is not UTF-8 has its index.
    ///
    /// # Errors
    /// If the key is missing or not an array of strings.
    pub fn string_array<'a>(
        &'a self,
        key: &'a str,
    ) -> Result<impl ExactSizeIterator<Item = Result<&'a str, Error>>, Error> {
        self.opt_string_array(key)?.ok_or_else(|| self.missing(key, STRINGS))
    }

    /// An optional array of strings, validated as by [`string_array`](Self::string_array).
    ///
    /// # Errors
    /// If it is not an array of strings.
    pub fn opt_string_array<'a>(
        &'a self,
        key: &'a str,
    ) -> Result<Option<impl ExactSizeIterator<Item = Result<&'a str, Error>>>, Error> {
        let Some(strings) = self.opt_bytes_array(key)? else { return Ok(None) };
        Ok(Some(strings.enumerate().map(move |(index, text)| {
            str::from_utf8(text).map_err(|_| {
                let place = format!(" at index {index}");
                self.error(Problem::Utf8 { key: key.to_owned(), place })
            })
        })))
    }

    /// A required array of binary32 numbers.
    ///
    /// # Errors
    /// If it is missing, or not an array of f32.
    pub fn f32_array(&self, key: &str) -> Result<Vec<f32>, Error> {
        self.opt_f32_array(key)?.ok_or_else(|| self.missing(key, F32S))
    }

    /// An optional array of binary32 numbers.
    ///
    /// # Errors
    /// If it is not an array of f32.
    pub fn opt_f32_array(&self, key: &str) -> Result<Option<Vec<f32>>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(array)) if array.item_type == ValueType::F32 => {
                let (elements, _) = array.bytes.as_chunks();
                Ok(Some(elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))
            }
            Some(other) => Err(self.wrong_type(key, other, F32S)),
        }
    }

    /// An optional array of integers of any type with values in the range of `i32`.
    ///
    /// # Errors
    /// If it is not an array of integers, or one is out of range.
    pub fn opt_i32_array(&self, key: &str) -> Result<Option<Vec<i32>>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(whole @ Value::Array(array)) => array
                .values()
                .map(|value| {
                    value
                        .as_integer()
                        .and_then(|v| i32::try_from(v).ok())
                        .ok_or_else(|| self.wrong_type(key, whole, I32S))
                })
                .collect::<Result<_, _>>()
                .map(Some),
            Some(other) => Err(self.wrong_type(key, other, I32S)),
        }
    }

    fn integer<T: TryFrom<i128>>(&self, key: &str, expected: &'static str) -> Result<T, Error> {
        self.opt_integer(key, expected)?.ok_or_else(|| self.missing(key, expected))
    }

    fn opt_integer<T: TryFrom<i128>>(
        &self,
        key: &str,
        expected: &'static str,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_integer().and_then(|v| T::try_from(v).ok()) {
            Some(value) => Ok(Some(value)),
            None => Err(self.wrong_type(key, value, expected)),
        }
    }

    pub(crate) fn error(&self, problem: Problem) -> Error {
        Error::new(&self.file, problem)
    }

    /// The error of a key's value that differs from what was `expected`.
    pub fn invalid(&self, key: &str, found: impl ToString, expected: String) -> Error {
        let (key, found) = (key.to_owned(), found.to_string());
        self.error(Problem::InvalidValue { key, found, expected })
    }

    fn missing(&self, key: &str, expected: &'static str) -> Error {
        self.error(Problem::MissingKey { key: key.to_owned(), expected })
    }

    fn wrong_type(&self, key: &str, found: &Value, expected: &'static str) -> Error {
        self.error(Problem::KeyType { key: key.to_owned(), found: found.describe(), expected })
    }
}

const STRING: &str = "a string";
const U32: &str = "an integer from 0 to 2^32 - 1";
const U64: &str = "an integer from 0 to 2^64 - 1";
const USIZE: &str = "an integer of 0 or more that fits in a machine word";
const F32: &str = "a floating-point number";
const BOOL: &str = "a bool";
const STRINGS: &str = "an array of strings";
const F32S: &str = "an array of f32";
const I32S: &str = "an array of integers from -2^31 to 2^31 - 1";

impl Array {
    /// Iterator over the decoded elements.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        let mut cursor = Cursor::new(&self.bytes);
        // The elements were validated when the array was constructed, so decoding cannot fail.
        (0..self.len).map_while(move |_| cursor.value(self.item_type, "").ok())
    }

    /// Iterator over the bytes of an array of strings.
    fn strings(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut cursor = Cursor::new(&self.bytes);
        // Decoding cannot fail, as above.
        (0..self.len).map(move |_| cursor.string(format_args!("")).unwrap_or_default())
    }
}
