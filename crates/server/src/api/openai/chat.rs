//! Chats: the next message of a conversation.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse, Response},
};
use pelton::chat::{Chat, Event, Reply};
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
    input::Fields,
    run::{self, ChatRequest, Context, LogToken, Options, Piece, ReplyRun},
    wire::{Broken, Format, Frames, new_id, stream},
};

/// Takes a chat out of a body.
pub(in crate::api) fn take(app: &App, fields: &mut Fields) -> Result<ChatRequest, ApiError> {
    refuse(fields)?;
    let list = fields.list("messages")?;
    let list = list.ok_or_else(|| fields.missing("messages", "a list of messages"))?;
    let messages = run::messages(list, &fields.at("messages"))?;
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
    options.log_probs = log_probs.then(|| u8::try_from(top.unwrap_or(0)).unwrap_or(0));
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
    fields.object("metadata")?;
    Ok(())
}

/// Takes OpenAI's `prediction`: a text, whole or in parts, that the answer is expected to resemble.
fn prediction(fields: &mut Fields) -> Result<Option<String>, ApiError> {
    const EXPECTED: &str = "a string or a list of parts of type text";
    let Some(mut given) = fields.object("prediction")? else { return Ok(None) };
    given.choice("type", &["content"])?;
    match given.take("content") {
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

/// Takes the ways to say whether and how much the model reasons out of a body.
fn take_thinking(chat: &mut Chat, fields: &mut Fields) -> Result<(), ApiError> {
    if let Some(effort) = fields.choice("reasoning_effort", &run::EFFORTS)? {
        run::set_effort(chat, effort);
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
    let lease = app.registry.lease(model.as_deref()).await?;
    let context = app.context(lease, &caller, request.options.cache_salt.as_deref());
    let object = if streams { "chat.completion.chunk" } else { "chat.completion" };
    let head = json!({
        "id": new_id("chatcmpl-"), "object": object, "created": now(),
        "model": context.lease.name, "system_fingerprint": null,
    });
    let show_log_probs = request.options.log_probs.is_some();
    let started = context.clone();
    let replies = run::blocking(move || request.start(&started)).await?;
    if streams {
        let keep_alive = app.config.limits.keep_alive;
        return Ok(stream(Format::Events(Shape::OpenAi), keep_alive, |frames| async move {
            let each = replies.into_iter().enumerate().map(|(index, reply)| {
                let (frames, head) = (frames.clone(), head.clone());
                Chunks { frames, head, index, context: context.clone() }.send(reply)
            });
            let count = run_all(each.collect::<Vec<_>>()).await?;
            if usage {
                frames.usage(head, count.json()).await?;
            }
            Ok(frames.done().await?)
        }));
    }
    let mut count = Count::default();
    let mut choices = Vec::with_capacity(replies.len());
    let mut times = Value::Null;
    for (index, mut reply) in replies.into_iter().enumerate() {
        let (mut choice, stats) = collect(&mut reply, &context, show_log_probs).await?;
        choice["index"] = index.into();
        choices.push(choice);
        count.add(&stats, reply.reasoning_tokens(), index == 0);
        times = timings(&stats);
    }
    let mut body = head;
    body["choices"] = choices.into();
    body["usage"] = count.json();
    body["timings"] = times;
    Ok(Answer(body).into_response())
}

/// A tool call in a message.
fn call(id: &str, name: &str, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    json!({"id": id, "type": "function", "function": function})
}

/// The identifier of a new tool call.
fn call_id() -> String {
    new_id("call_")
}

/// The whole reply as a choice.
async fn collect(
    reply: &mut ReplyRun,
    context: &Context,
    show_log_probs: bool,
) -> Result<(Value, pelton::Stats), ApiError> {
    let tokenizer = context.lease.model()?.tokenizer()?;
    let (mut events, mut tokens) = (Vec::new(), Vec::new());
    while let Some(piece) = reply.next().await? {
        match piece {
            Piece::Event(event) => events.push(event),
            Piece::Token(token) => tokens.push(log_probs::chat(tokenizer, &token)),
            Piece::End(end) => {
                let Reply { content, reasoning, tool_calls, .. } = Reply::from_events(events);
                let calls: Vec<Value> = tool_calls
                    .iter()
                    .map(|one| call(&call_id(), &one.name, &one.arguments))
                    .collect();
                let no_content = content.is_empty() && !calls.is_empty();
                let content = if no_content { Value::Null } else { content.into() };
                let mut message = json!({"role": "assistant", "content": content, "refusal": null});
                if !reasoning.is_empty() {
                    message["reasoning"] = reasoning.as_str().into();
                    message["reasoning_content"] = reasoning.into();
                }
                let called = !calls.is_empty();
                if called {
                    message["tool_calls"] = calls.into();
                }
                let log_probs = match show_log_probs {
                    true => json!({"content": tokens, "refusal": null}),
                    false => Value::Null,
                };
                let reason = finish_reason(end.reason, called);
                let choice = json!({
                    "message": message, "logprobs": log_probs, "finish_reason": reason,
                });
                return Ok((choice, end.stats));
            }
        }
    }
    Err(ApiError::internal("a reply has no end"))
}

/// A reply as chunks.
struct Chunks {
    frames: Frames,
    head: Value,
    index: usize,
    context: Context,
}

impl Chunks {
    async fn write(
        &self,
        delta: Value,
        tokens: &mut Vec<LogToken>,
        reason: Option<&str>,
    ) -> Result<(), Broken> {
        let mut chunk = self.head.clone();
        let mut log_probs = Value::Null;
        if !tokens.is_empty() {
            let tokenizer = self.context.lease.model()?.tokenizer().map_err(ApiError::from)?;
            let each = tokens.drain(..).map(|token| log_probs::chat(tokenizer, &token));
            log_probs = json!({"content": each.collect::<Vec<_>>(), "refusal": null});
        }
        chunk["choices"] = json!([{
            "index": self.index, "delta": delta, "logprobs": log_probs, "finish_reason": reason,
        }]);
        Ok(self.frames.data(&chunk).await?)
    }

    async fn send(self, mut reply: ReplyRun) -> Result<Count, Broken> {
        let mut tokens = Vec::new();
        self.write(json!({"role": "assistant", "content": ""}), &mut tokens, None).await?;
        while let Some(piece) = reply.next().await? {
            let delta = match piece {
                Piece::Token(token) => {
                    tokens.push(token);
                    continue;
                }
                Piece::Event(event) => match delta(event) {
                    Some(delta) => delta,
                    None => continue,
                },
                Piece::End(end) => {
                    let reason = finish_reason(end.reason, reply.called);
                    self.write(json!({}), &mut tokens, Some(reason)).await?;
                    let mut count = Count::default();
                    count.add(&end.stats, reply.reasoning_tokens(), self.index == 0);
                    return Ok(count);
                }
            };
            self.write(delta, &mut tokens, None).await?;
        }
        Err(ApiError::internal("a reply has no end").into())
    }
}

/// The delta of an event; `None` if it has none.
fn delta(event: Event) -> Option<Value> {
    let calls = |index: usize, mut call: Value| {
        call["index"] = index.into();
        json!({"tool_calls": [call]})
    };
    Some(match event {
        Event::Content(text) => json!({"content": text}),
        Event::Reasoning(text) => json!({"reasoning_content": text, "reasoning": text}),
        Event::ToolCallStart { index, name } => calls(index, call(&call_id(), &name, "")),
        Event::ToolCallArguments { index, delta } => {
            calls(index, json!({"function": {"arguments": delta}}))
        }
        Event::ToolCallEnd { .. } => return None,
        // the client has the pieces of the call already
        Event::ToolCallBroken { text, .. } => json!({"content": text}),
    })
}
