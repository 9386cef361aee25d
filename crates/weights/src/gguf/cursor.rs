//! Sequential reading of untrusted bytes.

use std::fmt;

use bytes::Bytes;

use super::limits::MAX_ENTRIES;
use crate::{Array, Problem, Value, ValueType};

/// Maximum nesting of arrays. Real files have none; the specification sets no limit.
const MAX_NESTING: u32 = 4;

/// A position in a file, with bounds-checked reads.
pub(crate) struct Cursor<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Number of bytes between the position and the end.
    pub(crate) fn left(&self) -> u64 {
        self.bytes.len().saturating_sub(self.at) as u64
    }

    /// Checks that at least `needed` bytes are left. `what` names the field in the error.
    fn expect(&self, needed: u64, what: fmt::Arguments<'_>) -> Result<usize, Problem> {
        match usize::try_from(needed) {
            Ok(len) if needed <= self.left() => Ok(len),
            _ => Err(Problem::Truncated {
                what: what.to_string(),
                needed,
                at: self.at as u64,
                left: self.left(),
            }),
        }
    }

    /// Checks that `count` items of at least `least` bytes each can follow. `what` names them in
    /// the error.
    pub(crate) fn expect_items(
        &self,
        count: u64,
        least: u64,
        what: &'static str,
    ) -> Result<(), Problem> {
        match count > MAX_ENTRIES {
            true => Err(Problem::Count {
                what,
                found: count,
                most: MAX_ENTRIES.min(self.left() / least),
            }),
            false => self.expect(count * least, format_args!("the {count} {what}")).map(drop),
        }
    }

    pub(crate) fn take(&mut self, len: u64, what: fmt::Arguments<'_>) -> Result<&'a [u8], Problem> {
        let end = self.at + self.expect(len, what)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: fmt::Arguments<'_>) -> Result<[u8; N], Problem> {
        let mut value = [0; N];
        value.copy_from_slice(self.take(N as u64, what)?);
        Ok(value)
    }

    pub(crate) fn u32(&mut self, what: fmt::Arguments<'_>) -> Result<u32, Problem> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, what: fmt::Arguments<'_>) -> Result<u64, Problem> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Reads a string: its length in bytes, then the bytes.
    pub(crate) fn string(&mut self, what: fmt::Arguments<'_>) -> Result<&'a [u8], Problem> {
        let len = self.u64(what)?;
        self.take(len, what)
    }

    /// Reads the type and the value of `key`.
    pub(crate) fn typed_value(&mut self, key: &str) -> Result<Value, Problem> {
        let item_type = self.value_type(key)?;
        self.value(item_type, key)
    }

    fn value_type(&mut self, key: &str) -> Result<ValueType, Problem> {
        let found = self.u32(format_args!("the type of metadata key {key:?}"))?;
        ValueType::from_id(found).ok_or_else(|| Problem::ValueTypeId { key: key.to_owned(), found })
    }

    /// Reads a value of `key`, or an element of its array.
    pub(crate) fn value(&mut self, value_type: ValueType, key: &str) -> Result<Value, Problem> {
        let what = format_args!("metadata key {key:?}");
        Ok(match value_type {
            ValueType::U8 => Value::U8(u8::from_le_bytes(self.array(what)?)),
            ValueType::I8 => Value::I8(i8::from_le_bytes(self.array(what)?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(self.array(what)?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(self.array(what)?)),
            ValueType::U32 => Value::U32(u32::from_le_bytes(self.array(what)?)),
            ValueType::I32 => Value::I32(i32::from_le_bytes(self.array(what)?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(self.array(what)?)),
            ValueType::U64 => Value::U64(u64::from_le_bytes(self.array(what)?)),
            ValueType::I64 => Value::I64(i64::from_le_bytes(self.array(what)?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(self.array(what)?)),
            ValueType::Bool => {
                let [byte] = self.array(what)?;
                Value::Bool(checked_bool(byte, key)?)
            }
            ValueType::String => {
                let text = self.string(what)?;
                Value::String(self.bytes.slice_ref(text))
            }
            ValueType::Array => Value::Array(self.array_value(key, 1)?),
        })
    }

    /// Reads an array and validates every element, so that later decoding cannot fail.
    fn array_value(&mut self, key: &str, depth: u32) -> Result<Array, Problem> {
        if depth > MAX_NESTING {
            return Err(Problem::Nesting { key: key.to_owned(), limit: MAX_NESTING });
        }
        let what = format_args!("the array of metadata key {key:?}");
        let item_type = self.value_type(key)?;
        let count = self.u64(what)?;
        // Minimum size of an element: a string has its length, an array its type and count.
        let least = item_type.fixed_size().unwrap_or(match item_type {
            ValueType::Array => 12,
            _ => 8,
        });
        self.expect(count.saturating_mul(least as u64), what)?;

        let start = self.at;
        match item_type {
            ValueType::Array => {
                for _ in 0..count {
                    self.array_value(key, depth + 1)?;
                }
            }
            ValueType::String => {
                for _ in 0..count {
                    self.string(what)?;
                }
            }
            ValueType::Bool => {
                for &byte in self.take(count, what)? {
                    checked_bool(byte, key)?;
                }
            }
            _ => {
                self.take(count.saturating_mul(least as u64), what)?;
            }
        }
        // `expect` has checked that as many elements fit in the file, so the count fits a usize.
        Ok(Array { item_type, len: count as usize, bytes: self.bytes.slice(start..self.at) })
    }
}

fn checked_bool(byte: u8, key: &str) -> Result<bool, Problem> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(Problem::Bool { key: key.to_owned(), found }),
    }
}
