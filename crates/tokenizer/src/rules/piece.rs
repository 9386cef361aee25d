//! A piece of a text between added tokens.

use std::borrow::Cow;

/// A piece of a text on its way through normalizers and pre-tokenizers.
#[derive(Clone, Debug)]
pub(super) struct Piece<'t> {
    pub(super) text: Cow<'t, str>,
    /// Whether its first character is the first of the whole text.
    pub(super) at_start: bool,
    /// Whether that first character continues an earlier text, so that no space comes before it.
    pub(super) continues: bool,
}

impl<'t> Piece<'t> {
    pub(super) fn set(&mut self, text: String) {
        self.text = Cow::Owned(text);
    }

    /// Whether texts are put before it.
    pub(super) fn takes_prefix(&self) -> bool {
        !(self.continues && self.at_start)
    }

    /// Puts a text before it, if it is not empty.
    pub(super) fn prepend(&mut self, text: &str) {
        if !self.text.is_empty() && self.takes_prefix() {
            self.text.to_mut().insert_str(0, text);
        }
    }
}
