//! Maps between tokens and their bytes.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::Error;
use crate::bytes::{byte_token, push_unmapped};
use crate::vocabulary::{TOKENS, TokenType, Vocabulary};

/// Placeholder id for the absence of a token.
pub(crate) const NO_TOKEN: u32 = u32::MAX;

/// SentencePiece's mark for a space, U+2581. Vocabularies are stored with spaces instead, so that
/// texts need no conversion.
pub(crate) const SPACE_MARK: &str = "\u{2581}";

/// Maximum length of a piece in bytes. Pieces are searched for at every position of a text, so
/// their length must be bounded.
const MAX_PIECE: usize = 4096;

/// Representation of bytes in the texts of normal tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// GPT-2's alphabet of bytes.
    Bytes,
    /// UTF-8, with [`SPACE_MARK`] for the space.
    Marked,
}

/// The bytes of every token, and an index of the normal tokens by their bytes.
#[derive(Debug)]
pub(crate) struct Lexicon {
    bytes: Vec<u8>,
    /// End offset of each token's bytes.
    ends: Vec<u32>,
    normal: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The tokens of type byte, indexed by byte `[256]`.
    byte_tokens: [u32; 256],
    /// The normal tokens of one byte, indexed by byte `[256]`.
    single: [u32; 256],
    longest: usize,
}

impl Lexicon {
    /// An index of no tokens: a file has rules of its own. Tokens have these bytes and types.
    ///
    /// # Errors
    /// If all bytes are too many.
    pub(crate) fn of_bytes(tokens: &[Vec<u8>], types: &[TokenType]) -> Result<Self, Error> {
        let mut this = Self::empty(tokens.len(), tokens.iter().map(Vec::len).sum());
        for (bytes, token_type) in tokens.iter().zip(types) {
            this.bytes.extend_from_slice(bytes);
            this.end()?;
            if *token_type == TokenType::Normal {
                this.longest = this.longest.max(bytes.len());
            }
        }
        Ok(this)
    }

    fn empty(tokens: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(tokens),
            normal: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            byte_tokens: [NO_TOKEN; 256],
            single: [NO_TOKEN; 256],
            longest: 0,
        }
    }

    /// Ends a token.
    fn end(&mut self) -> Result<(), Error> {
        let end = u32::try_from(self.bytes.len());
        self.ends.push(end.map_err(|_| Error::TooLarge { key: TOKENS })?);
        Ok(())
    }

    /// # Errors
    /// If a byte token has no valid text, or a token is too long.
    pub(crate) fn new(vocabulary: &Vocabulary<'_>, alphabet: Alphabet) -> Result<Self, Error> {
        let bytes = vocabulary.tokens.iter().map(|token| token.len()).sum();
        let mut this = Self::empty(vocabulary.tokens.len(), bytes);
        let hasher = this.hasher.clone();
        this.normal.reserve(vocabulary.tokens.len(), |id| hasher.hash_one(id));
        for ((id, &text), &token_type) in (0..).zip(&vocabulary.tokens).zip(&vocabulary.types) {
            let mut matches = token_type == TokenType::Normal && !text.is_empty();
            match token_type {
                TokenType::Normal if alphabet == Alphabet::Bytes => {
                    matches &= push_unmapped(text, &mut this.bytes);
                }
                TokenType::Normal => {
                    // A literal space never matches, since spaces in texts are marked.
                    matches &= !text.contains(' ');
                    push_spaced(text, &mut this.bytes);
                }
                TokenType::Byte => {
                    let byte = byte_token(text)
                        .ok_or_else(|| Error::Byte { id, text: text.to_owned() })?;
                    let token = &mut this.byte_tokens[usize::from(byte)];
                    if *token == NO_TOKEN {
                        *token = id;
                    }
                    this.bytes.push(byte);
                }
                _ => this.bytes.extend_from_slice(text.as_bytes()),
            }
            this.end()?;
            if matches {
                this.insert(id)?;
            }
        }
        Ok(this)
    }

    /// Adds a token to the index. The lowest id of several with the same bytes is found.
    fn insert(&mut self, id: u32) -> Result<(), Error> {
        let found = self.bytes_of(id).len();
        if found > MAX_PIECE {
            return Err(Error::TokenLength { id, found, limit: MAX_PIECE });
        }
        if self.find(self.bytes_of(id)).is_some() {
            return Ok(());
        }
        let Self { bytes, ends, normal, hasher, single, longest, .. } = self;
        let of = |id| slice(bytes, ends, id);
        *longest = (*longest).max(found);
        if let [byte] = of(id) {
            single[usize::from(*byte)] = id;
        }
        normal.insert_unique(hasher.hash_one(of(id)), id, |&id| hasher.hash_one(of(id)));
        Ok(())
    }

    /// Number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of a token; empty for an id out of range.
    pub(crate) fn bytes_of(&self, id: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, id)
    }

    /// The bytes of the longest normal token.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// The normal token with exactly these bytes.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<u32> {
        if let [byte] = bytes {
            return Some(self.single[usize::from(*byte)]).filter(|&id| id != NO_TOKEN);
        }
        if bytes.len() > self.longest {
            return None;
        }
        self.normal.find(self.hasher.hash_one(bytes), |&id| self.bytes_of(id) == bytes).copied()
    }

    /// The normal tokens, in arbitrary order.
    pub(crate) fn normal(&self) -> impl Iterator<Item = u32> {
        self.normal.iter().copied()
    }

    /// Appends the byte tokens of these bytes. If one is missing, appends nothing and returns
    /// `false`.
    pub(crate) fn push_byte_tokens(&self, bytes: &[u8], out: &mut Vec<u32>) -> bool {
        let tokens = bytes.iter().map(|&byte| self.byte_tokens[usize::from(byte)]);
        if tokens.clone().any(|id| id == NO_TOKEN) {
            return false;
        }
        out.extend(tokens);
        true
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[u32], id: u32) -> &'a [u8] {
    let id = id as usize;
    let Some(&end) = ends.get(id) else { return &[] };
    let start = id.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[start as usize..end as usize]
}

/// Appends a text with space marks replaced by spaces.
fn push_spaced(text: &str, out: &mut Vec<u8>) {
    for (n, part) in text.split(SPACE_MARK).enumerate() {
        if n > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(part.as_bytes());
    }
}
