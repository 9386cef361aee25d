//! `POST /v1/responses`.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde_json::{Value, json};

use super::{
    super::{log_probs, usage::now},
    build::Builder,
    request::take,
};
use crate::{
    app::{App, Caller, Json},
    error::{ApiError, Shape},
    run::{self, Piece, ReplyRun},
    wire::{Format, Sink, respond, send},
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
    let (name, chat) = (context.lease.name.clone(), request.chat);
    let mut replies = run::blocking(move || chat.start(&context)).await?;
    let Some(reply) = replies.pop() else {
        return Err(ApiError::internal("the request has no reply"));
    };
    let builder = Builder::new(&name, now(), request.echo);
    let keep_alive = app.config.limits.keep_alive;
    let format = Format::Named(Shape::OpenAi);
    respond(request.stream, format, keep_alive, join, |frames| async move {
        send(reply, builder, &frames).await?;
        Ok(())
    })
    .await
}

/// The whole response is part of the last event.
fn join(body: &mut Value, event: &Value) {
    if let Some(response) = event.get("response") {
        body.clone_from(response);
    }
}

impl Sink for Builder {
    fn begin(&mut self) -> Vec<Value> {
        self.frames()
    }

    fn piece(&mut self, piece: Piece, reply: &ReplyRun) -> Result<Vec<Value>, ApiError> {
        match piece {
            Piece::Event(event) => self.event(event),
            Piece::Token(token) => self.log_prob(log_probs::chat(reply.tokenizer()?, &token)),
            Piece::End(end) => {
                let stats = &end.stats;
                let usage = json!({
                    "input_tokens": stats.prompt_tokens,
                    "input_tokens_details": {"cached_tokens": stats.cached_tokens},
                    "output_tokens": stats.generated_tokens,
                    "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens()},
                    "total_tokens": stats.prompt_tokens + stats.generated_tokens,
                });
                self.end(end.reason, usage);
            }
        }
        Ok(self.frames())
    }

    fn fail(&mut self, error: &ApiError) -> Option<Vec<Value>> {
        Builder::fail(self, error);
        Some(self.frames())
    }
}
