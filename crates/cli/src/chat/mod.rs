//! Conversations on the command line.
//!
//! Imports go one way. First come `text`, `markdown` and `wrap` (from and to the user), `command`
//! (lines that begin with a slash), `params` (options that can be changed) and `conversation`
//! (the messages). Then `input` (an editor on a terminal, lines otherwise), `screen` (output),
//! `mcp` (servers of tools), `tools` (all tools of a chat), `session` (the loop) and `calling`
//! (calls of tools in it).

mod calling;
mod command;
mod conversation;
mod input;
mod markdown;
mod mcp;
mod params;
mod screen;
mod session;
mod text;
mod tools;
mod wrap;

pub(crate) use conversation::Conversation;
pub(crate) use input::Input;
pub(crate) use params::Params;
pub(crate) use screen::Screen;
pub(crate) use session::{Answers, Overflow, Session, Start, Thinking};
pub(crate) use tools::{ToolArgs, Tools};
