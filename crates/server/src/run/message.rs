//! Messages from the JSON of chat APIs.

use pelton::chat::{Content, Error, Message};
use serde_json::Value;

use crate::{error::ApiError, input::kind as kind_of};

/// Messages from the JSON of chat APIs. Parts that are no text are refused.
pub(crate) fn messages(list: Vec<Value>, path: &str) -> Result<Vec<Message>, ApiError> {
    let message = |(i, value)| {
        let path = format!("{path}[{i}]");
        let mut message = Message::try_from(value).map_err(|error: Error| {
            let message = format!("{path}: {error}");
            ApiError::field(path.clone(), message)
        })?;
        if let Some(content) = &mut message.content {
            check_parts(content, &path)?;
        }
        Ok(message)
    };
    list.into_iter().enumerate().map(message).collect()
}

/// Makes all parts of a content `{"type": "text", "text": …}`.
fn check_parts(content: &mut Content, path: &str) -> Result<(), ApiError> {
    let Content::Parts(parts) = content else { return Ok(()) };
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
            "text" | "input_text" | "output_text" => part.get("text"),
            "refusal" => part.get("refusal"),
            _ => {
                let message =
                    format!("{path}.type is {kind:?}, expected text: the model reads text");
                return Err(ApiError::field(path, message));
            }
        };
        let Some(Value::String(text)) = text else {
            let message = format!("{path} has no text, expected a string");
            return Err(ApiError::field(path, message));
        };
        let text = Value::String(text.clone());
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
        ] {
            let error = messages(bad.as_array().unwrap().clone(), "messages").unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param));
        }
    }
}
