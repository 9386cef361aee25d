//! Messages as the variables of a template.

use serde_json::{Map, Value};

use super::probe::Capabilities;
use super::{Chat, marks};
use crate::{Content, Error, Message};

/// The JSON of the messages of a chat, as they are or adapted to a template. Arguments of a tool call
/// that are no object stay a text.
pub(super) fn messages(chat: &Chat, to: Option<Capabilities>) -> Vec<Value> {
    chat.messages.iter().map(|message| Value::Object(json(message, to))).collect()
}

fn json(message: &Message, to: Option<Capabilities>) -> Map<String, Value> {
    let mut json = Map::new();
    let role = match (message.role.as_str(), to) {
        ("developer", Some(to)) if !to.developer => "system",
        (role, _) => role,
    };
    json.insert("role".into(), role.into());
    if let Some(content) = &message.content {
        json.insert("content".into(), self::content(content, to));
    }
    if let Some(reasoning) = &message.reasoning_content {
        // gpt-oss reads `thinking`, others read `reasoning_content`.
        json.insert("thinking".into(), reasoning.as_str().into());
        json.insert("reasoning_content".into(), reasoning.as_str().into());
    }
    if !message.tool_calls.is_empty() {
        let call = |call: &crate::ToolCall| match to {
            None => call.json(),
            Some(to) => call.json_with(match call.arguments_or_text() {
                Value::Object(arguments) if to.string_arguments => {
                    Value::Object(arguments).to_string().into()
                }
                arguments => arguments,
            }),
        };
        let calls: Vec<Value> = message.tool_calls.iter().map(call).collect();
        json.insert("tool_calls".into(), calls.into());
    }
    for (key, value) in [("tool_call_id", &message.tool_call_id), ("name", &message.name)] {
        if let Some(value) = value {
            json.insert(key.into(), value.as_str().into());
        }
    }
    for (key, value) in &message.extra {
        json.entry(key.clone()).or_insert_with(|| value.clone());
    }
    json
}

/// Puts arguments of calls that are a text into an object, for a template that reads only objects;
/// `None` if there are none.
pub(super) fn wrap_arguments(messages: &[Value]) -> Option<Vec<Value>> {
    let mut messages = messages.to_vec();
    let calls = messages.iter_mut().filter_map(|message| message.get_mut("tool_calls"));
    let calls = calls.filter_map(Value::as_array_mut).flatten();
    let mut found = false;
    for arguments in calls.filter_map(|call| call.pointer_mut("/function/arguments")) {
        if arguments.is_string() {
            *arguments = serde_json::json!({"arguments": arguments.take()});
            found = true;
        }
    }
    found.then_some(messages)
}

fn content(content: &Content, to: Option<Capabilities>) -> Value {
    match (content, to) {
        (Content::Parts(_), Some(to)) if !to.part_content => {
            if let Some(text) = content.text() {
                return text.into();
            }
        }
        (Content::Text(text), Some(to)) if !to.text_content && to.part_content => {
            return serde_json::json!([{"type": "text", "text": text}]);
        }
        _ => {}
    }
    match content {
        Content::Text(text) => text.as_str().into(),
        Content::Parts(parts) => parts.iter().cloned().map(Value::Object).collect(),
    }
}

/// Moves the texts of system messages to the beginning of the first user message. `None` if there
/// is no system message with a text, or no user message with one.
pub(super) fn merge_system(messages: &[Value]) -> Option<Vec<Value>> {
    let is = |message: &Value, role: &str| message["role"] == role;
    let (system, mut rest): (Vec<&Value>, Vec<Value>) =
        (messages.iter().filter(|m| is(m, "system")).collect(), {
            messages.iter().filter(|m| !is(m, "system")).cloned().collect()
        });
    let texts: Option<Vec<&str>> = system.iter().map(|m| m["content"].as_str()).collect();
    let texts = texts.filter(|texts| !texts.is_empty())?.join("\n\n");
    let user = rest.iter_mut().find(|message| is(message, "user"))?;
    let content = format!("{texts}\n{}", user["content"].as_str()?);
    user["content"] = content.into();
    Some(rest)
}

/// A message with `change` applied to its texts: not to the keys of the message and its role.
pub(super) fn change_message(message: &Value, change: &dyn Fn(&str) -> String) -> Value {
    let Value::Object(message) = message else { return message.clone() };
    let change = |(key, value): (&String, &Value)| match key.as_str() {
        "role" => (key.clone(), value.clone()),
        _ => (key.clone(), marks::change_strings(value, change)),
    };
    message.iter().map(change).collect::<Map<_, _>>().into()
}

/// Appends a mark to the text of the last message.
///
/// # Errors
/// If it has none.
pub(super) fn mark_end(messages: &mut [Value], mark: char) -> Result<(), Error> {
    let no_text = || {
        Error::Invalid("continue_final_message is set, but the last message has no text".to_owned())
    };
    let last = messages.last_mut().ok_or_else(no_text)?;
    let field = match last.get_mut("content") {
        Some(Value::Array(parts)) => {
            parts.iter_mut().rev().find_map(|part| part.get_mut("text")).ok_or_else(no_text)?
        }
        Some(content) => content,
        None => return Err(no_text()),
    };
    let text = field.as_str().ok_or_else(no_text)?;
    *field = Value::String(format!("{text}{mark}"));
    Ok(())
}
