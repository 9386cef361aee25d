//! Conversations: from messages to a prompt, and from tokens to the parts of a reply.
//!
//! A [`ChatTemplate`] belongs to a model file. It renders a [`Chat`] (messages, tools, options) as
//! a [`ChatPrompt`]. This has a [`Prompt`](crate::Prompt) in which the texts of messages are never
//! control tokens, and the needs of a constraint. It also has a [`ReplyParser`] that splits the
//! output into content, reasoning and tool calls.
//!
//! ```
//! use pelton::chat::{Chat, Event, Message};
//! use pelton::{Engine, LoadOptions, Request, Sampling};
//!
//! let model = Engine::new().load_built_in(&LoadOptions::default())?;
//! let mut messages = vec![Message::new("user", "What is 2 plus 3?")];
//! let prompt = model.chat_template()?.prompt(&Chat::new(messages.clone()))?;
//!
//! let options = Request::new("").max_tokens(20).sampling(Sampling::greedy());
//! let mut reply = model.chat(&prompt, options)?;
//! for event in &mut reply {
//!     if let Event::Content(text) = event? {
//!         print!("{text}");
//!     }
//! }
//! messages.push(reply.message());
//! assert!(messages[1].text().unwrap().contains('5'));
//! # Ok::<(), pelton::Error>(())
//! ```
//!
//! [`Model::submit`](crate::Model::submit) works in place of [`Model::chat`](crate::Model::chat):
//! the prompt goes into a [`Request`](crate::Request) and each [`Token`](crate::Token) to
//! [`ReplyParser::push`].

mod explain;
mod ids;
mod lark;
mod notation;
mod prompt;
mod raw;
mod reply;
mod stream;
mod template;

pub use ids::call_id;
pub use pelton_chat::{
    Call, Capabilities, Chat, Clock, Content, Error, Event, Format, Limits, Message, Parser, Reply,
    Rule, Segment, Template, ToolCall, ToolGrammar, is_tool_name,
};
pub use prompt::{AnswerStart, CallConstraint, ChatPrompt, ToolChoice};
pub use reply::ReplyParser;
pub use stream::ChatStream;
pub use template::ChatTemplate;
pub(crate) use template::encode;
