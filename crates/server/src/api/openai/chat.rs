//! Chats: the next message of a conversation.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use pelton::chat::{Chat, Event};
use serde_json::{Value, json};

use super::{
    choices::run_all,
    completions::include_usage,
    log_probs,
    prompts::check_batch,
    usage::{Count, finish_reason, now, timings},
};
use crate::{
    app::{App, Caller, Json},
    error::{ApiError, Shape},
    generate::{self, ChatRequest, Options, Piece, ReplyRun},
    input::{Fields, extras, metadata},
    wire::{Format, Sink, grow, new_id, respond, send},
};

/// Takes a chat out of a body.
pub(in crate::api) fn take(app: &App, fields: &mut Fields) -> Result<ChatRequest, ApiError> {
    refuse(fields)?;
    let list = fields.list("messages")?;
    let list = list.ok_or_else(|| fields.missing("messages", "a list of messages"))?;
    let messages = generate::messages(list, &fields.at("messages"))?;
    let mut chat = Chat::new(messages);
    chat.documents = fields.list("documents")?.unwrap_or_default();
    chat.continue_final_message = fields.boolean("continue_final_message")?.unwrap_or(false);
    let generation = fields.boolean("add_generation_prompt")?;
    chat.add_generation_prompt = generation.unwrap_or(!chat.continue_final_message);
    take_thinking(&mut chat, fields)?;
    if let Some(kwargs) = fields.object("chat_template_kwargs")? {
        chat.kwargs = kwargs.rest();
    }
    let mut options = Options::take(fields)?;
    options.take_stop(fields, "stop")?;
    options.take_output(fields)?;
    options.prediction = prediction(fields)?;
    options.take_limit(fields, &["max_tokens", "max_completion_tokens", "n_predict"])?;
    // 0 is for no limit too, as some clients send it
    options.max_tokens = options.max_tokens.filter(|&count| count > 0);
    let log_probs = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=20)?;
    if top.is_some_and(|top| top > 0) && !log_probs {
        let message = "top_logprobs is there, expected logprobs to be true";
        return Err(ApiError::field("top_logprobs", message));
    }
    options.log_probs = log_probs.then(|| usize::try_from(top.unwrap_or(0)).unwrap_or(0));
    let mut request = ChatRequest::new(chat, options);
    request.take_tools(fields)?;
    request.n = fields.integer("n", 1..=128)?.unwrap_or(1) as usize;
    check_batch(app, "n", request.n)?;
    Ok(request)
}

/// Refuses what a client would miss in the answer, and checks what has no effect.
fn refuse(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["audio", "web_search_options"] {
        if let Some(value) = fields.take(name) {
            return Err(fields.wrong(name, &value, "no such field: it is not supported"));
        }
    }
    for name in ["functions", "function_call"] {
        match fields.take(name) {
            None => {}
            Some(Value::Array(list)) if list.is_empty() => {}
            Some(Value::String(word)) if word == "none" || word == "auto" => {}
            Some(other) => {
                let expected = "no functions: name them in tools and tool_choice";
                return Err(fields.wrong(name, &other, expected));
            }
        }
    }
    let modalities = fields.strings("modalities")?;
    if modalities.iter().any(|one| one != "text") {
        return Err(ApiError::field("modalities", "modalities has other elements than text"));
    }
    for name in ["user", "safety_identifier", "prompt_cache_key", "service_tier", "verbosity"] {
        fields.string(name)?;
    }
    fields.boolean("store")?;
    metadata(fields)?;
    Ok(())
}

/// Takes OpenAI's `prediction`: a text, whole or in parts, that the answer is expected to resemble.
fn prediction(fields: &mut Fields) -> Result<Option<String>, ApiError> {
    const EXPECTED: &str = "a string or a list of parts of type text";
    let Some(mut given) = fields.object("prediction")? else { return Ok(None) };
    given.choice("type", &["content"])?;
    let content = given.take("content");
    given.finish(&[])?;
    match content {
        None => Err(given.missing("content", EXPECTED)),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Array(parts)) => {
            let is_text = |kind: &Value| {
                kind.is_null() || kind.as_str().is_some_and(|kind| kind.ends_with("text"))
            };
            let text = |part: &Value| match part {
                Value::String(text) => Some(text.clone()),
                part if is_text(&part["type"]) => part["text"].as_str().map(str::to_owned),
                _ => None,
            };
            let texts: Option<Vec<String>> = parts.iter().map(text).collect();
            let texts = texts
                .ok_or_else(|| given.wrong("content", &Value::Array(parts.clone()), EXPECTED))?;
            Ok(Some(texts.concat()))
        }
        Some(other) => Err(given.wrong("content", &other, EXPECTED)),
    }
}

/// Takes the ways to say whether and how much the model reasons out of a body: those of OpenAI,
/// OpenRouter (`reasoning`), DeepSeek and GLM (`thinking`), and Qwen (`enable_thinking`).
fn take_thinking(chat: &mut Chat, fields: &mut Fields) -> Result<(), ApiError> {
    if let Some(effort) = fields.choice("reasoning_effort", &generate::EFFORTS)? {
        generate::set_effort(chat, effort);
    }
    if let Some(mut reasoning) = fields.object("reasoning")? {
        if let Some(effort) = reasoning.choice("effort", &generate::EFFORTS)? {
            generate::set_effort(chat, effort);
        }
        if let Some(enabled) = reasoning.boolean("enabled")? {
            chat.enable_thinking = Some(enabled);
        }
        reasoning.finish(&[extras::REASONING])?;
    }
    if let Some(enable) = generate::thinking(fields)? {
        chat.enable_thinking = Some(enable);
    }
    if let Some(enable) = fields.boolean("enable_thinking")? {
        chat.enable_thinking = Some(enable);
    }
    Ok(())
}

/// `POST /v1/chat/completions`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let request = take(&app, &mut fields)?;
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let usage = include_usage(&mut fields)?;
    fields.finish(&[extras::ANY, extras::TEXT])?;
    let lease = app.registry.lease(model.as_deref()).await?;
    let context = app.context(lease, &caller, request.options.cache_salt.as_deref());
    let head = json!({
        "id": new_id("chatcmpl-"), "object": "chat.completion.chunk", "created": now(),
        "model": context.lease.name, "system_fingerprint": context.lease.fingerprint(),
    });
    let (replies, batch) =
        generate::starting(request.compiles(), move || request.batch(&context)).await?;
    let keep_alive = app.config.limits.keep_alive;
    respond(streams, Format::Events(Shape::OpenAi), keep_alive, join, |frames| async move {
        let mut next = 0..;
        let run = |reply| {
            let (frames, head, index) = (frames.clone(), head.clone(), next.next().unwrap_or(0));
            let chunks = Chunks { head, index, ..Chunks::default() };
            async move { send(reply, chunks, &frames).await.map(|chunks| chunks.count) }
        };
        let count = run_all(replies, batch, run).await?;
        if usage || !streams {
            frames.usage(head, count.json()).await?;
        }
        Ok(frames.done().await?)
    })
    .await
}

/// A reply as chunks.
#[derive(Default)]
struct Chunks {
    head: Value,
    index: usize,
    /// Log-probabilities of tokens whose text comes next.
    tokens: Vec<Value>,
    /// Whether a tool call has begun.
    called: bool,
    count: Count,
}

impl Chunks {
    fn chunk(&mut self, delta: Value, reason: Option<&str>) -> Value {
        let mut chunk = self.head.clone();
        let log_probs = match std::mem::take(&mut self.tokens) {
            tokens if tokens.is_empty() => Value::Null,
            tokens => json!({"content": tokens, "refusal": null}),
        };
        chunk["choices"] = json!([{
            "index": self.index, "delta": delta, "logprobs": log_probs, "finish_reason": reason,
        }]);
        chunk
    }
}

impl Sink for Chunks {
    fn begin(&mut self) -> Vec<Value> {
        let delta = json!({"role": "assistant", "content": "", "refusal": null});
        vec![self.chunk(delta, None)]
    }

    fn piece(&mut self, piece: Piece, reply: &ReplyRun) -> Result<Vec<Value>, ApiError> {
        let chunk = match piece {
            Piece::Token(token) => {
                self.tokens.push(log_probs::chat(reply.tokenizer()?, &token));
                None
            }
            Piece::Event(event) => {
                self.called |= matches!(event, Event::ToolCallStart { .. });
                delta(event).map(|delta| self.chunk(delta, None))
            }
            Piece::End(end) => {
                self.count.add(&end.stats, reply.reasoning_tokens(), self.index == 0);
                let reason = finish_reason(end.reason, self.called);
                let mut chunk = self.chunk(json!({}), Some(reason));
                chunk["timings"] = timings(&end.stats);
                Some(chunk)
            }
        };
        Ok(chunk.into_iter().collect())
    }
}

/// The delta of an event; `None` if it has none: a call that is not complete is left open.
fn delta(event: Event) -> Option<Value> {
    let calls = |index: usize, mut call: Value| {
        call["index"] = index.into();
        json!({"tool_calls": [call]})
    };
    Some(match event {
        Event::Content(text) => json!({"content": text}),
        Event::Reasoning(text) => json!({"reasoning_content": text, "reasoning": text}),
        Event::ToolCallStart { index, name } => {
            let function = json!({"name": name, "arguments": ""});
            let id = new_id("call_");
            calls(index, json!({"id": id, "type": "function", "function": function}))
        }
        Event::ToolCallArguments { index, delta } => {
            calls(index, json!({"function": {"arguments": delta}}))
        }
        Event::ToolCallEnd { .. } | Event::ToolCallBroken { .. } => return None,
    })
}

/// Adds a chunk to a whole completion.
fn join(body: &mut Value, chunk: &Value) {
    if body.is_null() {
        *body = chunk.clone();
        body["object"] = "chat.completion".into();
        body["choices"] = json!([]);
    }
    for name in ["usage", "timings"] {
        if let Some(value) = chunk.get(name) {
            body[name] = value.clone();
        }
    }
    grow(&mut body["choices"], &chunk["choices"]);
    let ended = |choice: &&mut Value| choice["finish_reason"].is_string();
    for choice in body["choices"].as_array_mut().into_iter().flatten().filter(ended) {
        let Some(mut message) = choice.as_object_mut().and_then(|one| one.remove("delta")) else {
            continue;
        };
        if let Some(calls) = message.get_mut("tool_calls").and_then(Value::as_array_mut) {
            for call in calls.iter_mut().filter_map(Value::as_object_mut) {
                call.remove("index");
            }
            if message["content"] == "" {
                message["content"] = Value::Null;
            }
        }
        choice["message"] = message;
    }
}
