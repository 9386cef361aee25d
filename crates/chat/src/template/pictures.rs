//! Pictures in the variables of a template, and their places in its output.
//!
//! A part that is a picture is `{"type": "image"}` for the template, which writes the placeholder
//! of the family for it. A template that writes none has a mark before the text of the message
//! instead: a private-use character that occurs in no input. Placeholders in the texts of messages
//! stay text, as control tokens do.

use serde_json::{Map, Value, json};

use super::marks::Controls;
use super::probe::Capabilities;
use super::segment::Segment;
use crate::{Error, picture};

/// The text after the result of a tool whose picture is in the next message.
const MOVED: &str = "[picture: in the next message]";
/// The text of the message with the pictures of results.
const RESULTS: &str = "The pictures of the results.";

/// The variables of parts; pictures lose their bytes.
pub(super) fn contents(parts: &[Map<String, Value>]) -> Value {
    let content = |part: &Map<String, Value>| match picture::is_image(part) {
        true => json!({"type": "image"}),
        false => Value::Object(part.clone()),
    };
    parts.iter().map(content).collect()
}

/// Whether a part is a picture's, in the variables.
fn is_image(part: &Value) -> bool {
    part["type"] == "image"
}

/// The parts of a message that has a picture.
fn with_images(message: &Value) -> Option<&Vec<Value>> {
    message["content"].as_array().filter(|parts| parts.iter().any(is_image))
}

/// Moves the pictures of results of tools to a message of the user after all results of a turn.
/// `None` if there are none.
pub(super) fn move_results(messages: &[Value]) -> Option<Vec<Value>> {
    let is_result = |message: &Value| message["role"] == "tool";
    if !messages.iter().any(|message| is_result(message) && with_images(message).is_some()) {
        return None;
    }
    let mut moved = Vec::with_capacity(messages.len() + 1);
    let mut images = Vec::new();
    for message in messages {
        if !is_result(message) && !images.is_empty() {
            moved.push(of_results(&mut images));
        }
        let mut message = message.clone();
        if is_result(&message)
            && let Some(parts) = with_images(&message)
        {
            let (own, rest): (Vec<Value>, Vec<Value>) = parts.iter().cloned().partition(is_image);
            let texts = rest.iter().filter_map(|part| part["text"].as_str());
            let texts = texts.chain([MOVED]).collect::<Vec<_>>().join("\n");
            message["content"] = texts.into();
            images.extend(own);
        }
        moved.push(message);
    }
    if !images.is_empty() {
        moved.push(of_results(&mut images));
    }
    Some(moved)
}

/// The message of the user with the pictures of results.
fn of_results(images: &mut Vec<Value>) -> Value {
    images.push(json!({"type": "text", "text": RESULTS}));
    json!({"role": "user", "content": std::mem::take(images)})
}

/// Puts marks before the texts of messages whose pictures the template does not write.
pub(super) fn mark(messages: &mut [Value], mark: char, to: Capabilities) {
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        let form = to.form(role);
        let Some(parts) = with_images(message).filter(|_| !to.writes_images(role)) else {
            continue;
        };
        let marks = parts.iter().filter(|part| is_image(part)).map(|_| mark);
        let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        let text = marks.collect::<String>() + &texts.join("\n");
        message["content"] = match form.text || !form.parts {
            true => text.into(),
            false => json!([{"type": "text", "text": text}]),
        };
    }
}

/// Numbers the places of pictures: the marks, which segments of their own stand for, and the
/// placeholders that the template wrote.
///
/// # Errors
/// If there are more or fewer than `count`.
pub(super) fn place(
    segments: Vec<Segment>,
    controls: &Controls,
    placeholder: &str,
    count: usize,
) -> Result<Vec<Segment>, Error> {
    let mut placed = Vec::with_capacity(segments.len() + 2 * count);
    let mut found = 0;
    let mut next = || {
        found += 1;
        Segment { text: placeholder.to_owned(), control_tokens: true, image: Some(found - 1) }
    };
    for segment in segments {
        if segment.image.is_some() {
            placed.push(next());
            continue;
        }
        if !segment.control_tokens {
            placed.push(segment);
            continue;
        }
        let mut from = 0;
        for range in controls.find(&segment.text, placeholder) {
            if from < range.start {
                placed.push(Segment::text(&segment.text[from..range.start], true));
            }
            placed.push(next());
            from = range.end;
        }
        if from < segment.text.len() {
            placed.push(Segment::text(&segment.text[from..], true));
        }
    }
    match found == count {
        true => Ok(placed),
        false => Err(Error::Invalid(format!(
            "the chat template wrote {found} placeholders {placeholder:?}, expected one for each of \
             {count} pictures"
        ))),
    }
}
