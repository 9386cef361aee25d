//! One file: its header, metadata and tensor descriptions.

use bytes::Bytes;

use super::cursor::Cursor;
use super::tensors::{self, TensorEntry};
use super::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC};
use super::{MAX_ALIGNMENT, MAX_ENTRIES, MAX_KEY_LEN};
use super::{alignment_is_valid, for_message, name_fault};
use crate::metadata::Entries;
use crate::{Problem, Value};

/// Bytes of the shortest key with its value: a length, one character, a type, a byte.
const SHORTEST_KEY: u64 = 8 + 1 + 4 + 1;

/// What one file holds, all of it checked.
pub(crate) struct Part {
    pub(crate) metadata: Entries,
    pub(crate) tensors: Vec<TensorEntry>,
}

impl Part {
    /// Reads a file from its first byte to the last of its tensor descriptions.
    pub(crate) fn parse(file: &Bytes) -> Result<Self, Problem> {
        let mut cursor = Cursor::new(file);
        check_version(file, &mut cursor)?;
        let tensor_count = cursor.u64(format_args!("the number of tensors"))?;
        let key_count = cursor.u64(format_args!("the number of metadata keys"))?;
        let most = MAX_ENTRIES.min(cursor.left() / SHORTEST_KEY);
        if key_count > most {
            return Err(Problem::Count { what: "metadata keys", found: key_count, most });
        }

        let mut metadata = Entries::default();
        for number in 0..key_count {
            let what = format_args!("the name of metadata key {number}");
            let name = cursor.string(what)?;
            let key = checked_name(name, MAX_KEY_LEN, "metadata key")?;
            let value = cursor.typed_value(key)?;
            if !metadata.insert(key, value) {
                return Err(Problem::DuplicateKey { key: key.to_owned() });
            }
        }

        let alignment = match metadata.get(ALIGNMENT_KEY) {
            None => DEFAULT_ALIGNMENT,
            Some(value) => stated_alignment(value)?,
        };
        let tensors = tensors::parse(file, &mut cursor, tensor_count, alignment)?;
        Ok(Self { metadata, tensors })
    }
}

fn check_version(file: &Bytes, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
    let found = &file[..file.len().min(MAGIC.len())];
    if found != MAGIC {
        return Err(Problem::Magic { found: found.to_vec() });
    }
    cursor.take(MAGIC.len() as u64, format_args!("the header"))?;
    match cursor.u32(format_args!("the version"))? {
        2 | 3 => Ok(()),
        // A small number with its bytes the other way round.
        found if found != 0 && found.trailing_zeros() >= 16 => Err(Problem::BigEndian),
        found => Err(Problem::Version { found }),
    }
}

/// `name` as text, or what is wrong with it.
pub(super) fn checked_name<'a>(
    name: &'a [u8],
    longest: usize,
    what: &'static str,
) -> Result<&'a str, Problem> {
    let refused = |fault| Problem::Name { what: what.to_owned(), name: for_message(name), fault };
    if let Some(fault) = name_fault(name, longest) {
        return Err(refused(fault));
    }
    str::from_utf8(name).map_err(|_| refused("not UTF-8"))
}

/// The alignment that a value of `general.alignment` sets.
pub(super) fn stated_alignment(value: &Value) -> Result<usize, Problem> {
    match value {
        Value::U32(found) if alignment_is_valid(*found as usize) => Ok(*found as usize),
        other => Err(Problem::Alignment { found: other.describe(), limit: MAX_ALIGNMENT }),
    }
}
