//! What a model file says about itself, by key.

use std::collections::HashMap;

use crate::gguf::cursor::Cursor;
use crate::{Array, Error, Problem, Value, ValueType};

/// Keys and values in the order of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    in_order: Vec<(String, Value)>,
    index: HashMap<String, usize>,
}

impl Entries {
    /// Adds a value; `false` if the key is there already.
    pub(crate) fn insert(&mut self, key: &str, value: Value) -> bool {
        if self.index.contains_key(key) {
            return false;
        }
        self.index.insert(key.to_owned(), self.in_order.len());
        self.in_order.push((key.to_owned(), value));
        true
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        let &position = self.index.get(key)?;
        Some(&self.in_order.get(position)?.1)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.in_order.iter().map(|(key, value)| (key.as_str(), value))
    }
}

/// A file's metadata, looked up by key and type.
///
/// Every error names the file, the key, what was found and what was expected. Integers may be
/// stored in any integer type that holds the value, because writers differ; nothing else is
/// converted.
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

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// Every key and value, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter()
    }

    /// A string.
    ///
    /// # Errors
    /// If the key is missing, not a string or not UTF-8.
    pub fn string(&self, key: &str) -> Result<&str, Error> {
        self.opt_string(key)?.ok_or_else(|| self.missing(key, STRING))
    }

    /// A string, if the key is there.
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

    /// A non-negative integer of at most 32 bits.
    ///
    /// # Errors
    /// If the key is missing, not an integer or out of range.
    pub fn u32(&self, key: &str) -> Result<u32, Error> {
        self.integer(key, U32)
    }

    /// A non-negative integer of at most 32 bits, if the key is there.
    ///
    /// # Errors
    /// If it is not an integer or out of range.
    pub fn opt_u32(&self, key: &str) -> Result<Option<u32>, Error> {
        self.opt_integer(key, U32)
    }

    /// A non-negative integer of at most 64 bits.
    ///
    /// # Errors
    /// If the key is missing, not an integer or out of range.
    pub fn u64(&self, key: &str) -> Result<u64, Error> {
        self.integer(key, U64)
    }

    /// A non-negative integer of at most 64 bits, if the key is there.
    ///
    /// # Errors
    /// If it is not an integer or out of range.
    pub fn opt_u64(&self, key: &str) -> Result<Option<u64>, Error> {
        self.opt_integer(key, U64)
    }

    /// A non-negative integer that fits in a `usize`.
    ///
    /// # Errors
    /// If the key is missing, not an integer or out of range.
    pub fn usize(&self, key: &str) -> Result<usize, Error> {
        self.integer(key, USIZE)
    }

    /// A non-negative integer that fits in a `usize`, if the key is there.
    ///
    /// # Errors
    /// If it is not an integer or out of range.
    pub fn opt_usize(&self, key: &str) -> Result<Option<usize>, Error> {
        self.opt_integer(key, USIZE)
    }

    /// A number in binary32, or in binary64 and then rounded.
    ///
    /// # Errors
    /// If the key is missing or not a floating-point number.
    pub fn f32(&self, key: &str) -> Result<f32, Error> {
        self.opt_f32(key)?.ok_or_else(|| self.missing(key, F32))
    }

    /// A number in binary32, or in binary64 and then rounded, if the key is there.
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

    /// A truth value.
    ///
    /// # Errors
    /// If the key is missing or not a truth value.
    pub fn bool(&self, key: &str) -> Result<bool, Error> {
        self.opt_bool(key)?.ok_or_else(|| self.missing(key, BOOL))
    }

    /// A truth value, if the key is there.
    ///
    /// # Errors
    /// If it is not a truth value.
    pub fn opt_bool(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(other) => Err(self.wrong_type(key, other, BOOL)),
        }
    }

    /// An array of strings that need not be UTF-8, such as the pieces of a byte vocabulary.
    ///
    /// # Errors
    /// If the key is missing or not an array of strings.
    pub fn bytes_array(&self, key: &str) -> Result<impl ExactSizeIterator<Item = &[u8]>, Error> {
        self.opt_bytes_array(key)?.ok_or_else(|| self.missing(key, STRINGS))
    }

    /// An array of strings that need not be UTF-8, if the key is there.
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

    /// An array of strings, each decoded when it is reached; one that is not UTF-8 is an error
    /// that carries its number.
    ///
    /// # Errors
    /// If the key is missing or not an array of strings.
    pub fn string_array<'a>(
        &'a self,
        key: &'a str,
    ) -> Result<impl ExactSizeIterator<Item = Result<&'a str, Error>>, Error> {
        self.opt_string_array(key)?.ok_or_else(|| self.missing(key, STRINGS))
    }

    /// An array of strings, if the key is there, as [`string_array`](Self::string_array).
    ///
    /// # Errors
    /// If it is not an array of strings.
    pub fn opt_string_array<'a>(
        &'a self,
        key: &'a str,
    ) -> Result<Option<impl ExactSizeIterator<Item = Result<&'a str, Error>>>, Error> {
        let Some(strings) = self.opt_bytes_array(key)? else { return Ok(None) };
        Ok(Some(strings.enumerate().map(move |(number, text)| {
            str::from_utf8(text).map_err(|_| {
                let place = format!(" at place {number}");
                self.error(Problem::Utf8 { key: key.to_owned(), place })
            })
        })))
    }

    /// An array of binary32 numbers.
    ///
    /// # Errors
    /// If the key is missing or not an array of f32.
    pub fn f32_array(&self, key: &str) -> Result<Vec<f32>, Error> {
        self.opt_f32_array(key)?.ok_or_else(|| self.missing(key, F32S))
    }

    /// An array of binary32 numbers, if the key is there.
    ///
    /// # Errors
    /// If it is not an array of f32.
    pub fn opt_f32_array(&self, key: &str) -> Result<Option<Vec<f32>>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(array)) if array.item_type == ValueType::F32 => {
                let (numbers, _) = array.bytes.as_chunks();
                Ok(Some(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))
            }
            Some(other) => Err(self.wrong_type(key, other, F32S)),
        }
    }

    /// An array of integers that fit in 32 bits, of any integer type.
    ///
    /// # Errors
    /// If the key is missing, not an array of integers, or one is out of range.
    pub fn i32_array(&self, key: &str) -> Result<Vec<i32>, Error> {
        self.opt_i32_array(key)?.ok_or_else(|| self.missing(key, I32S))
    }

    /// An array of integers that fit in 32 bits, if the key is there.
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
    /// The elements, decoded one by one.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        let mut cursor = Cursor::new(&self.bytes);
        // The elements were stepped over when the array was made, so none fails here.
        (0..self.len).map_while(move |_| cursor.value(self.item_type, "").ok())
    }

    /// The elements of an array of strings.
    fn strings(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut cursor = Cursor::new(&self.bytes);
        // None fails, as above.
        (0..self.len).map(move |_| cursor.string(format_args!("")).unwrap_or_default())
    }
}
