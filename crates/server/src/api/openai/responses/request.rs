//! From the body of a request to a chat.

use pelton::chat::{Chat, Message};
use serde_json::{Map, Value, json};

use super::items;
use crate::{
    error::ApiError,
    generate::{self, ChatRequest, Options, decimal, response_format},
    input::{Fields, cost_of, extras, metadata},
    store::{Item, Store},
};

/// Copies of the echo at the same time: in the response, and in two events of it.
const ECHOES: usize = 3;

/// A request for a response, and what the response repeats of it.
pub(super) struct Request {
    pub(super) chat: ChatRequest,
    pub(super) echo: Map<String, Value>,
    pub(super) stream: bool,
    /// All items of the conversation, for the store; `None` if it is not to be stored.
    pub(super) items: Option<Vec<Item>>,
    /// The memory of values beside those of the body, in bytes: stored items, and copies of the
    /// echo in the response and in its events.
    pub(super) memory: usize,
}

/// Takes a request out of a body. `key` is whose stored responses it may name.
pub(super) fn take(
    fields: &mut Fields,
    store: &Store,
    key: Option<usize>,
) -> Result<Request, ApiError> {
    for name in ["conversation", "prompt"] {
        if fields.has(name) {
            let message = format!("{name} is there, expected all items in input: it is not stored");
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
    let previous = fields.string("previous_response_id")?;
    keep("previous_response_id", previous.clone().into());
    let items = items::take(fields, previous.as_deref(), store, key)?;
    items::read(&items, &mut messages)?;
    let mut chat = Chat::new(messages);
    let mut options = Options::take(fields)?;
    keep("temperature", decimal(options.sampling.temperature));
    keep("top_p", decimal(options.sampling.top_p));
    options.max_tokens = fields.count("max_output_tokens", 1)?;
    keep("max_output_tokens", options.max_tokens.into());
    let top = fields.integer("top_logprobs", 0..=20)?;
    keep("top_logprobs", top.unwrap_or(0).into());
    let include = fields.strings("include")?;
    if include.iter().any(|one| one == "message.output_text.logprobs") || top.is_some_and(|n| n > 0)
    {
        options.log_probs = usize::try_from(top.unwrap_or(0)).ok();
    }
    let mut effort = None;
    if let Some(mut reasoning) = fields.object("reasoning")? {
        effort = reasoning.choice("effort", &generate::EFFORTS)?;
        for name in ["summary", "generate_summary"] {
            reasoning.choice(name, &["auto", "concise", "detailed", "none"])?;
        }
        reasoning.finish(&[extras::REASONING])?;
    }
    if let Some(effort) = effort {
        generate::set_effort(&mut chat, effort);
    }
    keep("reasoning", json!({"effort": effort, "summary": null}));
    let mut format = json!({"type": "text"});
    if let Some(mut text) = fields.object("text")? {
        if let Some(mut given) = text.object("format")? {
            format = Value::Object(given.clone().rest());
            options.output = response_format(&mut given)?;
        }
        text.choice("verbosity", &["low", "medium", "high"])?;
        text.finish(&[])?;
    }
    keep("text", json!({"format": format}));
    // nothing is cut without a word, whatever is asked for
    fields.choice("truncation", &["auto", "disabled"])?;
    keep("truncation", "disabled".into());
    keep("metadata", Value::Object(metadata(fields)?));
    for name in ["user", "safety_identifier", "prompt_cache_key", "service_tier"] {
        keep(name, fields.string(name)?.into());
    }
    let stores = fields.boolean("store")?.unwrap_or(true);
    keep("store", stores.into());
    if let Some(options) = fields.object("stream_options")? {
        options.finish(&[extras::STREAM_OPTIONS])?;
    }
    fields.count("max_tool_calls", 0)?;
    let mut request = ChatRequest::new(chat, options);
    tools(fields, &mut request, &mut keep)?;
    let stream = fields.boolean("stream")?.unwrap_or(false);
    fields.finish(&[extras::ANY, extras::TEXT, extras::RESPONSES])?;
    let echoed: usize = echo.values().map(cost_of).sum();
    let memory = items.cost.saturating_add(echoed.saturating_mul(ECHOES));
    let items = stores.then(|| items.all.iter().map(Item::new).collect());
    Ok(Request { chat: request, echo, stream, items, memory })
}

/// Takes the tools, whose functions have no object of their own here.
fn tools(
    fields: &mut Fields,
    request: &mut ChatRequest,
    keep: &mut impl FnMut(&str, Value),
) -> Result<(), ApiError> {
    let tools = fields.list("tools")?.unwrap_or_default();
    keep("tools", tools.clone().into());
    let (mut rewritten, mut left_out) = (Vec::new(), 0);
    for (i, tool) in tools.into_iter().enumerate() {
        let mut one = Fields::of(format!("tools[{i}]"), tool)?;
        let kind = one.string("type")?.unwrap_or_default();
        if kind != "function" {
            // tools of the provider, such as a web search, are not ours
            left_out += 1;
            continue;
        }
        // in the order of chats, as templates print it
        let mut rest = one.rest();
        let mut function = Map::new();
        for name in ["name", "description", "parameters"] {
            function.extend(rest.shift_remove_entry(name));
        }
        function.extend(rest);
        rewritten.push(json!({"type": "function", "function": function}));
    }
    if left_out > 0 {
        tracing::debug!(left_out, "tools are left out: they are no functions");
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
