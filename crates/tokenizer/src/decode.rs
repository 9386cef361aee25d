//! Incremental decoding of tokens to complete characters.

use crate::Tokenizer;
use crate::position::Position;

/// State of incremental decoding.
///
/// It has no reference to the [`Tokenizer`], so that both can be fields of one struct; every call
/// must pass the same tokenizer. [`Tokenizer::decoder`] combines the two.
#[derive(Clone, Debug)]
pub struct DecodeState {
    /// Bytes of an incomplete character.
    pending: Vec<u8>,
    special: bool,
    position: Position,
}

impl DecodeState {
    /// Decoding of a text that begins with the first token. If the vocabulary adds a space before
    /// texts, that space is removed. `special` renders control tokens as their text.
    pub fn new(special: bool) -> Self {
        Self { pending: Vec::new(), special, position: Position::default() }
    }

    /// Decoding of the continuation of a prompt: a space at its beginning is kept.
    pub fn continuing(special: bool) -> Self {
        let position = Position { begun: true, open: true, ..Position::default() };
        Self { position, ..Self::new(special) }
    }

    /// Adds a token and returns the characters that are now complete, possibly none. Invalid bytes
    /// become U+FFFD, in the same number as by [`String::from_utf8_lossy`].
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        tokenizer.append(id, self.special, &mut self.position, &mut self.pending);
        self.take_complete()
    }

    /// Ends the text and returns the remainder: U+FFFD if the text ends inside a character.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }

    fn take_complete(&mut self) -> String {
        let mut text = String::new();
        let mut used = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            used += chunk.valid().len();
            let invalid = chunk.invalid();
            // At the end these may be the first bytes of a character, so they stay pending.
            let waits = used + invalid.len() == self.pending.len()
                && str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if !invalid.is_empty() && !waits {
                text.push(char::REPLACEMENT_CHARACTER);
                used += invalid.len();
            }
        }
        self.pending.drain(..used);
        text
    }
}

/// Incremental decoder of one text.
///
/// ```
/// # fn show(tokenizer: &pelton_tokenizer::Tokenizer, ids: &[u32]) {
/// let mut decoder = tokenizer.decoder();
/// for &id in ids {
///     print!("{}", decoder.push(id));
/// }
/// println!("{}", decoder.finish());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StreamDecoder<'a> {
    tokenizer: &'a Tokenizer,
    state: DecodeState,
}

impl Tokenizer {
    /// Creates an incremental decoder that does not render control tokens.
    pub fn decoder(&self) -> StreamDecoder<'_> {
        StreamDecoder { tokenizer: self, state: DecodeState::new(false) }
    }
}

impl StreamDecoder<'_> {
    /// See [`DecodeState::push`].
    pub fn push(&mut self, id: u32) -> String {
        self.state.push(self.tokenizer, id)
    }

    /// See [`DecodeState::finish`].
    pub fn finish(self) -> String {
        self.state.finish()
    }
}
