//! Messages as the variables of a template.

use serde_json::{Map, Value};

use super::probe::Capabilities;
use super::{Chat, marks, pictures};
use crate::format::{Body, Format};
use crate::{Content, Error, Message};

/// The JSON of the messages of a chat, as they are or adapted to a template. Arguments of a tool
/// call that are no object stay a text.
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
    if let Some(content) = self::content(message, role, to) {
        json.insert("content".into(), content);
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

/// The content of a message. In an adapted one none is an empty one, for templates that join it to
/// other texts.
fn content(message: &Message, role: &str, to: Option<Capabilities>) -> Option<Value> {
    let own = message.content.as_ref();
    let given = || match own {
        None => None,
        Some(Content::Text(text)) => Some(Value::from(text.as_str())),
        Some(Content::Parts(parts)) => Some(pictures::contents(parts)),
    };
    // the template's own parts, or marks later
    if message.images().next().is_some() {
        return given();
    }
    let Some(to) = to else { return given() };
    let form = to.form(role);
    let text = match own {
        None => Some(String::new()),
        Some(content) => content.text(),
    };
    // A part that is no text is for a template that takes parts.
    let Some(text) = text else { return given() };
    if to.null_content && text.is_empty() && !message.tool_calls.is_empty() {
        return Some(Value::Null);
    }
    let is_list = matches!(own, Some(Content::Parts(parts)) if !parts.is_empty());
    Some(match (form.text, form.parts) {
        (_, true) if is_list => return given(),
        (false, true) => serde_json::json!([{"type": "text", "text": text}]),
        _ => text.into(),
    })
}

fn is_system(message: &Value) -> bool {
    message["role"] == "system" || message["role"] == "developer"
}

/// Joins system messages that a template does not take: those at the beginning if it takes one, all
/// if it takes none later. `None` if nothing changes.
pub(super) fn join_refused_systems(messages: &[Value], to: Capabilities) -> Option<Vec<Value>> {
    let first = messages.iter().take_while(|message| is_system(message)).count();
    let has_later = messages[first..].iter().any(is_system);
    match (has_later && !to.later_systems, first > 1 && !to.several_systems) {
        (true, _) => join_systems(messages),
        (false, true) => join(&messages[..first], &messages[first..]),
        (false, false) => None,
    }
}

/// Joins all system messages to one, which is the first message. `None` if they are that already.
pub(super) fn join_systems(messages: &[Value]) -> Option<Vec<Value>> {
    let (system, rest): (Vec<&Value>, Vec<&Value>) =
        messages.iter().partition(|message| is_system(message));
    let is_first = messages.first().is_some_and(is_system);
    if system.is_empty() || system.len() == 1 && is_first {
        return None;
    }
    let owned = |list: Vec<&Value>| list.into_iter().cloned().collect::<Vec<_>>();
    join(&owned(system), &owned(rest))
}

/// One message of several, and the rest.
fn join(several: &[Value], rest: &[Value]) -> Option<Vec<Value>> {
    let (first, others) = several.split_first()?;
    let mut one = first.clone();
    for other in others {
        one["content"] = join_contents(&one["content"], &other["content"]);
    }
    Some(std::iter::once(one).chain(rest.iter().cloned()).collect())
}

/// Two contents as one: texts with an empty line between them.
fn join_contents(first: &Value, second: &Value) -> Value {
    let parts = |content: &Value| match content {
        Value::Array(parts) => parts.clone(),
        Value::String(text) => vec![serde_json::json!({"type": "text", "text": text})],
        _ => Vec::new(),
    };
    match (first, second) {
        (Value::String(first), Value::String(second)) => {
            let texts = [first.as_str(), second.as_str()];
            let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            texts.join("\n\n").into()
        }
        _ => parts(first).into_iter().chain(parts(second)).collect(),
    }
}

/// Gives each call an identifier of nine digits, the form that templates of Mistral demand. `None`
/// if there are no calls.
pub(super) fn number_calls(messages: &[Value]) -> Option<Vec<Value>> {
    identify_calls(messages, &|_, count| format!("{count:09}"))
}

/// Gives each call the identifier that a model writes, of its name and number, where its format has
/// such ones. `None` if there are no calls, or identifiers are of no form.
pub(super) fn name_calls(messages: &[Value], format: &Format) -> Option<Vec<Value>> {
    let body = format.calls?.body;
    let Body::Named { prefix, id: Some(mark), is_numbered: true, .. } = body else { return None };
    identify_calls(messages, &|name, count| format!("{prefix}{name}{mark}{count}"))
}

/// Gives each call an identifier of its name and number, and the results those of their calls: by
/// the identifiers that they had, or else in their order. `None` if there are no calls.
fn identify_calls(
    messages: &[Value],
    identifier: &dyn Fn(&str, usize) -> String,
) -> Option<Vec<Value>> {
    let mut messages = messages.to_vec();
    let mut count = 0_usize;
    // the calls that have no result: what they were named, and are
    let mut open: Vec<(Value, String)> = Vec::new();
    for message in &mut messages {
        for call in
            message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten()
        {
            let name = call["function"]["name"].as_str().unwrap_or_default();
            let id = identifier(name, count);
            count += 1;
            open.push((call["id"].take(), id.clone()));
            call["id"] = id.into();
        }
        if message["role"] == "tool" && !open.is_empty() {
            let own = &message["tool_call_id"];
            let at = open.iter().position(|(id, _)| !own.is_null() && id == own);
            message["tool_call_id"] = open.remove(at.unwrap_or(0)).1.into();
        }
    }
    (count > 0).then_some(messages)
}

/// Joins messages of the user, or of the assistant, that follow each other. `None` if there are
/// none.
pub(super) fn join_turns(messages: &[Value]) -> Option<Vec<Value>> {
    let mut joined: Vec<Value> = Vec::with_capacity(messages.len());
    for message in messages {
        let is_turn = message["role"] == "user" || message["role"] == "assistant";
        let last = joined.last_mut().filter(|last| {
            is_turn && last["role"] == message["role"] && last.get("tool_calls").is_none()
        });
        let Some(last) = last else {
            joined.push(message.clone());
            continue;
        };
        let content = join_contents(&last["content"], &message["content"]);
        let mut next = message.clone();
        for key in ["reasoning_content", "thinking"] {
            if next.get(key).is_none()
                && let Some(reasoning) = last.get(key)
            {
                next[key] = reasoning.clone();
            }
        }
        next["content"] = content;
        *last = next;
    }
    (joined.len() < messages.len()).then_some(joined)
}

/// Moves the contents of system messages to the beginning of the first user message. `None` if
/// there is no system message, or no user message.
pub(super) fn merge_system(messages: &[Value]) -> Option<Vec<Value>> {
    let (system, mut rest): (Vec<&Value>, Vec<Value>) = (
        messages.iter().filter(|message| is_system(message)).collect(),
        messages.iter().filter(|message| !is_system(message)).cloned().collect(),
    );
    let mut contents = system.into_iter().map(|message| message["content"].clone());
    let first = contents.next()?;
    let texts = contents.fold(first, |all, next| join_contents(&all, &next));
    let user = rest.iter_mut().find(|message| message["role"] == "user")?;
    user["content"] = match (&texts, &user["content"]) {
        (Value::String(texts), own) if texts.is_empty() => own.clone(),
        (Value::String(texts), Value::String(own)) => format!("{texts}\n{own}").into(),
        (texts, own) => join_contents(texts, own),
    };
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
