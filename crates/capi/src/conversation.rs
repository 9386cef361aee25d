//! Conversations from JSON.

use pelton::chat::{Chat, Content, IMAGE_BYTES_MAX, IMAGES_MAX, Message, ToolChoice};
use serde_json::{Map, Value};

use crate::fault::Fault;

/// A conversation, and how its answer may call tools.
#[derive(Clone)]
pub(crate) struct Conversation {
    pub(crate) chat: Chat,
    pub(crate) choice: ToolChoice,
    pub(crate) parallel: bool,
    /// Pictures that were added to the last message.
    images: usize,
}

impl Conversation {
    /// Puts a picture behind those that the last message has, and before its text.
    ///
    /// # Errors
    ///
    /// The last message is not the user's, or there are too many pictures.
    pub(crate) fn add_image(&mut self, file: &[u8]) -> Result<(), Fault> {
        if self.images >= IMAGES_MAX {
            return Err(Fault::invalid(format_args!(
                "the conversation has {IMAGES_MAX} pictures, expected at most so many"
            )));
        }
        if file.len() > IMAGE_BYTES_MAX {
            return Err(Fault::invalid(format_args!(
                "the picture has {} bytes, expected at most {IMAGE_BYTES_MAX}",
                file.len()
            )));
        }
        self.chat.attach_images([file]).map_err(|error| Fault::from(pelton::Error::from(error)))?;
        if let Some(Content::Parts(parts)) =
            self.chat.messages.last_mut().and_then(|last| last.content.as_mut())
        {
            parts[..=self.images].rotate_left(1);
        }
        self.images += 1;
        Ok(())
    }
}

/// A list of messages, or an object with the key `messages` and the keys of OpenAI's requests.
///
/// # Errors
///
/// It is not JSON, a key is unknown, or a value of the wrong type.
pub(crate) fn parse(json: &str) -> Result<Conversation, Fault> {
    let value: Value = serde_json::from_str(json)
        .map_err(|error| Fault::invalid(format_args!("the messages are no JSON: {error}")))?;
    let object = match value {
        Value::Object(object) => object,
        messages => Map::from_iter([("messages".to_owned(), messages)]),
    };
    let chat = Chat::new(Vec::new());
    let mut all = Conversation { chat, choice: ToolChoice::Auto, parallel: true, images: 0 };
    for (key, value) in object {
        read(&mut all, &key, value)?;
    }
    Ok(all)
}

fn read(all: &mut Conversation, key: &str, value: Value) -> Result<(), Fault> {
    let expected = |expected: &str, found: &Value| {
        Fault::invalid(format_args!("{key} is {found}, expected {expected}"))
    };
    let list = |value: Value| match value {
        Value::Array(list) => Ok(list),
        other => Err(expected("a list", &other)),
    };
    let flag = |value: Value| value.as_bool().ok_or_else(|| expected("true or false", &value));
    let chat = &mut all.chat;
    match key {
        "messages" => {
            let message = |value| {
                Message::try_from(value).map_err(|error| Fault::from(pelton::Error::from(error)))
            };
            chat.messages = list(value)?.into_iter().map(message).collect::<Result<_, _>>()?;
        }
        "tools" => chat.tools = list(value)?,
        "documents" => chat.documents = list(value)?,
        "tool_choice" => all.choice = choice(&value)?,
        "parallel_tool_calls" => all.parallel = flag(value)?,
        "add_generation_prompt" => chat.add_generation_prompt = flag(value)?,
        "continue_final_message" => chat.continue_final_message = flag(value)?,
        "enable_thinking" => chat.enable_thinking = Some(flag(value)?),
        "reasoning_effort" => {
            let level = value.as_str().ok_or_else(|| expected("a text", &value))?;
            chat.reasoning_effort = Some(level.to_owned());
        }
        "chat_template_kwargs" => match value {
            Value::Object(kwargs) => chat.kwargs = kwargs,
            other => return Err(expected("an object", &other)),
        },
        _ => {
            return Err(Fault::invalid(format_args!(
                "there is no key '{key}' of a conversation, expected messages, tools, tool_choice, \
                 parallel_tool_calls, documents, add_generation_prompt, continue_final_message, \
                 enable_thinking, reasoning_effort or chat_template_kwargs"
            )));
        }
    }
    Ok(())
}

fn choice(value: &Value) -> Result<ToolChoice, Fault> {
    let named = || value.get("function").unwrap_or(value).get("name")?.as_str();
    match value.as_str() {
        Some("auto") => Ok(ToolChoice::Auto),
        Some("none") => Ok(ToolChoice::None),
        Some("required") => Ok(ToolChoice::Required),
        _ => match named() {
            Some(name) => Ok(ToolChoice::Named(name.to_owned())),
            None => Err(Fault::invalid(format_args!(
                "tool_choice is {value}, expected auto, none, required or a function"
            ))),
        },
    }
}
