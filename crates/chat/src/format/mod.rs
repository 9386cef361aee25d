//! Formats of reasoning and tool calls: one table, from which the parser and the grammars are made.

mod detect;
mod row;
mod table;

pub use row::{Body, Calls, Format, Reasoning, Separator};
pub use table::FORMATS;
