//! The input of a template: messages, tools and options.

use serde_json::{Map, Value};

use crate::Message;

/// A conversation with its tools and options.
///
/// ```
/// use pelton_chat::{Chat, Message};
///
/// let mut chat = Chat::new(vec![Message::new("user", "Hello")]);
/// chat.enable_thinking = Some(false);
/// chat.kwargs.insert("date".into(), "2026-11-22".into());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Chat {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call: `{"type": "function", "function": {"name",
    /// "description", "parameters"}}`.
    pub tools: Vec<Value>,
    /// Documents for retrieval, which few templates use.
    pub documents: Vec<Value>,
    /// Whether the prompt ends with the beginning of an assistant's message.
    pub add_generation_prompt: bool,
    /// Whether the prompt ends with the text of the last message, for the model to continue it.
    pub continue_final_message: bool,
    /// Whether the model reasons before it answers: the variables `enable_thinking` and `thinking`,
    /// which are not defined for `None`.
    pub enable_thinking: Option<bool>,
    /// How much the model reasons: the variable `reasoning_effort`, which is not defined for
    /// `None`.
    pub reasoning_effort: Option<String>,
    /// Variables of the template. They override all others.
    pub kwargs: Map<String, Value>,
    /// Whether messages are adapted to what the template supports. Arguments of tool calls become
    /// objects (or strings), lists of text parts become texts (or the reverse), and no content
    /// becomes an empty text. The role `developer` becomes `system`. System messages that the
    /// template refuses or leaves out are joined to the first one, or become the beginning of the
    /// first user message. Messages of one author that follow each other are joined if the template
    /// refuses them. Roles that the template does not name are refused.
    pub adapt: bool,
}

impl Chat {
    /// A conversation that the model answers, adapted to the template.
    pub fn new(messages: Vec<Message>) -> Self {
        Self {
            messages,
            tools: Vec::new(),
            documents: Vec::new(),
            add_generation_prompt: true,
            continue_final_message: false,
            enable_thinking: None,
            reasoning_effort: None,
            kwargs: Map::new(),
            adapt: true,
        }
    }
}
