//! A whole output as a message.

use super::event::Event;
use crate::{Content, Message, ToolCall};

/// A parsed output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The answer, with the texts of broken tool calls.
    pub content: String,
    /// The reasoning.
    pub reasoning: String,
    /// The complete calls, in their order.
    pub tool_calls: Vec<Call>,
}

/// A complete tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The tool.
    pub name: String,
    /// A JSON object.
    pub arguments: String,
}

impl Reply {
    /// Joins events.
    ///
    /// ```
    /// use pelton_chat::{Format, Parser, Reply};
    ///
    /// let format = Format::named("hermes").unwrap();
    /// let mut parser = Parser::new(format, &[]);
    /// let mut events = parser.push(
    ///     "<think>Hm.</think>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
    /// );
    /// events.extend(parser.finish());
    /// let reply = Reply::from_events(events);
    /// assert_eq!(reply.reasoning, "Hm.");
    /// assert_eq!(reply.tool_calls[0].name, "f");
    /// assert_eq!(reply.tool_calls[0].arguments, "{\"a\":1}");
    /// ```
    pub fn from_events(events: impl IntoIterator<Item = Event>) -> Self {
        let mut reply = Self::default();
        let mut open: Option<Call> = None;
        for event in events {
            match event {
                Event::Content(text) => reply.content.push_str(&text),
                Event::Reasoning(text) => reply.reasoning.push_str(&text),
                Event::ToolCallStart { name, .. } => {
                    open = Some(Call { name, arguments: String::new() });
                }
                Event::ToolCallArguments { delta, .. } => {
                    if let Some(call) = &mut open {
                        call.arguments.push_str(&delta);
                    }
                }
                Event::ToolCallEnd { .. } => reply.tool_calls.extend(open.take()),
                Event::ToolCallBroken { text, .. } => {
                    open = None;
                    reply.content.push_str(&text);
                }
            }
        }
        reply
    }

    /// The message of the assistant that the reply is in later prompts; `id` makes the identifier
    /// of each call from its index.
    pub fn into_message(self, mut id: impl FnMut(usize) -> String) -> Message {
        let call = |(index, call): (usize, Call)| {
            ToolCall::new(id(index), call.name, serde_json::Value::String(call.arguments))
        };
        Message {
            role: "assistant".to_owned(),
            content: Some(Content::Text(self.content)),
            reasoning_content: Some(self.reasoning).filter(|text| !text.is_empty()),
            tool_calls: self.tool_calls.into_iter().enumerate().map(call).collect(),
            ..Message::default()
        }
    }
}
