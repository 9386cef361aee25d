//! Conversations on the command line.
//!
//! Imports go one way: `text` and `markdown` (from and to the user), `command` (lines that begin
//! with a slash), `params` (options that can be changed), `conversation` (the messages), `input`
//! (an editor on a terminal, lines otherwise), `screen` (output), `session` (the loop).

mod command;
mod conversation;
mod input;
mod markdown;
mod params;
mod screen;
mod session;
mod text;

pub(crate) use conversation::Conversation;
pub(crate) use input::Input;
pub(crate) use params::Params;
pub(crate) use screen::Screen;
pub(crate) use session::{Session, Thinking};
