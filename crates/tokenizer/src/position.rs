//! The position of a decoder.

/// The position in a text that is decoded token by token.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    /// Whether a token precedes the next one.
    pub(crate) begun: bool,
    /// Whether the text has a character, so that no further one is removed at its beginning.
    pub(crate) open: bool,
    /// How often a character was removed at the beginning.
    pub(crate) removed: usize,
    /// Whether a space precedes the next token.
    pub(crate) space: bool,
}
