//! Parts of all models.

use hashbrown::HashMap;

use crate::Error;

/// Ids by the texts of tokens.
pub(in crate::rules) type Ids = HashMap<Box<str>, u32>;

/// The texts of tokens, each with its id.
pub(in crate::rules) type Texts = Vec<(Box<str>, u32)>;

/// The longest token in bytes.
pub(in crate::rules) const MAX_TOKEN: usize = 4096;

/// The error of a text without a token.
pub(in crate::rules) fn unencodable(text: &str) -> Error {
    Error::Unencodable { text: text.chars().take(40).collect() }
}
