//! The ggml files of whisper.cpp, `ggml-*.bin`.
//!
//! The layout is that of `models/convert-pt-to-ggml.py` in github.com/ggml-org/whisper.cpp, all
//! fields little endian and none aligned: the magic number, eleven sizes, the filters of the mel
//! scale, the vocabulary, then tensors until the file ends. Only files of Whisper are read; a few
//! other models have the same magic number.

mod header;
mod invalid;
mod tensors;
mod vocabulary;

use bytes::Bytes;

use crate::gguf::TensorEntry;
use crate::gguf::cursor::Cursor;
use crate::metadata::Entries;
use crate::value::array;
use crate::whisper::{ALIGNMENT_HEADS, ARCHITECTURE, known_heads};
use crate::{Problem, ValueType};
use header::Header;

/// The first four bytes: the number 0x67676d6c, "ggml", in little endian.
const MAGIC: [u8; 4] = *b"lmgg";

/// The contents of a file.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) metadata: Entries,
    pub(crate) tensors: Vec<TensorEntry>,
}

/// Whether a file is one of these, by its first bytes.
pub(crate) fn is_ggml(file: &[u8]) -> bool {
    file.starts_with(&MAGIC)
}

/// Parses a file. Tensors stay slices of `file`. `name` becomes `general.name`.
pub(crate) fn parse(file: &Bytes, name: Option<&str>) -> Result<Contents, Problem> {
    let mut cursor = Cursor::new(file);
    cursor.take(MAGIC.len() as u64, format_args!("the magic number"))?;
    let header = Header::read(&mut cursor)?;
    let sizes = header.sizes;
    header::check_filters(&mut cursor, sizes.mels)?;
    let words = vocabulary::read(&mut cursor, sizes.vocab)?;
    let tensors = tensors::read(file, &mut cursor, &header)?;
    let tokens = vocabulary::tokens(&words, sizes.vocab)?;

    let mut metadata = Entries::default();
    metadata.insert("general.architecture", ARCHITECTURE.into());
    metadata.insert("general.type", "model".into());
    if let Some(name) = name {
        metadata.insert("general.name", name.into());
    }
    sizes.set(&mut metadata);
    if let Some(heads) = known_heads(&sizes) {
        metadata.insert(ALIGNMENT_HEADS, array(ValueType::I32, heads));
    }
    tokens.set(&mut metadata);
    Ok(Contents { metadata, tensors })
}
