//! The prompt of a request, encoded.

use pelton::Prompt;

/// The tokens of a prompt, and the prompt itself if it has pictures.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    /// A picture is its placeholder among them.
    pub(crate) tokens: Vec<u32>,
    /// The prompt with pictures, whose tokens the model itself makes.
    pub(crate) pictured: Option<Prompt>,
}

impl Encoded {
    /// The prompt for the model.
    pub(super) fn prompt(&self) -> Prompt {
        self.pictured.clone().unwrap_or_else(|| Prompt::Tokens(self.tokens.clone()))
    }
}

impl From<Vec<u32>> for Encoded {
    fn from(tokens: Vec<u32>) -> Self {
        Self { tokens, pictured: None }
    }
}
