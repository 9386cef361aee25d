//! Prompts with pictures, in llama.cpp's form.

use pelton::{
    Prompt,
    chat::{Content, Message, image_part},
};
use serde_json::Value;

use crate::{
    error::ApiError,
    input::Fields,
    models::{Encoded, Served},
};

/// The text that stands for a picture in a prompt.
pub(super) const MARKER: &str = "<__media__>";

/// A text with markers, and the pictures.
pub(super) struct Pictured {
    text: String,
    images: Message,
}

impl Pictured {
    /// Takes the prompt out of a body, if it is an object.
    pub(super) fn take(fields: &mut Fields) -> Result<Option<Self>, ApiError> {
        if !matches!(fields.peek("prompt"), Some(Value::Object(_))) {
            return Ok(None);
        }
        let Some(mut prompt) = fields.object("prompt")? else { return Ok(None) };
        let text = prompt.string("prompt_string")?;
        let text = text.ok_or_else(|| prompt.missing("prompt_string", "a string"))?;
        let images = prompt.strings("multimodal_data")?;
        prompt.finish(&[])?;
        let mut message = Message::new("user", "");
        message.content = Some(Content::Parts(images.into_iter().map(image_part).collect()));
        Ok(Some(Self { text, images: message }))
    }

    /// Encodes the prompt, and decodes its pictures. Blocks for as long as that takes.
    pub(super) fn encode(&self, served: &Served) -> Result<Encoded, ApiError> {
        if self.images.images().next().is_none() {
            return Ok(served.encode(&Prompt::from(&self.text))?.into());
        }
        let marked = served.template()?.marked(&self.text, MARKER, &self.images);
        let prompt = marked.map_err(|error| ApiError::field("prompt", error.to_string()))?;
        served.encoded(&prompt)
    }
}
