//! Parsing of one file: header, metadata and tensor descriptions.

use bytes::Bytes;

use super::cursor::Cursor;
use super::limits::{
    ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, MAX_KEY_LEN, checked_name, stated_alignment,
};
use super::tensors::{self, TensorEntry};
use crate::metadata::Entries;
use crate::{Problem, foreign};

/// Minimum size in bytes of a key with its value: a length, one character, a type, a byte.
const SHORTEST_KEY: u64 = 8 + 1 + 4 + 1;

/// The validated contents of one file.
pub(crate) struct Shard {
    pub(crate) metadata: Entries,
    pub(crate) tensors: Vec<TensorEntry>,
}

impl Shard {
    /// Parses a file from its first byte to the end of its tensor descriptions.
    pub(crate) fn parse(file: &Bytes) -> Result<Self, Problem> {
        let mut cursor = Cursor::new(file);
        check_version(file, &mut cursor)?;
        let tensor_count = cursor.u64(format_args!("the number of tensors"))?;
        let key_count = cursor.u64(format_args!("the number of metadata keys"))?;
        cursor.expect_items(key_count, SHORTEST_KEY, "metadata keys")?;

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
        let magic = || Problem::Magic { found: found.to_vec() };
        return Err(foreign::recognized(file).unwrap_or_else(magic));
    }
    cursor.take(MAGIC.len() as u64, format_args!("the header"))?;
    match cursor.u32(format_args!("the version"))? {
        2 | 3 => Ok(()),
        // A small number in the opposite byte order.
        found if found != 0 && found.trailing_zeros() >= 16 => Err(Problem::BigEndian),
        found => Err(Problem::Version { found }),
    }
}
