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
    let request = take(&mut fields, &app.responses, caller.key)?;
    let lease = app.registry.lease(model.as_deref()).await?;
    let salt = request.chat.options.cache_salt.clone();
    let context = app.context(lease, &caller, salt.as_deref());
    let (started, chat) = (context.clone(), request.chat);
    let mut replies = run::blocking(move || chat.start(&started)).await?;
    let Some(reply) = replies.pop() else {
        return Err(ApiError::internal("the request has no reply"));
    };
    let builder = Builder::new(&context.lease.name, now(), request.echo);
    let keep = Keep { app: Arc::clone(&app), key: caller.key, items: request.items };
    if request.stream {
        let keep_alive = app.config.limits.keep_alive;
        return Ok(stream(Format::Events(Shape::OpenAi), keep_alive, |frames| {
            send(frames, reply, builder, context, keep)
        }));
    }
    let mut grow = Grow { reply, builder, context };
    while grow.step().await? {
        grow.builder.frames();
    }
    let response = grow.builder.response();
    keep.store(&response);
    Ok(Answer(response).into_response())
}

/// `POST /v1/responses/input_tokens`: the tokens of a response's prompt.
pub(in crate::api) async fn input_tokens(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let chat = take(&mut fields, &app.responses, caller.key)?.chat;
    let lease = app.registry.lease(model.as_deref()).await?;
    run::blocking(move || {
        let tokens = lease.encode(&chat.render(&lease)?.prompt)?;
        Ok(Answer(json!({"object": "response.input_tokens", "input_tokens": tokens.len()})))
    })
    .await
}

/// What is stored of a response at its end.
struct Keep {
    app: Arc<App>,
    key: Option<usize>,
    /// The items before the response; `None` if nothing is to be stored.
    items: Option<Vec<Value>>,
}

impl Keep {
    fn store(self, response: &Value) {
        let Some(mut items) = self.items else { return };
        let id = response["id"].as_str().unwrap_or_default().to_owned();
        items.extend(response["output"].as_array().cloned().unwrap_or_default());
        self.app.responses.add(self.key, id, items);
    }
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
    keep: Keep,
) -> Result<(), Broken> {
    let mut grow = Grow { reply, builder, context };
    loop {
        for (name, event) in grow.builder.frames() {
            let event: Value = event;
            frames.event(name, &event).await?;
        }
        let (more, failed) = match grow.step().await {
            Ok(more) => (more, false),
            Err(error) => {
                tracing::warn!(%error, "a response fails");
                grow.builder.fail(&error);
                (false, true)
            }
        };
        if !more {
            let last = grow.builder.frames();
            if !failed {
                keep.store(&grow.builder.response());
            }
            for (name, event) in last {
                frames.event(name, &event).await?;
            }
            return Ok(());
        }
    }
}
