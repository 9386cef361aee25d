//! Chat templates, and the formats of reasoning and tool calls, of language models.
//!
//! [`Template`] renders the messages of a [`Chat`] as the prompt of a model, in the environment
//! that transformers gives to chat templates. [`Format`] is a row of the table of formats, which is
//! detected in a template. It makes the [`Parser`] of the model's output, and the [`ToolGrammar`]
//! that constrains the output. This crate knows no models, no devices and no HTTP.
//!
//! ```
//! use pelton_chat::{Chat, Format, Message, Parser, Reply, Template};
//!
//! let source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
//!               {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}\
//!               {# <tool_call> #}";
//! let template = Template::new(source)?;
//! let prompt = template.render(&Chat::new(vec![Message::new("user", "What time is it?")]))?;
//!
//! // The model continues the prompt:
//! let output = "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>";
//!
//! let format = Format::detect(template.source());
//! let mut parser = Parser::new(format, &[]).in_reasoning(format.is_reasoning(&prompt.text()));
//! let mut events = parser.push(output);
//! events.extend(parser.finish());
//! assert_eq!(Reply::from_events(events).tool_calls[0].name, "get_time");
//! # Ok::<(), pelton_chat::Error>(())
//! ```

mod error;
mod format;
mod grammar;
mod message;
mod parse;
mod picture;
mod schema;
mod template;

pub use error::Error;
pub use format::{Body, Calls, FORMATS, Format, Reasoning, Separator};
pub use grammar::{Rule, ToolGrammar};
pub use message::{Content, Message, ToolCall};
pub use parse::{Call, Event, Parser, Reply, is_tool_name};
pub use picture::{
    Detail, IMAGE_BYTES_MAX, IMAGES_MAX, image_detail, image_file, image_part, image_source,
    is_image, text_part, with_detail,
};
pub use template::{Capabilities, Chat, Clock, Limits, Prompt, Segment, Template};
