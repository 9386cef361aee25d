//! Messages: the next message of a conversation, and the size of a prompt.

use std::sync::Arc;

use axum::{Json as Answer, extract::State, response::Response};
use pelton::{FinishReason, Stats};
use serde_json::{Value, json};

use super::request::take;
use crate::{
    app::{App, Caller, Json},
    error::{ApiError, Shape},
    generate::{self, End, Piece, ReplyRun},
    wire::{Format, Part, Sink, WholeCalls, grow, new_id, respond, send},
};

/// `POST /v1/messages/count_tokens`
pub(in crate::api) async fn count_tokens(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    fields.count("max_tokens", 0)?;
    let mut request = take(&mut fields)?;
    let lease = app.registry.lease(model.as_deref()).await?;
    generate::blocking(move || {
        let tokens = lease.read_tokens(&request.render(&lease)?.prompt)?;
        Ok(Answer(json!({"input_tokens": tokens.len()})))
    })
    .await
}

/// `POST /v1/messages`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let max_tokens = fields.count("max_tokens", 0)?;
    let max_tokens = max_tokens.ok_or_else(|| fields.missing("max_tokens", "an integer from 0"))?;
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let mut request = take(&mut fields)?;
    // 0 puts the prompt into the cache: a pass over it ends in one token, which is not shown
    request.options.max_tokens = Some(max_tokens.max(1));
    let lease = app.registry.lease(model.as_deref()).await?;
    let context = app.context(lease, &caller, request.options.cache_salt.as_deref());
    let name = context.lease.name.clone();
    let mut replies =
        generate::starting(request.compiles(), move || request.start(&context)).await?;
    let Some(reply) = replies.pop() else {
        return Err(ApiError::internal("the request has no reply"));
    };
    let head = json!({
        "id": new_id("msg_"), "type": "message", "role": "assistant", "model": name,
        "content": [], "stop_reason": null, "stop_sequence": null,
    });
    let blocks = Blocks { head: Some(head), warm: max_tokens == 0, ..Blocks::default() };
    let keep_alive = app.config.limits.keep_alive;
    respond(streams, Format::Named(Shape::Anthropic), keep_alive, join, |frames| async move {
        send(reply, blocks, &frames).await?;
        Ok(())
    })
    .await
}

/// Adds an event to a whole message.
fn join(message: &mut Value, event: &Value) {
    match event["type"].as_str() {
        Some("message_start") => *message = event["message"].clone(),
        Some("content_block_start") => {
            grow(&mut message["content"], &json!([event["content_block"]]));
        }
        Some("content_block_delta") => {
            let Some(block) = message["content"].as_array_mut().and_then(|all| all.last_mut())
            else {
                return;
            };
            for name in ["text", "thinking"] {
                if let Some(text) = event["delta"].get(name) {
                    grow(&mut block[name], text);
                }
            }
            if let Some(json) = event["delta"]["partial_json"].as_str() {
                // arguments come as a whole
                block["input"] = serde_json::from_str(json).unwrap_or_else(|_| json!({}));
            }
        }
        Some("message_delta") => {
            grow(message, &event["delta"]);
            message["usage"] = event["usage"].clone();
        }
        _ => {}
    }
}

fn stop_reason(end: &End, called: bool) -> (&'static str, Option<String>) {
    match end.reason {
        FinishReason::Length => ("max_tokens", None),
        _ if called => ("tool_use", None),
        FinishReason::Stop => ("stop_sequence", end.stop.clone()),
        _ => ("end_turn", None),
    }
}

/// Tokens: those of the prompt that were cached are counted apart.
fn usage(stats: &Stats, shown: bool) -> Value {
    json!({
        "input_tokens": stats.prompt_tokens - stats.cached_tokens.min(stats.prompt_tokens),
        "cache_read_input_tokens": stats.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": if shown { stats.generated_tokens } else { 0 },
    })
}

/// The kinds of blocks that grow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

/// A reply as events of blocks.
#[derive(Default)]
struct Blocks {
    /// The message, until it has begun.
    head: Option<Value>,
    /// Whether only the cache is warmed: nothing is shown.
    warm: bool,
    calls: WholeCalls,
    open: Option<Kind>,
    next: usize,
    events: Vec<Value>,
}

impl Sink for Blocks {
    fn piece(&mut self, piece: Piece, reply: &ReplyRun) -> Result<Vec<Value>, ApiError> {
        // the cached part of the prompt is known with the first token
        if let Some(mut message) = self.head.take() {
            message["usage"] = usage(&reply.stats(), false);
            self.events.push(json!({"type": "message_start", "message": message}));
        }
        match piece {
            Piece::Event(event) if !self.warm => {
                if let Some(part) = self.calls.part(event) {
                    self.part(part);
                }
            }
            Piece::Event(_) | Piece::Token(_) => {}
            Piece::End(end) => {
                self.close();
                let (reason, stop) = stop_reason(&end, reply.called);
                self.events.push(json!({
                    "type": "message_delta",
                    "delta": {"stop_reason": reason, "stop_sequence": stop},
                    "usage": usage(&end.stats, !self.warm),
                }));
                self.events.push(json!({"type": "message_stop"}));
            }
        }
        Ok(std::mem::take(&mut self.events))
    }
}

impl Blocks {
    fn part(&mut self, part: Part) {
        match part {
            Part::Text(text) => {
                self.open(Kind::Text, || json!({"type": "text", "text": ""}));
                self.delta(json!({"type": "text_delta", "text": text}));
            }
            Part::Reasoning(text) => {
                let block = || json!({"type": "thinking", "thinking": "", "signature": ""});
                self.open(Kind::Thinking, block);
                self.delta(json!({"type": "thinking_delta", "thinking": text}));
            }
            Part::Call { name, arguments } => {
                self.close();
                let id = new_id("toolu_");
                self.start(json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                let json = arguments.to_string();
                self.delta(json!({"type": "input_json_delta", "partial_json": json}));
                self.stop();
            }
        }
    }

    /// Begins a block, unless one of its kind is open.
    fn open(&mut self, kind: Kind, block: impl FnOnce() -> Value) {
        if self.open != Some(kind) {
            self.close();
            self.start(block());
            self.open = Some(kind);
        }
    }

    fn start(&mut self, block: Value) {
        self.events.push(json!({
            "type": "content_block_start", "index": self.next, "content_block": block,
        }));
    }

    fn delta(&mut self, delta: Value) {
        let event = json!({"type": "content_block_delta", "index": self.next, "delta": delta});
        self.events.push(event);
    }

    /// Ends the open block.
    fn close(&mut self) {
        if let Some(kind) = self.open.take() {
            if kind == Kind::Thinking {
                self.delta(json!({"type": "signature_delta", "signature": ""}));
            }
            self.stop();
        }
    }

    fn stop(&mut self) {
        self.events.push(json!({"type": "content_block_stop", "index": self.next}));
        self.next += 1;
    }
}
