//! The input of a template: messages, tools and options.

use serde_json::{Map, Value};

use crate::picture::{Detail, IMAGES_MAX, image_bytes, image_detail, image_file, text_part};
use crate::{Content, Error, Message};

/// A conversation with its tools and options.
///
/// ```
/// use pelton_chat::{Chat, Message};
///
/// let mut chat = Chat::new(vec![Message::new("user", "Hello")]);
/// chat.enable_thinking = Some(false);
/// chat.kwargs.insert("date".into(), "2026-11-22".into());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Chat {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call: `{"type": "function", "function": {"name",
    /// "description", "parameters"}}`.
    pub tools: Vec<Value>,
    /// Documents for retrieval, which few templates use.
    pub documents: Vec<Value>,
    /// Whether the prompt ends with the beginning of an assistant's message.
    pub add_generation_prompt: bool,
    /// Whether the prompt ends with the text of the last message, for the model to continue it.
    pub continue_final_message: bool,
    /// Whether the model reasons before it answers: the variables `enable_thinking` and `thinking`,
    /// which are not defined for `None`.
    pub enable_thinking: Option<bool>,
    /// How much the model reasons: the variable `reasoning_effort`, which is not defined for
    /// `None`.
    pub reasoning_effort: Option<String>,
    /// Variables of the template. They override all others.
    pub kwargs: Map<String, Value>,
    /// Whether messages are adapted to what the template supports. Arguments of tool calls become
    /// objects (or strings), lists of text parts become texts (or the reverse), and no content
    /// becomes an empty text. The role `developer` becomes `system`. System messages that the
    /// template refuses or leaves out are joined to the first one, or become the beginning of the
    /// first user message. Messages of one author that follow each other are joined if the template
    /// refuses them. Roles that the template does not name are refused.
    pub adapt: bool,
}

impl Chat {
    /// A conversation that the model answers, adapted to the template.
    pub fn new(messages: Vec<Message>) -> Self {
        Self {
            messages,
            tools: Vec::new(),
            documents: Vec::new(),
            add_generation_prompt: true,
            continue_final_message: false,
            enable_thinking: None,
            reasoning_effort: None,
            kwargs: Map::new(),
            adapt: true,
        }
    }
}

impl Chat {
    /// The files of the pictures in its messages, in their order.
    ///
    /// # Errors
    /// If there are more than [`IMAGES_MAX`], which is checked first, or if one
    /// is no base64 or has more than [`IMAGE_BYTES_MAX`](crate::IMAGE_BYTES_MAX) bytes.
    pub fn images(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.count_images()?;
        let parts = self.messages.iter().flat_map(|message| message.images());
        parts.enumerate().map(|(i, part)| image_bytes(part, i + 1)).collect()
    }

    /// Puts pictures, by the bytes of their files, before the text of the last message.
    ///
    /// ```
    /// let mut chat = pelton_chat::Chat::new(vec![pelton_chat::Message::new("user", "What is this?")]);
    /// chat.attach_images([b"\x89PNG"])?;
    /// assert_eq!(chat.images()?.len(), 1);
    /// # Ok::<(), pelton_chat::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the last message is not the user's.
    pub fn attach_images(
        &mut self,
        files: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Result<(), Error> {
        let Some(last) = self.messages.last_mut().filter(|last| last.role == "user") else {
            let expected = "expected one of the user as the last message";
            return Err(Error::Invalid(format!("pictures have no message, {expected}")));
        };
        let images = files.into_iter().map(|file| image_file(file.as_ref()));
        let rest = match last.content.take() {
            Some(Content::Parts(parts)) => parts,
            Some(Content::Text(text)) if !text.is_empty() => vec![text_part(&text)],
            _ => Vec::new(),
        };
        last.content = Some(Content::Parts(images.chain(rest).collect()));
        Ok(())
    }

    /// How closely the model looks at each picture in its messages, in their order.
    ///
    /// # Errors
    /// If one has an unknown word for it.
    pub fn details(&self) -> Result<Vec<Detail>, Error> {
        let parts = self.messages.iter().flat_map(|message| message.images());
        parts.map(image_detail).collect()
    }

    /// The number of pictures in its messages.
    ///
    /// # Errors
    /// If there are more than [`IMAGES_MAX`], or if one is in a message of the
    /// system or of the assistant.
    pub(crate) fn count_images(&self) -> Result<usize, Error> {
        let mut count = 0;
        for (i, message) in self.messages.iter().enumerate() {
            let own = message.images().count();
            if own > 0 && matches!(message.role.as_str(), "system" | "developer" | "assistant") {
                return Err(Error::Invalid(format!(
                    "message {i} has a picture and the role {:?}, expected pictures in messages of \
                     the user or in results of tools",
                    message.role
                )));
            }
            count += own;
        }
        match count > IMAGES_MAX {
            true => Err(Error::Invalid(format!(
                "the chat has {count} pictures, expected at most {IMAGES_MAX}"
            ))),
            false => Ok(count),
        }
    }
}
