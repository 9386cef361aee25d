//! Messages: the next message of a conversation, and the size of a prompt.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse, Response},
};
use pelton::{
    FinishReason, Stats,
    chat::{Event, Reply},
};
use serde_json::{Value, json};

use super::request::take;
use crate::{
    app::{App, Caller, Json},
    error::{ApiError, Shape},
    run::{self, End, Piece, ReplyRun},
    wire::{Broken, Format, Frames, new_id, stream},
};

/// `POST /v1/messages/count_tokens`
pub(in crate::api) async fn count_tokens(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let request = take(&mut fields)?;
    let lease = app.registry.lease(model.as_deref()).await?;
    run::blocking(move || {
        let tokens = lease.encode(&request.render(&lease)?.prompt)?;
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
    let mut replies = run::blocking(move || request.start(&context)).await?;
    let Some(mut reply) = replies.pop() else {
        return Err(ApiError::internal("the request has no reply"));
    };
    let head = json!({
        "id": new_id("msg_"), "type": "message", "role": "assistant", "model": name,
        "content": [], "stop_reason": null, "stop_sequence": null,
    });
    let warm = max_tokens == 0;
    if streams {
        let keep_alive = app.config.limits.keep_alive;
        return Ok(stream(Format::Events(Shape::Anthropic), keep_alive, |frames| {
            Blocks { frames, open: None, next: 0 }.send(reply, head, warm)
        }));
    }
    let mut events = Vec::new();
    while let Some(piece) = reply.next().await? {
        match piece {
            Piece::Event(event) => events.push(event),
            Piece::Token(_) => {}
            Piece::End(end) => {
                let mut body = head;
                let (reason, stop) = stop_reason(&end, reply.called);
                if !warm {
                    body["content"] = content(Reply::from_events(events));
                }
                body["stop_reason"] = reason.into();
                body["stop_sequence"] = stop.into();
                body["usage"] = usage(&end.stats, warm);
                return Ok(Answer(body).into_response());
            }
        }
    }
    Err(ApiError::internal("a reply has no end"))
}

/// The blocks of a whole reply.
fn content(reply: Reply) -> Value {
    let mut blocks = Vec::new();
    if !reply.reasoning.is_empty() {
        blocks.push(json!({"type": "thinking", "thinking": reply.reasoning, "signature": ""}));
    }
    if !reply.content.is_empty() {
        blocks.push(json!({"type": "text", "text": reply.content}));
    }
    for call in reply.tool_calls {
        let input = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        blocks.push(json!({
            "type": "tool_use", "id": new_id("toolu_"), "name": call.name, "input": input,
        }));
    }
    blocks.into()
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
fn usage(stats: &Stats, warm: bool) -> Value {
    json!({
        "input_tokens": stats.prompt_tokens - stats.cached_tokens.min(stats.prompt_tokens),
        "cache_read_input_tokens": stats.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": if warm { 0 } else { stats.generated_tokens },
    })
}

/// The kinds of blocks of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call,
}

/// A reply as events of blocks.
struct Blocks {
    frames: Frames,
    open: Option<Kind>,
    next: usize,
}

impl Blocks {
    async fn send(mut self, mut reply: ReplyRun, head: Value, warm: bool) -> Result<(), Broken> {
        let mut started = false;
        while let Some(piece) = reply.next().await? {
            if !started {
                started = true;
                // the cached part of the prompt is known with the first token
                let mut message = head.clone();
                message["usage"] = usage(&reply.stats(), true);
                let start = json!({"type": "message_start", "message": message});
                self.frames.event("message_start", &start).await?;
            }
            match piece {
                Piece::Event(event) if !warm => self.event(event).await?,
                Piece::Event(_) | Piece::Token(_) => {}
                Piece::End(end) => {
                    self.close().await?;
                    let (reason, stop) = stop_reason(&end, reply.called);
                    let delta = json!({
                        "type": "message_delta",
                        "delta": {"stop_reason": reason, "stop_sequence": stop},
                        "usage": usage(&end.stats, warm),
                    });
                    self.frames.event("message_delta", &delta).await?;
                    let stop = json!({"type": "message_stop"});
                    self.frames.event("message_stop", &stop).await?;
                    return Ok(());
                }
            }
        }
        Err(ApiError::internal("a reply has no end").into())
    }

    async fn event(&mut self, event: Event) -> Result<(), Broken> {
        match event {
            Event::Content(text) => {
                self.open(Kind::Text, || json!({"type": "text", "text": ""})).await?;
                self.delta(json!({"type": "text_delta", "text": text})).await
            }
            Event::Reasoning(text) => {
                let block = || json!({"type": "thinking", "thinking": "", "signature": ""});
                self.open(Kind::Thinking, block).await?;
                self.delta(json!({"type": "thinking_delta", "thinking": text})).await
            }
            Event::ToolCallStart { name, .. } => {
                self.close().await?;
                let id = new_id("toolu_");
                let block = || json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.open(Kind::Call, block).await
            }
            Event::ToolCallArguments { delta, .. } => {
                self.delta(json!({"type": "input_json_delta", "partial_json": delta})).await
            }
            Event::ToolCallEnd { .. } => self.close().await,
            Event::ToolCallBroken { text, .. } => {
                self.close().await?;
                self.open(Kind::Text, || json!({"type": "text", "text": ""})).await?;
                self.delta(json!({"type": "text_delta", "text": text})).await
            }
        }
    }

    /// Begins a block, unless one of its kind is open.
    async fn open(&mut self, kind: Kind, block: impl FnOnce() -> Value) -> Result<(), Broken> {
        if self.open == Some(kind) {
            return Ok(());
        }
        self.close().await?;
        let start = json!({
            "type": "content_block_start", "index": self.next, "content_block": block(),
        });
        self.frames.event("content_block_start", &start).await?;
        self.open = Some(kind);
        Ok(())
    }

    async fn delta(&self, delta: Value) -> Result<(), Broken> {
        let delta = json!({"type": "content_block_delta", "index": self.next, "delta": delta});
        Ok(self.frames.event("content_block_delta", &delta).await?)
    }

    async fn close(&mut self) -> Result<(), Broken> {
        let Some(kind) = self.open else { return Ok(()) };
        if kind == Kind::Thinking {
            self.delta(json!({"type": "signature_delta", "signature": ""})).await?;
        }
        self.open = None;
        let stop = json!({"type": "content_block_stop", "index": self.next});
        self.next += 1;
        Ok(self.frames.event("content_block_stop", &stop).await?)
    }
}
