//! From the body of a request to a chat.

use pelton::chat::{Chat, Message, ToolCall, ToolChoice, text_part};
use serde_json::{Map, Value, json};

use crate::{
    error::ApiError,
    generate::{self, ChatRequest, Options},
    input::{Fields, extras, kind, metadata},
};

/// The beginning of a system block that some clients send with a new nonce each time. It would keep
/// every prompt from being found in the cache.
const NONCE: &str = "x-anthropic-billing-header";

/// Takes a chat out of a body. Without `max_tokens` it is for a count of tokens.
pub(super) fn take(fields: &mut Fields) -> Result<ChatRequest, ApiError> {
    let mut messages = Vec::new();
    let system = system(fields)?;
    if !system.is_empty() {
        messages.push(Message::new("system", system));
    }
    let list = fields.list("messages")?;
    let list = list.ok_or_else(|| fields.missing("messages", "a list of messages"))?;
    if list.is_empty() {
        return Err(fields.wrong("messages", &Value::Array(list), "at least one message"));
    }
    let count = list.len();
    for (i, value) in list.into_iter().enumerate() {
        let path = format!("messages[{i}]");
        message(Fields::of(path, value)?, i + 1 == count, &mut messages)?;
    }
    let mut chat = Chat::new(merged(messages));
    if chat
        .messages
        .last()
        .is_some_and(|last| last.role == "assistant" && last.tool_calls.is_empty())
    {
        (chat.continue_final_message, chat.add_generation_prompt) = (true, false);
    }
    chat.enable_thinking = generate::thinking(fields)?;
    metadata(fields)?;
    fields.string("service_tier")?;
    let mut options = Options::take(fields)?;
    options.take_stop(fields, "stop_sequences")?;
    if let Some(mut output) = fields.object("output_config")? {
        let efforts = ["low", "medium", "high", "xhigh", "max"];
        chat.reasoning_effort = output.choice("effort", &efforts)?.map(str::to_owned);
        if let Some(mut format) = output.object("format")? {
            options.output = generate::response_format(&mut format)?;
        }
        output.finish(&[&["task_budget"]])?;
    }
    // the name before output_config
    if let Some(mut format) = fields.object("output_format")? {
        options.output = generate::response_format(&mut format)?;
    }
    let mut request = ChatRequest::new(chat, options);
    for mut tool in fields.objects("tools")? {
        // tools of the provider, such as a web search, are not ours
        if tool.string("type")?.is_some_and(|kind| kind != "custom") {
            continue;
        }
        let name = tool.string("name")?;
        let name = name.ok_or_else(|| tool.missing("name", "the name of the tool"))?;
        let description = tool.string("description")?;
        let schema = tool.object("input_schema")?.map(|schema| Value::Object(schema.rest()));
        tool.finish(&[extras::TOOL])?;
        let mut function = json!({"name": name});
        if let Some(description) = description {
            function["description"] = description.into();
        }
        function["parameters"] = schema.unwrap_or_else(|| json!({"type": "object"}));
        request.chat.tools.push(json!({"type": "function", "function": function}));
    }
    if let Some(mut choice) = fields.object("tool_choice")? {
        let word = choice.choice("type", &["auto", "any", "tool", "none"])?;
        let choose = match word.ok_or_else(|| choice.missing("type", "auto, any, tool or none"))? {
            "any" => ToolChoice::Required,
            "none" => ToolChoice::None,
            "tool" => {
                let name = choice.string("name")?;
                ToolChoice::Named(name.ok_or_else(|| choice.missing("name", "the name of a tool"))?)
            }
            _ => ToolChoice::Auto,
        };
        request.parallel = !choice.boolean("disable_parallel_tool_use")?.unwrap_or(false);
        choice.finish(&[])?;
        request.set_choice(choose, "tool_choice")?;
    }
    fields.finish(&[extras::ANY, extras::TEXT, extras::ANTHROPIC])?;
    Ok(request)
}

/// The system prompt: a string, or the texts of a list of blocks.
fn system(fields: &mut Fields) -> Result<String, ApiError> {
    match fields.take("system") {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(Value::Array(blocks)) => {
            let texts = texts(blocks, "system")?;
            let texts: Vec<_> = texts.into_iter().filter(|text| !text.starts_with(NONCE)).collect();
            Ok(texts.join("\n"))
        }
        Some(other) => Err(fields.wrong("system", &other, "a string or a list of text blocks")),
    }
}

/// The texts of blocks, with placeholders for those without one.
fn texts(blocks: Vec<Value>, path: &str) -> Result<Vec<String>, ApiError> {
    let one = |(i, block)| {
        let mut block = Fields::of(format!("{path}[{i}]"), block)?;
        let kind = block.string("type")?.unwrap_or_else(|| "text".to_owned());
        text(block, &kind, false)
    };
    blocks.into_iter().enumerate().map(one).collect()
}

/// The text of a block that is no message of its own. One without a text becomes a placeholder, or
/// is refused.
fn text(mut block: Fields, kind: &str, refuses: bool) -> Result<String, ApiError> {
    match kind {
        "text" => {
            let text = block.string("text")?.ok_or_else(|| block.missing("text", "a string"))?;
            block.finish(&[extras::BLOCK])?;
            Ok(text)
        }
        "document" => document(block, refuses),
        "search_result" => {
            let title = block.string("title")?.unwrap_or_default();
            let path = block.at("content");
            let blocks = block.list("content")?.unwrap_or_default();
            Ok(format!("{title}\n{}", texts(blocks, &path)?.join("\n")))
        }
        _ => {
            let path = block.at("");
            let path = path.trim_end_matches('.');
            match refuses {
                true => Err(generate::no_text(path, kind)),
                false => generate::left_out(path, kind),
            }
        }
    }
}

/// The text of a document, after its title.
fn document(mut block: Fields, refuses: bool) -> Result<String, ApiError> {
    let title = block.string("title")?;
    let mut source = block.object("source")?.ok_or_else(|| block.missing("source", "an object"))?;
    let kind = source.string("type")?.unwrap_or_default();
    let path = source.at("content");
    let text = match (kind.as_str(), source.take("content")) {
        ("text", _) => source.string("data")?.ok_or_else(|| source.missing("data", "a string"))?,
        ("content", Some(Value::String(text))) => text,
        ("content", Some(Value::Array(blocks))) => texts(blocks, &path)?.join("\n"),
        _ if refuses => return Err(generate::no_text(&block.at("source"), &kind)),
        _ => generate::placeholder("document"),
    };
    Ok(title.map_or_else(String::new, |title| format!("{title}\n")) + &text)
}

/// Messages, of which no two of a user or of an assistant follow each other.
fn merged(messages: Vec<Message>) -> Vec<Message> {
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    for next in messages {
        let joins = ["user", "assistant"].contains(&next.role.as_str());
        let Some(last) = all.last_mut().filter(|last| joins && last.role == next.role) else {
            all.push(next);
            continue;
        };
        let mut parts = generate::parts(last.content.take());
        parts.extend(generate::parts(next.content));
        last.content = Some(generate::content(parts));
        last.reasoning_content = next.reasoning_content.or(last.reasoning_content.take());
        last.tool_calls.extend(next.tool_calls);
    }
    all
}

/// Adds a message: results of tools become messages of their own.
fn message(
    mut fields: Fields,
    is_newest: bool,
    messages: &mut Vec<Message>,
) -> Result<(), ApiError> {
    let role = fields.choice("role", &["user", "assistant", "system"])?;
    let role = role.ok_or_else(|| fields.missing("role", "user or assistant"))?;
    let path = fields.at("content");
    let content = fields.take("content");
    fields.finish(&[extras::MESSAGE])?;
    let blocks = match content.ok_or_else(|| fields.missing("content", "a string or blocks"))? {
        Value::String(text) => {
            messages.push(Message::new(role, text));
            return Ok(());
        }
        Value::Array(blocks) => blocks,
        other => {
            let message = format!("{path} is {}, expected a string or a list", kind(&other));
            return Err(ApiError::field(path, message));
        }
    };
    let mut own = Message::new(role, "");
    let refuses = is_newest && role == "user";
    let (mut said, mut reasoning) = (Vec::new(), String::new());
    for (i, block) in blocks.into_iter().enumerate() {
        let mut block = Fields::of(format!("{path}[{i}]"), block)?;
        let kind = block.string("type")?.ok_or_else(|| block.missing("type", "a kind of block"))?;
        match kind.as_str() {
            "thinking" => reasoning.push_str(&block.string("thinking")?.unwrap_or_default()),
            "redacted_thinking" => {}
            "tool_use" => {
                let id = block.string("id")?.unwrap_or_default();
                let name = block.string("name")?;
                let name = name.ok_or_else(|| block.missing("name", "the name of the tool"))?;
                let input = block.object("input")?.map(|input| Value::Object(input.rest()));
                let input = input.unwrap_or_else(|| json!({}));
                block.finish(&[extras::BLOCK])?;
                own.tool_calls.push(ToolCall::new(id, name, input));
            }
            "tool_result" => messages.push(tool_result(block, messages)?),
            "image" if role == "user" => {
                said.push(generate::image(block.rest(), &format!("{path}[{i}]"))?);
            }
            kind => said.push(text_part(&text(block, kind, refuses)?)),
        }
    }
    if !reasoning.is_empty() {
        own.reasoning_content = Some(reasoning);
    }
    if !said.is_empty() || !own.tool_calls.is_empty() || own.reasoning_content.is_some() {
        own.content = Some(generate::content(said));
        messages.push(own);
    }
    Ok(())
}

/// The result of a tool, with the name of the tool from the call before.
fn tool_result(mut block: Fields, messages: &[Message]) -> Result<Message, ApiError> {
    let id = block.string("tool_use_id")?;
    let id = id.ok_or_else(|| block.missing("tool_use_id", "the id of a call"))?;
    let path = block.at("content");
    let mut parts = match block.take("content") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text_part(&text)],
        Some(Value::Array(blocks)) => result_parts(blocks, &path)?,
        Some(other) => return Err(block.wrong("content", &other, "a string or a list of blocks")),
    };
    let is_error = block.boolean("is_error")?;
    block.finish(&[extras::BLOCK])?;
    if is_error == Some(true) {
        let first = parts.iter().find_map(|part| part.get("text")?.as_str()).unwrap_or_default();
        let first = text_part(&format!("Error: {first}"));
        match parts.iter_mut().find(|part| part["type"] == "text") {
            Some(part) => *part = first,
            None => parts.insert(0, first),
        }
    }
    let mut calls = messages.iter().rev().flat_map(|message| &message.tool_calls);
    let name = calls.find(|call| call.id() == Some(&id)).map_or("", ToolCall::name).to_owned();
    let mut message = Message::tool_result(id, name, "");
    message.content = Some(generate::content(parts));
    Ok(message)
}

/// The parts of a result: texts and pictures.
fn result_parts(blocks: Vec<Value>, path: &str) -> Result<Vec<Map<String, Value>>, ApiError> {
    let one = |(i, block)| {
        let path = format!("{path}[{i}]");
        let mut block = Fields::of(path.clone(), block)?;
        match block.string("type")?.unwrap_or_else(|| "text".to_owned()).as_str() {
            "image" => generate::image(block.rest(), &path),
            kind => Ok(text_part(&text(block, kind, false)?)),
        }
    };
    blocks.into_iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pictures of the user and of results stay where they are.
    #[test]
    fn pictures() {
        let image =
            |data: &str| json!({"type": "image", "source": {"type": "base64", "data": data}});
        let body = json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, image("AAAA"), {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": [image("BBBB")]},
                image("CCCC")]},
            {"role": "user", "content": "Go on."},
        ]});
        let chat = take(&mut Fields::new(body).unwrap()).unwrap().chat;
        let kinds = |message: &Message| -> Vec<String> {
            let parts = generate::parts(message.content.clone());
            parts.iter().map(|part| part["type"].as_str().unwrap().to_owned()).collect()
        };
        let all: Vec<_> = chat.messages.iter().map(|one| (one.role.as_str(), kinds(one))).collect();
        let texts = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            all,
            [
                ("user", texts(&["text", "image_url", "text"])),
                ("assistant", texts(&[])),
                ("tool", texts(&["text", "image_url"])),
                ("user", texts(&["image_url", "text"])),
            ]
        );
        assert_eq!(chat.images().unwrap().len(), 3);
    }
}
