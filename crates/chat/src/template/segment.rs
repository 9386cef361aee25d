//! The result of a rendering.

/// A piece of a rendered prompt that is encoded on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The text.
    pub text: String,
    /// Whether the texts of control tokens in it are the tokens. If not, the text is a control
    /// token's text that a message contains, and is encoded as plain text.
    pub control_tokens: bool,
    /// The number of the picture in the chat that belongs here, from 0 on. The text is the
    /// placeholder that the template writes for it.
    pub image: Option<usize>,
}

impl Segment {
    /// A text with or without control tokens.
    pub fn text(text: impl Into<String>, control_tokens: bool) -> Self {
        Self { text: text.into(), control_tokens, image: None }
    }
}

/// A rendered chat.
///
/// The prompt is one segment if no message contains a picture, or the text of a control token; the
/// tokens are those of the whole text then. Otherwise it is split around pictures and those texts,
/// and where two texts would join into one. Beginning and end of sequence tokens are in the text if
/// the template writes them; none are to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompt {
    /// The segments in their order; none is empty.
    pub segments: Vec<Segment>,
}

impl Prompt {
    /// The whole text.
    pub fn text(&self) -> String {
        self.segments.iter().map(|segment| segment.text.as_str()).collect()
    }
}
