//! The prompt of a generated text.

use std::sync::Arc;

use pelton_chat::{Detail, Segment};
use pelton_image::Picture;

/// The text before the one that is generated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Prompt {
    /// Text. Special tokens that are written in it count as such. Tokens that the model file puts
    /// before a text, most often one for its beginning, are added.
    Text(String),
    /// The text of a rendered chat, to which nothing is added. Special tokens count as such only
    /// in the segments that say so: the others are text that a message contains.
    Segments {
        /// The text.
        segments: Vec<Segment>,
        /// The pictures, by the numbers in the segments.
        images: Vec<PromptImage>,
    },
    /// Token ids, used as they are.
    Tokens(Vec<u32>),
}

/// A picture of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptImage {
    /// The picture.
    pub picture: Arc<Picture>,
    /// How closely the model looks at it.
    pub detail: Detail,
}

impl From<Arc<Picture>> for PromptImage {
    fn from(picture: Arc<Picture>) -> Self {
        Self { picture, detail: Detail::default() }
    }
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

impl Prompt {
    /// The pictures.
    pub fn images(&self) -> &[PromptImage] {
        match self {
            Self::Segments { images, .. } => images,
            _ => &[],
        }
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
