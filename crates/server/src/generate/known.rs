//! The keys that messages, parts of them and calls in them may have.

use serde_json::Value;

use crate::{
    error::ApiError,
    input::{check_keys, extras},
};

const MESSAGE: &[&str] = &[
    "content",
    "name",
    "reasoning",
    "reasoning_content",
    "role",
    "thinking",
    "tool_call_id",
    "tool_calls",
];
const PART: &[&str] = &["refusal", "text", "type"];
const CALL: &[&str] = &["arguments", "function", "id", "index", "name", "type"];
const FUNCTION: &[&str] = &["arguments", "name"];
/// Keys of calls that clients send back.
const CALL_EXTRAS: &[&str] = &[
    "cache_control",
    "description",
    "extra_content",
    "index",
    "parsed_arguments",
    "provider_specific_fields",
    "strict",
    "thought_signature",
];
/// The kinds of parts that have a text.
const TEXTS: [&str; 4] = ["input_text", "output_text", "refusal", "text"];

/// Checks the keys of a message, of its parts with a text, and of its calls. Whatever is no object
/// is left to the parser of messages.
pub(super) fn check_message(message: &Value, path: &str) -> Result<(), ApiError> {
    let Some(map) = message.as_object() else { return Ok(()) };
    check_keys(path, map, MESSAGE, &[extras::MESSAGE])?;
    for (i, part) in map.get("content").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        let is_text = |kind: &Value| kind.as_str().is_none_or(|kind| TEXTS.contains(&kind));
        if let Some(part) = part.as_object().filter(|part| part.get("type").is_none_or(is_text)) {
            check_keys(&format!("{path}.content[{i}]"), part, PART, &[extras::PART])?;
        }
    }
    let calls = map.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
    for (i, call) in calls.enumerate() {
        let Some(call) = call.as_object() else { continue };
        let path = format!("{path}.tool_calls[{i}]");
        check_keys(&path, call, CALL, &[CALL_EXTRAS])?;
        if let Some(function) = call.get("function").and_then(Value::as_object) {
            check_keys(&format!("{path}.function"), function, FUNCTION, &[CALL_EXTRAS])?;
        }
    }
    Ok(())
}
