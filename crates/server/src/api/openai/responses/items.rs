//! The items of a conversation: from the body and the store, and as messages.

use pelton::chat::{Message, ToolCall, is_image, text_part};
use serde_json::{Map, Value, json};

use crate::{
    error::ApiError,
    generate,
    input::{Fields, cost_max, extras},
    store::{Item, Store},
};

/// The items of a conversation.
pub(super) struct Items {
    pub(super) all: Vec<Value>,
    /// Those at the beginning that are not of the body.
    stored: usize,
    /// The memory of the values that are not of the body, in bytes.
    pub(super) cost: usize,
}

/// The memory that stored items may take in a request, of which so much is taken: that of a body.
struct Room(usize);

impl Room {
    /// Parses a stored item, which the field at `path` names.
    fn take(&mut self, item: &Item, path: &str) -> Result<Value, ApiError> {
        let most = cost_max(0);
        self.0 = self.0.saturating_add(item.cost());
        if self.0 > most {
            let message = format!(
                "{path} names stored items that take more than {most} bytes in all, expected a shorter \
                 conversation"
            );
            return Err(ApiError::field(path, message));
        }
        Ok(item.value())
    }
}

/// Takes the items of a conversation: those of an earlier response, and the input, whose references
/// are replaced by the items that they name.
pub(super) fn take(
    fields: &mut Fields,
    previous: Option<&str>,
    store: &Store,
    key: Option<usize>,
) -> Result<Items, ApiError> {
    const EXPECTED: &str = "a string or a list of items";
    const PREVIOUS: &str = "previous_response_id";
    let (mut all, mut room) = (Vec::new(), Room(0));
    if let Some(id) = previous {
        let stored = store.response(key, id).ok_or_else(|| {
            let message = format!(
                "the response {id:?} is not stored (any more), expected all items in input"
            );
            ApiError::field(PREVIOUS, message).code("previous_response_not_found")
        })?;
        for item in &stored {
            all.push(room.take(item, PREVIOUS)?);
        }
    }
    let stored = all.len();
    match fields.take("input") {
        None => return Err(fields.missing("input", EXPECTED)),
        Some(Value::String(text)) => all.push(json!({"role": "user", "content": text})),
        Some(Value::Array(list)) if !list.is_empty() => {
            for (i, item) in list.into_iter().enumerate() {
                all.push(resolve(item, i, store, key, &mut room)?);
            }
        }
        Some(other) => return Err(fields.wrong("input", &other, EXPECTED)),
    }
    Ok(Items { all, stored, cost: room.0 })
}

/// The item that a reference names; other items as they are.
fn resolve(
    item: Value,
    i: usize,
    store: &Store,
    key: Option<usize>,
    room: &mut Room,
) -> Result<Value, ApiError> {
    let path = format!("input[{i}].id");
    let id = item.get("id").and_then(Value::as_str);
    match (item.get("type").and_then(Value::as_str), id) {
        (Some("item_reference"), Some(id)) => match store.item(key, id) {
            Some(stored) => room.take(&stored, &path),
            None => {
                let message = format!(
                    "the item {id:?} is not stored (any more), expected the item itself in input"
                );
                Err(ApiError::field(path, message))
            }
        },
        (Some("item_reference"), None) => {
            let message = format!("{path} is missing, expected the id of an item");
            Err(ApiError::field(path, message))
        }
        // a reference may have an id alone
        (None, Some(id)) if item.get("role").is_none() => match store.item(key, id) {
            Some(stored) => room.take(&stored, &path),
            None => Ok(item),
        },
        _ => Ok(item),
    }
}

/// Adds items to messages. Reasoning belongs to the turn of the assistant in which it comes: to the
/// message or the call after it.
pub(super) fn read(items: &Items, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let mut reasoning = Vec::new();
    for (number, value) in items.all.iter().enumerate() {
        let i = number.saturating_sub(items.stored);
        let mut item = Fields::of(format!("input[{i}]"), value.clone())?;
        let kind = item.string("type")?.unwrap_or_else(|| "message".to_owned());
        match kind.as_str() {
            "message" => {
                let path = format!("input[{i}]");
                let mut map = item.rest();
                for name in ["id", "status", "phase"] {
                    map.remove(name);
                }
                let is_newest = number + 1 == items.all.len();
                let mut message = generate::message(Value::Object(map), &path, is_newest)?;
                match message.role == "assistant" {
                    true => think(&mut message, &mut reasoning),
                    // the turn of the assistant has ended without a message
                    false => reasoning.clear(),
                }
                messages.push(message);
            }
            "reasoning" => reasoning.extend(thought(&mut item)?),
            "function_call" => {
                let arguments = item.string("arguments")?.unwrap_or_default();
                call(&mut item, None, arguments.into(), &mut reasoning, messages)?;
                item.finish(&[extras::ITEM])?;
            }
            "custom_tool_call" => {
                let input = item.string("input")?.unwrap_or_default();
                call(&mut item, None, json!({"input": input}), &mut reasoning, messages)?;
            }
            // calls of tools of the provider, such as a shell, from a conversation with another
            // model
            kind if kind.ends_with("_call") && item.has("call_id") => {
                let name = kind.trim_end_matches("_call");
                let action = item.take("action").unwrap_or_else(|| json!({}));
                call(&mut item, Some(name), action, &mut reasoning, messages)?;
            }
            kind if kind.ends_with("_output") => result(&mut item, messages)?,
            kind if kind.ends_with("_call") => {
                let mut message = Message::new("assistant", generate::placeholder(kind));
                think(&mut message, &mut reasoning);
                messages.push(message);
            }
            other => {
                let message = format!(
                    "input[{i}].type is {other:?}, expected message, reasoning, a call, the output \
                     of one or item_reference"
                );
                return Err(ApiError::field(format!("input[{i}].type"), message));
            }
        }
    }
    Ok(())
}

/// Adds a call to the answer that it belongs to.
fn call(
    item: &mut Fields,
    name: Option<&str>,
    arguments: Value,
    reasoning: &mut Vec<String>,
    messages: &mut Vec<Message>,
) -> Result<(), ApiError> {
    let id = item.string("call_id")?;
    let id = id.ok_or_else(|| item.missing("call_id", "the id of the call"))?;
    let name = match name {
        Some(name) => name.to_owned(),
        None => {
            let name = item.string("name")?;
            name.ok_or_else(|| item.missing("name", "the name of the tool"))?
        }
    };
    let call = ToolCall::new(id, name, arguments);
    // the calls of one answer belong to one message
    if messages.last().is_none_or(|last| last.role != "assistant") {
        messages.push(Message::new("assistant", ""));
    }
    if let Some(last) = messages.last_mut() {
        think(last, reasoning);
        last.tool_calls.push(call);
    }
    Ok(())
}

/// Adds reasoning to the message of its turn.
fn think(message: &mut Message, reasoning: &mut Vec<String>) {
    if reasoning.is_empty() {
        return;
    }
    let own = message.reasoning_content.take();
    let all: Vec<String> = own.into_iter().chain(reasoning.drain(..)).collect();
    message.reasoning_content = Some(all.join("\n"));
}

/// The text of a reasoning item: its content, or else its summary. One that is encrypted has none.
fn thought(item: &mut Fields) -> Result<Option<String>, ApiError> {
    for name in ["content", "summary"] {
        let texts: Vec<String> = match item.take(name) {
            None => Vec::new(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(parts)) => {
                let text = |part: &Value| part["text"].as_str().map(str::to_owned);
                parts.iter().filter_map(text).collect()
            }
            Some(other) => return Err(item.wrong(name, &other, "a string or a list of parts")),
        };
        let text = texts.join("\n");
        if !text.is_empty() {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Adds the output of a call.
fn result(item: &mut Fields, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let id = item.string("call_id")?;
    let id = id.ok_or_else(|| item.missing("call_id", "the id of a call"))?;
    let output = parts(item, "output")?;
    let mut calls = messages.iter().rev().flat_map(|message| &message.tool_calls);
    let name = calls.find(|call| call.id() == Some(&id)).map_or("", ToolCall::name).to_owned();
    let mut message = Message::tool_result(id, name, "");
    message.content = Some(generate::content(output));
    messages.push(message);
    Ok(())
}

/// The parts of a string, or of a list: texts and pictures, with placeholders for others.
fn parts(item: &mut Fields, name: &'static str) -> Result<Vec<Map<String, Value>>, ApiError> {
    let list = match item.take(name) {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => return Ok(vec![text_part(&text)]),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(item.wrong(name, &other, "a string or a list of parts")),
    };
    let path = item.at(name);
    let one = |(i, part): (usize, Value)| {
        let path = format!("{path}[{i}]");
        match part {
            Value::Object(part) if is_image(&part) => generate::image(part, &path),
            part => match part.get("text").and_then(Value::as_str) {
                Some(text) => Ok(text_part(text)),
                None => {
                    let kind = part["type"].as_str().unwrap_or("part");
                    Ok(text_part(&generate::left_out(&path, kind)?))
                }
            },
        }
    };
    list.into_iter().enumerate().map(one).collect()
}
