//! Messages from the JSON of chat APIs.

use pelton::chat::{Content, Error, Message, is_image};
use serde_json::Value;

use super::{
    known::check_message,
    pictures::{image, placeholder},
};
use crate::{error::ApiError, input::kind as kind_of};

/// Messages from the JSON of chat APIs. Pictures of the user and of tools stay. Another part that
/// is no text becomes a placeholder; in the newest message, if that is the user's, it is refused.
/// One of an unknown type is refused everywhere.
pub(crate) fn messages(list: Vec<Value>, path: &str) -> Result<Vec<Message>, ApiError> {
    let count = list.len();
    let one = |(i, value)| message(value, &format!("{path}[{i}]"), i + 1 == count);
    list.into_iter().enumerate().map(one).collect()
}

/// A message from the JSON of chat APIs.
pub(crate) fn message(value: Value, path: &str, is_newest: bool) -> Result<Message, ApiError> {
    check_message(&value, path)?;
    let mut message = Message::try_from(value).map_err(|error: Error| {
        let message = format!("{path}: {error}");
        ApiError::field(path, message)
    })?;
    if let Some(content) = &mut message.content {
        check_parts(content, path, &message.role, is_newest)?;
    }
    Ok(message)
}

/// The types of parts that are no text, in all APIs: pictures, sounds, files, and what agents send
/// of the turns of other models.
const LEFT_OUT: [&str; 24] = [
    "audio",
    "audio_url",
    "computer_screenshot",
    "container_upload",
    "document",
    "file",
    "image",
    "image_file",
    "image_url",
    "input_audio",
    "input_file",
    "input_image",
    "input_video",
    "part",
    "reasoning",
    "redacted_thinking",
    "resource",
    "resource_link",
    "search_result",
    "thinking",
    "tool_reference",
    "tool_result",
    "video",
    "video_url",
];

/// The text in place of a part that is no text.
///
/// # Errors
/// If its type is unknown: it could be a text that the model would miss.
pub(crate) fn left_out(path: &str, kind: &str) -> Result<String, ApiError> {
    let is_tool = kind.ends_with("_tool_result") || kind.ends_with("tool_use");
    match is_tool || LEFT_OUT.contains(&kind) {
        true => Ok(placeholder(kind)),
        false => {
            let message =
                format!("{path}.type is {kind:?}, expected text or a known type of parts");
            Err(ApiError::field(path, message))
        }
    }
}

/// The refusal of a part that is no text.
pub(crate) fn no_text(path: &str, kind: &str) -> ApiError {
    let message = format!("{path}.type is {kind:?}, expected text or a picture");
    ApiError::field(path, message)
}

/// Makes all parts of a content `{"type": "text", "text": …}`, or pictures in OpenAI's form.
/// Pictures of the system and of the assistant become placeholders.
fn check_parts(
    content: &mut Content,
    path: &str,
    role: &str,
    is_newest: bool,
) -> Result<(), ApiError> {
    let Content::Parts(parts) = content else { return Ok(()) };
    let is_user = !matches!(role, "system" | "developer" | "assistant");
    for (i, part) in parts.iter_mut().enumerate() {
        let path = format!("{path}.content[{i}]");
        let kind = match part.get("type") {
            None | Some(Value::Null) => "text".to_owned(),
            Some(Value::String(kind)) => kind.clone(),
            Some(other) => {
                let message = format!("{path}.type is {}, expected a string", kind_of(other));
                return Err(ApiError::field(path, message));
            }
        };
        let text = match kind.as_str() {
            "text" | "input_text" | "output_text" => part.get("text").cloned(),
            "refusal" => part.get("refusal").cloned(),
            _ if is_user && is_image(part) => {
                *part = image(std::mem::take(part), &path)?;
                continue;
            }
            _ if is_newest && role == "user" => return Err(no_text(&path, &kind)),
            _ => Some(left_out(&path, &kind)?.into()),
        };
        let Some(text @ Value::String(_)) = text else {
            let message = format!("{path} has no text, expected a string");
            return Err(ApiError::field(path, message));
        };
        part.clear();
        part.insert("type".to_owned(), "text".into());
        part.insert("text".to_owned(), text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts() {
        let good = json!([{"role": "user", "content": [
            {"type": "input_text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {}}]}]);
        let all = messages(good.as_array().unwrap().clone(), "messages").unwrap();
        assert_eq!(all[0].text().unwrap(), "a\nb");
        for (bad, param) in [
            (json!([5]), "messages[0]"),
            (json!([{"role": 1}]), "messages[0]"),
            (json!([{"role": "user", "content": 5}]), "messages[0]"),
            (
                json!([{"role": "user", "content": [{"type": "image_url"}]}]),
                "messages[0].content[0]",
            ),
            (json!([{"role": "user", "content": [{"type": "text"}]}]), "messages[0].content[0]"),
            (
                json!([{"role": "user", "content": [{"type": "foo", "text": "a"}]}, {"role": "user"}]),
                "messages[0].content[0]",
            ),
        ] {
            let error = messages(bad.as_array().unwrap().clone(), "messages").unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param));
        }
        // pictures of the user and of tools stay, others do not end a conversation
        let image = json!([{"type": "input_image", "image_url": "AAAA", "detail": "low"}]);
        let all = ["user", "tool", "assistant"].map(|role| json!({"role": role, "content": image}));
        let [user, tool, own] = messages(all.to_vec(), "messages").unwrap().try_into().unwrap();
        for message in [user, tool] {
            let part = message.images().next().unwrap();
            let expected = json!({"url": "AAAA", "detail": "low"});
            assert_eq!(json!(part), json!({"type": "image_url", "image_url": expected}));
        }
        assert_eq!(own.text().unwrap(), "[input_image: left out, this model does not read it]");
    }
}
