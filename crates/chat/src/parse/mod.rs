//! Streaming parsers: from a model's output to content, reasoning and tool calls.

mod call;
mod elements;
mod event;
mod harmony;
mod json_stream;
mod literal;
mod named;
mod object;
mod parser;
mod reply;
mod scan;
mod step;
mod tools;

pub use event::Event;
pub use parser::Parser;
pub use reply::{Call, Reply};
pub use step::is_name as is_tool_name;
