//! Text from tokens, whole characters at a time.

use crate::Tokenizer;

/// What a text that is decoded token by token has come to.
///
/// It holds no reference to the [`Tokenizer`], so that it can be kept beside it; give the same
/// one to every call. [`Tokenizer::decoder`] is this with a reference.
#[derive(Clone, Debug)]
pub struct DecodeState {
    /// The beginning of a character.
    pending: Vec<u8>,
    special: bool,
    strip_space: bool,
}

impl DecodeState {
    /// A text that begins with the first token. If the vocabulary adds a space before texts, one
    /// is taken away here. `special` shows control tokens as they are written.
    pub fn new(special: bool) -> Self {
        Self { pending: Vec::new(), special, strip_space: true }
    }

    /// A text that goes on after a prompt: a space at its beginning is a space.
    pub fn continuing(special: bool) -> Self {
        Self { strip_space: false, ..Self::new(special) }
    }

    /// Adds a token and returns the text that is now certain: whole characters, possibly none.
    /// Bytes that cannot become a character come out as U+FFFD, as many as
    /// [`String::from_utf8_lossy`] makes of them.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        let mut bytes = tokenizer.rendered(id, self.special);
        if self.strip_space && !bytes.is_empty() {
            self.strip_space = false;
            if tokenizer.strips_first_space() {
                bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
            }
        }
        self.pending.extend_from_slice(bytes);
        self.take_whole()
    }

    /// Ends the text and returns what is left: U+FFFD if it ends inside a character.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }

    fn take_whole(&mut self) -> String {
        let mut text = String::new();
        let mut used = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            used += chunk.valid().len();
            let invalid = chunk.invalid();
            // At the end these may be the first bytes of a character, so they wait.
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

/// Text from tokens that come one by one.
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

impl<'a> StreamDecoder<'a> {
    pub(crate) fn new(tokenizer: &'a Tokenizer, state: DecodeState) -> Self {
        Self { tokenizer, state }
    }

    /// As [`DecodeState::push`].
    pub fn push(&mut self, id: u32) -> String {
        self.state.push(self.tokenizer, id)
    }

    /// As [`DecodeState::finish`].
    pub fn finish(self) -> String {
        self.state.finish()
    }
}
