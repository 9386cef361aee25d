//! Conversations: from messages to a prompt, and from tokens to the parts of a reply.
//!
//! A [`ChatTemplate`] belongs to a model file. It renders a [`Chat`] (messages, tools, options) as
//! a [`ChatPrompt`]. This has a [`Prompt`](crate::Prompt) in which the texts of messages are never
//! control tokens, and the needs of a constraint. It also has a [`ReplyParser`] that splits the
//! output into content, reasoning and tool calls.
//!
//! ```
//! use pelton::chat::{Event, Message};
//! use pelton::{Engine, LoadOptions, ModelSource};
//!
//! let engine = Engine::builder().build()?;
//! let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
//! let mut messages = vec![Message::new("user", "What is 2 plus 3?")];
//! let mut reply = model.chat(&messages)?;
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
//! [`Model::chat_with`](crate::Model::chat_with) takes a [`Chat`] with tools, and options. To
//! render a chat and to answer it are single steps too: [`ChatTemplate::prompt`] and
//! [`Model::answer`](crate::Model::answer). [`Model::submit`](crate::Model::submit) works in place
//! of the latter: each [`Token`](crate::Token) goes to [`ReplyParser::push`].

mod explain;
mod ids;
mod lark;
mod notation;
mod options;
mod pictures;
mod prompt;
mod raw;
mod reply;
mod stream;
mod template;

pub use ids::call_id;
pub use options::ChatOptions;
pub use pelton_chat::{
    Call, Capabilities, Chat, Clock, Content, Detail, Error, Event, Format, IMAGE_BYTES_MAX,
    IMAGES_MAX, Limits, Message, Parser, Reply, Rule, Segment, Template, ToolCall, ToolGrammar,
    image_detail, image_file, image_part, image_source, is_image, is_tool_name, text_part,
    with_detail,
};
pub(crate) use pictures::NO_VISION;
pub use prompt::{AnswerStart, CallConstraint, ChatPrompt, ToolChoice};
pub use reply::ReplyParser;
pub use stream::ChatStream;
pub use template::ChatTemplate;
pub(crate) use template::encode;
