//! The prompt of a generated text.

use pelton_chat::Segment;

/// The text before the one that is generated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Prompt {
    /// Text. Special tokens that are written in it count as such. Tokens that the model file puts
    /// before a text, most often one for its beginning, are added.
    Text(String),
    /// The text of a rendered chat, to which nothing is added. Special tokens count as such only
    /// in the segments that say so: the others are text that a message contains.
    Segments(Vec<Segment>),
    /// Token ids, used as they are.
    Tokens(Vec<u32>),
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<pelton_chat::Prompt> for Prompt {
    fn from(rendered: pelton_chat::Prompt) -> Self {
        Self::Segments(rendered.segments)
    }
}

impl From<&String> for Prompt {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<&[u32]> for Prompt {
    fn from(tokens: &[u32]) -> Self {
        Self::Tokens(tokens.to_vec())
    }
}

impl From<Vec<u32>> for Prompt {
    fn from(tokens: Vec<u32>) -> Self {
        Self::Tokens(tokens)
    }
}
