//! From the body of a request to a chat.

use pelton::chat::{Chat, Content, Message, ToolCall};
use serde_json::{Map, Value, json};

use crate::{
    error::ApiError,
    input::Fields,
    run::{self, ChatRequest, Options, response_format},
};

const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A request for a response, and what the response repeats of it.
pub(super) struct Request {
    pub(super) chat: ChatRequest,
    pub(super) echo: Map<String, Value>,
    pub(super) stream: bool,
}

/// Takes a request out of a body.
pub(super) fn take(fields: &mut Fields) -> Result<Request, ApiError> {
    for name in ["previous_response_id", "conversation", "prompt"] {
        if fields.has(name) {
            let message =
                format!("{name} is there, expected all items in input: nothing is stored");
            return Err(ApiError::field(name, message));
        }
    }
    if fields.boolean("background")? == Some(true) {
        return Err(ApiError::field("background", "background is true, expected false"));
    }
    let mut echo = Map::new();
    let mut keep = |name: &str, value: Value| {
        echo.insert(name.to_owned(), value);
    };
    let instructions = fields.string("instructions")?;
    keep("instructions", instructions.clone().into());
    let mut messages: Vec<Message> =
        instructions.into_iter().map(|text| Message::new("system", text)).collect();
    input(fields, &mut messages)?;
    let mut chat = Chat::new(messages);
    let mut options = Options::take(fields)?;
    keep("temperature", shortest(options.sampling.temperature));
    keep("top_p", shortest(options.sampling.top_p));
    options.max_tokens = fields.count("max_output_tokens", 1)?;
    keep("max_output_tokens", options.max_tokens.into());
    let top = fields.integer("top_logprobs", 0..=20)?;
    keep("top_logprobs", top.unwrap_or(0).into());
    let include = fields.strings("include")?;
    if include.iter().any(|one| one == "message.output_text.logprobs") || top.is_some_and(|n| n > 0)
    {
        options.log_probs = u8::try_from(top.unwrap_or(0)).ok();
    }
    let mut effort = None;
    if let Some(mut reasoning) = fields.object("reasoning")? {
        effort = reasoning.choice("effort", &EFFORTS)?;
        reasoning.choice("summary", &["auto", "concise", "detailed"])?;
        reasoning.choice("generate_summary", &["auto", "concise", "detailed"])?;
    }
    match effort {
        None => {}
        Some("none") => chat.enable_thinking = Some(false),
        Some(effort) => chat.reasoning_effort = Some(effort.to_owned()),
    }
    keep("reasoning", json!({"effort": effort, "summary": null}));
    let mut format = json!({"type": "text"});
    if let Some(mut text) = fields.object("text")? {
        if let Some(mut given) = text.object("format")? {
            format = Value::Object(given.clone().rest());
            options.output = response_format(&mut given)?;
        }
        text.choice("verbosity", &["low", "medium", "high"])?;
    }
    keep("text", json!({"format": format}));
    // nothing is cut without a word, whatever is asked for
    fields.choice("truncation", &["auto", "disabled"])?;
    keep("truncation", "disabled".into());
    let metadata = fields.object("metadata")?;
    keep("metadata", Value::Object(metadata.unwrap_or_default().rest()));
    for name in ["user", "safety_identifier", "prompt_cache_key", "service_tier"] {
        keep(name, fields.string(name)?.into());
    }
    fields.boolean("store")?;
    keep("store", false.into());
    fields.object("stream_options")?;
    fields.count("max_tool_calls", 0)?;
    let mut request = ChatRequest::new(chat, options);
    tools(fields, &mut request, &mut keep)?;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    Ok(Request { chat: request, echo, stream })
}

/// A number as it was given: the shortest that is the same f32.
fn shortest(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// Takes the tools, whose functions have no object of their own here.
fn tools(
    fields: &mut Fields,
    request: &mut ChatRequest,
    keep: &mut impl FnMut(&str, Value),
) -> Result<(), ApiError> {
    let tools = fields.list("tools")?.unwrap_or_default();
    keep("tools", tools.clone().into());
    let mut rewritten = Vec::new();
    for (i, tool) in tools.into_iter().enumerate() {
        let mut one = Fields::of(format!("tools[{i}]"), tool)?;
        // tools of the provider, such as a web search, are not ours
        if one.string("type")?.as_deref() != Some("function") {
            continue;
        }
        rewritten.push(json!({"type": "function", "function": one.rest()}));
    }
    let choice = fields.take("tool_choice");
    keep("tool_choice", choice.clone().unwrap_or_else(|| "auto".into()));
    let parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    keep("parallel_tool_calls", parallel.into());
    let mut again = Fields::new(json!({
        "tools": rewritten, "tool_choice": choice, "parallel_tool_calls": parallel,
    }))?;
    request.take_tools(&mut again)
}

/// Takes the input: a text, or items.
fn input(fields: &mut Fields, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    const EXPECTED: &str = "a string or a list of items";
    let items = match fields.take("input") {
        None => return Err(fields.missing("input", EXPECTED)),
        Some(Value::String(text)) => {
            messages.push(Message::new("user", text));
            return Ok(());
        }
        Some(Value::Array(items)) if !items.is_empty() => items,
        Some(other) => return Err(fields.wrong("input", &other, EXPECTED)),
    };
    let mut reasoning = None;
    for (i, value) in items.into_iter().enumerate() {
        let mut item = Fields::of(format!("input[{i}]"), value.clone())?;
        let kind = item.string("type")?.unwrap_or_else(|| "message".to_owned());
        match kind.as_str() {
            "message" => {
                let path = item.at("");
                let path = path.trim_end_matches('.');
                let mut map = item.clone().rest();
                for name in ["id", "status", "phase"] {
                    map.remove(name);
                }
                let mut list = run::messages(vec![Value::Object(map)], path)?;
                if let Some(mut message) = list.pop() {
                    if message.role == "assistant" {
                        message.reasoning_content = reasoning.take();
                    }
                    messages.push(message);
                }
            }
            "reasoning" => {
                let text = texts(&mut item, "content")?;
                reasoning = Some(text).filter(|text| !text.is_empty());
            }
            "function_call" => {
                let id = item.string("call_id")?;
                let id = id.ok_or_else(|| item.missing("call_id", "the id of the call"))?;
                let name = item.string("name")?;
                let name = name.ok_or_else(|| item.missing("name", "the name of the tool"))?;
                let arguments = item.string("arguments")?.unwrap_or_default();
                let call = ToolCall::new(id, name, arguments.into());
                // the calls of one answer belong to one message
                match messages.last_mut().filter(|last| last.role == "assistant") {
                    Some(last) => last.tool_calls.push(call),
                    None => {
                        let mut message = Message::new("assistant", "");
                        message.reasoning_content = reasoning.take();
                        message.tool_calls.push(call);
                        messages.push(message);
                    }
                }
            }
            "function_call_output" => {
                let id = item.string("call_id")?;
                let id = id.ok_or_else(|| item.missing("call_id", "the id of a call"))?;
                let output = texts(&mut item, "output")?;
                let mut calls = messages.iter().rev().flat_map(|message| &message.tool_calls);
                let name = calls.find(|call| call.id() == Some(&id)).map_or("", ToolCall::name);
                let name = name.to_owned();
                messages.push(Message::tool_result(id, name, output));
            }
            // items of tools of the provider
            _ => {}
        }
    }
    Ok(())
}

/// A string, or the texts of a list of parts.
fn texts(item: &mut Fields, name: &str) -> Result<String, ApiError> {
    match item.take(name) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
            let all: Vec<_> = parts.iter().filter_map(text).collect();
            Ok(Content::Text(all.join("\n")).text().unwrap_or_default())
        }
        Some(other) => Err(item.wrong(name, &other, "a string or a list of parts")),
    }
}
