//! The options of an answer in a chat.

use super::prompt::ToolChoice;
use crate::api::GenerateOptions;

/// The options of an answer in a chat. [`GenerateOptions`] convert into them.
///
/// ```
/// use pelton::{GenerateOptions, chat::{ChatOptions, ToolChoice}};
///
/// let options = ChatOptions::from(GenerateOptions::default().max_tokens(200));
/// let options = options.tool_choice(ToolChoice::Required);
/// assert!(options.parallel_tool_calls);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChatOptions {
    /// The options of the answer's text.
    pub generate: GenerateOptions,
    /// Whether and how the model calls tools.
    pub tool_choice: ToolChoice,
    /// Whether an answer may have several calls. Without, it ends with its first complete call.
    pub parallel_tool_calls: bool,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self {
            generate: GenerateOptions::default(),
            tool_choice: ToolChoice::default(),
            parallel_tool_calls: true,
        }
    }
}

impl From<GenerateOptions> for ChatOptions {
    fn from(generate: GenerateOptions) -> Self {
        Self { generate, ..Self::default() }
    }
}

impl ChatOptions {
    /// Sets whether and how the model calls tools.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Sets whether an answer may have several calls.
    pub fn parallel_tool_calls(mut self, parallel: bool) -> Self {
        self.parallel_tool_calls = parallel;
        self
    }
}
