//! Pictures in messages: their parts in the forms of all APIs, and their place in chats with models
//! that read text only.

use pelton::chat::{Chat, Content, image_part, is_image, text_part};
use serde_json::{Map, Value};

use super::message::placeholder;
use crate::{
    error::ApiError,
    input::{Fields, extras},
};

/// The refusal of a picture in the newest message.
const NO_IMAGES: &str = "the message has a picture, but the model reads text only: a model that sees \
                         has its mmproj GGUF file in the folder of the model file";

/// The part of a picture in OpenAI's form, from that of any API.
///
/// # Errors
/// If it has no source, or a file of the provider as its source.
pub(crate) fn image(part: Map<String, Value>, path: &str) -> Result<Map<String, Value>, ApiError> {
    let mut part = Fields::of(path.to_owned(), Value::Object(part))?;
    let source = match part.string("type")?.as_deref() {
        Some("image_url" | "input_image") => of_image_url(&mut part)?,
        _ => of_image(&mut part)?,
    };
    part.finish(&[extras::PART, extras::IMAGE])?;
    match source.filter(|source| !source.trim().is_empty()) {
        Some(source) => Ok(image_part(source)),
        None => {
            let expected = "expected a picture as a data: URL or as base64";
            Err(ApiError::field(path, format!("{path} has no picture, {expected}")))
        }
    }
}

/// The source of OpenAI's forms.
fn of_image_url(part: &mut Fields) -> Result<Option<String>, ApiError> {
    if let Some(file) = part.string("file_id")? {
        let expected = "image_url with a data: URL: no files are stored here";
        return Err(part.wrong("file_id", &Value::String(file), expected));
    }
    detail(part)?;
    match part.take("image_url") {
        Some(Value::String(source)) => Ok(Some(source)),
        Some(other) => {
            let mut inner = Fields::of(part.at("image_url"), other)?;
            detail(&mut inner)?;
            let source = inner.string("url")?;
            inner.finish(&[])?;
            Ok(source)
        }
        None => Ok(None),
    }
}

/// Checks how closely the model is to look.
fn detail(fields: &mut Fields) -> Result<(), ApiError> {
    fields.choice("detail", &["auto", "low", "high", "original"])?;
    Ok(())
}

/// The source of Anthropic's form, and of those with the source in the part itself.
fn of_image(part: &mut Fields) -> Result<Option<String>, ApiError> {
    let Some(mut source) = part.object("source")? else {
        part.string("mimeType")?;
        for name in ["image", "url", "data"] {
            if let Some(source) = part.string(name)? {
                return Ok(Some(source));
            }
        }
        return Ok(None);
    };
    source.string("media_type")?;
    let kind = source.choice("type", &["base64", "url"])?;
    let field = if kind == Some("url") { "url" } else { "data" };
    let found = source.string(field)?;
    source.finish(&[])?;
    Ok(found)
}

/// Puts placeholders in place of the pictures of a chat, for a model that takes none.
///
/// # Errors
/// If the newest message is the user's and has one.
pub(super) fn leave_out(chat: &mut Chat) -> Result<(), ApiError> {
    let count = chat.messages.len();
    for (i, message) in chat.messages.iter_mut().enumerate() {
        let is_newest = i + 1 == count && message.role == "user";
        let Some(Content::Parts(parts)) = &mut message.content else { continue };
        for part in parts.iter_mut().filter(|part| is_image(part)) {
            if is_newest {
                return Err(ApiError::field("messages", NO_IMAGES));
            }
            *part = text_part(&placeholder("image"));
        }
    }
    Ok(())
}

/// The content of parts: their texts, a line each, unless one is a picture.
pub(crate) fn content(parts: Vec<Map<String, Value>>) -> Content {
    let parts = Content::Parts(parts);
    parts.text().map_or(parts, Content::Text)
}

/// The parts of a content.
pub(crate) fn parts(content: Option<Content>) -> Vec<Map<String, Value>> {
    match content {
        None => Vec::new(),
        Some(Content::Text(text)) if text.is_empty() => Vec::new(),
        Some(Content::Text(text)) => vec![text_part(&text)],
        Some(Content::Parts(parts)) => parts,
    }
}
