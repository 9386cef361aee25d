//! Pictures in messages: their parts in the forms of all APIs, and their place in chats with models
//! that read text only.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use pelton::chat::{Chat, Content, Detail, image_part, is_image, text_part, with_detail};
use serde_json::{Map, Value};

use crate::{
    error::ApiError,
    input::{Fields, extras},
};

/// The refusal of a picture in the newest message.
const NO_IMAGES: &str = "the message has a picture, but the model reads text only: a model that sees \
                         has its mmproj GGUF file in the folder of the model file";

/// Chats whose pictures may be decoded at the same time, each with up to a gigabyte of memory.
static PLACES: Places = Places { taken: Mutex::new(0), left: Condvar::new() };
const PLACES_MAX: usize = 2;
/// How long a chat waits for a place.
const WAIT: Duration = Duration::from_secs(30);

struct Places {
    taken: Mutex<usize>,
    left: Condvar,
}

/// A place among the chats whose pictures are decoded.
pub(super) struct Place;

impl Drop for Place {
    fn drop(&mut self) {
        *PLACES.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        PLACES.left.notify_one();
    }
}

/// Takes a place to decode pictures. Blocks until one is free.
///
/// # Errors
/// If none becomes free in time.
pub(super) fn place() -> Result<Place, ApiError> {
    let taken = PLACES.taken.lock().unwrap_or_else(PoisonError::into_inner);
    let is_full = |taken: &mut usize| *taken >= PLACES_MAX;
    let waited = PLACES.left.wait_timeout_while(taken, WAIT, is_full);
    let (mut taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
    if waited.timed_out() {
        return Err(ApiError::unavailable("other requests have too many pictures"));
    }
    *taken += 1;
    Ok(Place)
}

/// The text in place of a part that is no text.
pub(crate) fn placeholder(kind: &str) -> String {
    format!("[{kind}: left out, this model does not read it]")
}

/// The part of a picture in OpenAI's form, from that of any API.
///
/// # Errors
/// If it has no source, or a file of the provider as its source.
pub(crate) fn image(part: Map<String, Value>, path: &str) -> Result<Map<String, Value>, ApiError> {
    let mut part = Fields::of(path.to_owned(), Value::Object(part))?;
    let (source, detail) = match part.string("type")?.as_deref() {
        Some("image_url" | "input_image") => of_image_url(&mut part)?,
        _ => (of_image(&mut part)?, Detail::default()),
    };
    part.finish(&[extras::PART, extras::IMAGE])?;
    match source.filter(|source| !source.trim().is_empty()) {
        Some(source) => Ok(with_detail(image_part(source), detail)),
        None => {
            let expected = "expected a picture as a data: URL or as base64";
            Err(ApiError::field(path, format!("{path} has no picture, {expected}")))
        }
    }
}

/// The source of OpenAI's forms, and how closely the model looks at it.
fn of_image_url(part: &mut Fields) -> Result<(Option<String>, Detail), ApiError> {
    if let Some(file) = part.string("file_id")? {
        let expected = "image_url with a data: URL: no files are stored here";
        return Err(part.wrong("file_id", &Value::String(file), expected));
    }
    let own = detail(part)?;
    match part.take("image_url") {
        Some(Value::String(source)) => Ok((Some(source), own.unwrap_or_default())),
        Some(other) => {
            let mut inner = Fields::of(part.at("image_url"), other)?;
            let detail = detail(&mut inner)?.or(own);
            let source = inner.string("url")?;
            inner.finish(&[extras::IMAGE])?;
            Ok((source, detail.unwrap_or_default()))
        }
        None => Ok((None, Detail::default())),
    }
}

/// How closely the model is to look.
fn detail(fields: &mut Fields) -> Result<Option<Detail>, ApiError> {
    let word = fields.choice("detail", &Detail::ALL.map(Detail::name))?;
    Ok(Detail::ALL.into_iter().find(|detail| Some(detail.name()) == word))
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use pelton::chat::{image_file, image_source};
    use serde_json::json;

    use super::*;
    use crate::{
        generate::{ChatRequest, Options, messages},
        models::Served,
    };

    const PNG: &[u8] = include_bytes!("../../../image/tests/fixtures/pictures/rgb.png");

    fn request(list: Value) -> Result<ChatRequest, ApiError> {
        let Value::Array(list) = list else { unreachable!() };
        let options = Options::take(&mut Fields::new(json!({}))?)?;
        Ok(ChatRequest::new(Chat::new(messages(list, "messages")?), options))
    }

    fn user(content: Value) -> Value {
        json!([{"role": "user", "content": content}])
    }

    /// Every form of a part becomes a decoded picture at its place, and the tokens of the prompt
    /// have one placeholder for it.
    #[test]
    fn pictures_reach_the_prompt() {
        let served = Served::for_tests().unwrap().seeing().unwrap();
        assert_eq!(served.capabilities().last(), Some(&"vision"));
        let url = image_source(&image_file(PNG)).unwrap().to_owned();
        let base64 = url.split_once(',').unwrap().1;
        for part in [
            json!({"type": "image_url", "image_url": {"url": url, "detail": "high"}}),
            json!({"type": "image_url", "image_url": url}),
            json!({"type": "input_image", "image_url": url, "detail": "low"}),
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": base64}}),
            json!({"type": "image", "data": base64, "mimeType": "image/gif"}),
        ] {
            let mut request =
                request(user(json!([{"type": "text", "text": "See: "}, part]))).unwrap();
            let prompt = request.render(&served).unwrap();
            assert!(prompt.text().contains("<|image|>See: "), "{}", prompt.text());
            let encoded = served.encoded(&prompt.prompt).unwrap();
            assert_eq!(encoded.pictured.unwrap().images().len(), 1, "{part}");
        }
    }

    #[test]
    fn pictures_that_are_refused() {
        let served = Served::for_tests().unwrap().seeing().unwrap();
        let refusal = |part: Value| {
            let begun = Instant::now();
            let rendered = request(user(json!([part]))).and_then(|mut chat| chat.render(&served));
            let error = rendered.unwrap_err();
            assert_eq!(error.status.as_u16(), 400, "{error}");
            assert!(begun.elapsed() < Duration::from_secs(1), "{error}: {:?}", begun.elapsed());
            error.to_string()
        };
        let file = |bytes: &[u8]| Value::Object(image_file(bytes));
        for (part, word) in [
            (
                json!({"type": "image_url", "image_url": {"url": "data:,", "detail": "best"}}),
                "detail",
            ),
            (json!({"type": "input_image", "file_id": "file-1"}), "no files are stored"),
            (json!({"type": "image", "source": {"type": "file", "file_id": "f"}}), "source.type"),
            (
                json!({"type": "image_url", "image_url": {"url": "https://example.com/a"}}),
                "data: URL",
            ),
            (json!({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}), "data: URL"),
            (file(b"%PDF-1.7"), "a PDF document"),
            (file(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), "SVG"),
            (file(b"\0\0\0\x18ftypavif"), "an AVIF picture"),
            (file(b"\0\0\0\x18ftypheic"), "a HEIC picture"),
            (file(&PNG[..50]), "damaged"),
        ] {
            let said = refusal(part);
            assert!(said.contains(word) && !said.contains('\n'), "{word}: {said}");
        }
        // they are counted before any is decoded
        let begun = Instant::now();
        let many = vec![json!({"type": "image", "data": "AAAA"}); 10_000];
        let error = request(user(many.into())).and_then(|mut chat| chat.render(&served));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("10000 pictures, expected at most 16"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
