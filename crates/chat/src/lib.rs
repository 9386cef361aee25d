//! Chat templates, and the formats of reasoning and tool calls, of language models.

mod error;
mod format;
mod message;
mod parse;
mod template;

pub use error::Error;
pub use format::{Body, Calls, FORMATS, Format, Reasoning, Separator};
pub use message::{Content, Message, ToolCall};
pub use parse::{Call, Event, Parser, Reply};
pub use template::{Capabilities, Chat, Clock, Limits, Prompt, Segment, Template};
