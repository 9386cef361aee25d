//! `POST /v1/responses`.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    super::{log_probs, usage::now},
    build::Builder,
    request::take,
};
use crate::{
    app::{App, Caller, Json},
    error::{ApiError, Shape},
    run::{self, Context, Piece, ReplyRun},
    wire::{Broken, Format, Frames, stream},
};

/// `POST /v1/responses`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let request = take(&mut fields)?;
    let lease = app.registry.lease(model.as_deref()).await?;
    let salt = request.chat.options.cache_salt.clone();
    let context = app.context(lease, &caller, salt.as_deref());
    let (started, chat) = (context.clone(), request.chat);
    let mut replies = run::blocking(move || chat.start(&started)).await?;
    let Some(reply) = replies.pop() else {
        return Err(ApiError::internal("the request has no reply"));
    };
    let builder = Builder::new(&context.lease.name, now(), request.echo);
    if request.stream {
        let keep_alive = app.config.limits.keep_alive;
        return Ok(stream(Format::Events(Shape::OpenAi), keep_alive, |frames| {
            send(frames, reply, builder, context)
        }));
    }
    let mut grow = Grow { reply, builder, context };
    while grow.step().await? {
        grow.builder.frames();
    }
    Ok(Answer(grow.builder.response()).into_response())
}

/// A response that grows with a reply.
struct Grow {
    reply: ReplyRun,
    builder: Builder,
    context: Context,
}

impl Grow {
    /// Takes the next piece; whether there may be more.
    async fn step(&mut self) -> Result<bool, ApiError> {
        match self.reply.next().await? {
            None => return Ok(false),
            Some(Piece::Event(event)) => self.builder.event(event),
            Some(Piece::Token(token)) => {
                let tokenizer = self.context.lease.model()?.tokenizer()?;
                self.builder.log_prob(log_probs::chat(tokenizer, &token));
            }
            Some(Piece::End(end)) => {
                let stats = &end.stats;
                let usage = json!({
                    "input_tokens": stats.prompt_tokens,
                    "input_tokens_details": {"cached_tokens": stats.cached_tokens},
                    "output_tokens": stats.generated_tokens,
                    "output_tokens_details": {"reasoning_tokens": self.reply.reasoning_tokens()},
                    "total_tokens": stats.prompt_tokens + stats.generated_tokens,
                });
                self.builder.end(end.reason, usage);
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Writes all events, the last of which is always a terminal one.
async fn send(
    frames: Frames,
    reply: ReplyRun,
    builder: Builder,
    context: Context,
) -> Result<(), Broken> {
    let mut grow = Grow { reply, builder, context };
    loop {
        for (name, event) in grow.builder.frames() {
            let event: Value = event;
            frames.event(name, &event).await?;
        }
        let more = match grow.step().await {
            Ok(more) => more,
            Err(error) => {
                tracing::warn!(%error, "a response fails");
                grow.builder.fail(&error);
                false
            }
        };
        if !more {
            for (name, event) in grow.builder.frames() {
                frames.event(name, &event).await?;
            }
            return Ok(());
        }
    }
}
