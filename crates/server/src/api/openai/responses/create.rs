//! `POST /v1/responses`.

use std::sync::Arc;

use axum::{Json as Answer, extract::State, response::Response};
use serde_json::{Value, json};

use super::{
    super::{log_probs, usage::now},
    build::Builder,
    request::{Request, take},
};
use crate::{
    app::{App, Caller, Json},
    error::{ApiError, Shape},
    generate::{self, Piece, ReplyRun},
    input::Fields,
    store::Item,
    wire::{Format, Sink, respond, send},
};

/// The request of a body, whose memory is counted with that of the stored items that it names.
async fn of_body(app: &Arc<App>, caller: &Caller, mut fields: Fields) -> Result<Request, ApiError> {
    let (stored, key) = (Arc::clone(app), caller.key);
    let request = generate::blocking(move || take(&mut fields, &stored.responses, key)).await?;
    caller.usage.hold(app.bodies.values(request.memory).await?);
    Ok(request)
}

/// `POST /v1/responses`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let request = of_body(&app, &caller, fields).await?;
    let lease = app.registry.lease(model.as_deref()).await?;
    let salt = request.chat.options.cache_salt.clone();
    let context = app.context(lease, &caller, salt.as_deref());
    let (name, chat) = (context.lease.name.clone(), request.chat);
    let mut replies = generate::starting(chat.compiles(), move || chat.start(&context)).await?;
    let Some(reply) = replies.pop() else {
        return Err(ApiError::internal("the request has no reply"));
    };
    let builder = Builder::new(&name, now(), request.echo);
    let keep = Keep { app: Arc::clone(&app), key: caller.key, items: request.items };
    let sink = Kept { builder, keep: Some(keep) };
    let keep_alive = app.config.limits.keep_alive;
    let format = Format::Named(Shape::OpenAi);
    respond(request.stream, format, keep_alive, join, |frames| async move {
        send(reply, sink, &frames).await?;
        Ok(())
    })
    .await
}

/// `POST /v1/responses/input_tokens`: the tokens of a response's prompt.
pub(in crate::api) async fn input_tokens(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let mut chat = of_body(&app, &caller, fields).await?.chat;
    let lease = app.registry.lease(model.as_deref()).await?;
    generate::blocking(move || {
        let tokens = lease.read_tokens(&chat.render(&lease)?.prompt)?;
        Ok(Answer(json!({"object": "response.input_tokens", "input_tokens": tokens.len()})))
    })
    .await
}

/// The part of a response that is stored at its end.
struct Keep {
    app: Arc<App>,
    key: Option<usize>,
    /// The items before the response; `None` if nothing is to be stored.
    items: Option<Vec<Item>>,
}

impl Keep {
    fn store(self, response: &Value) {
        let Some(mut items) = self.items else { return };
        items.extend(response["output"].as_array().into_iter().flatten().map(Item::new));
        self.app.responses.add(self.key, response, items);
    }
}

/// The whole response is part of the last event.
fn join(body: &mut Value, event: &Value) {
    if let Some(response) = event.get("response") {
        body.clone_from(response);
    }
}

/// A response that is stored at its end.
struct Kept {
    builder: Builder,
    keep: Option<Keep>,
}

impl Sink for Kept {
    fn begin(&mut self) -> Vec<Value> {
        self.builder.frames()
    }

    fn piece(&mut self, piece: Piece, reply: &ReplyRun) -> Result<Vec<Value>, ApiError> {
        match piece {
            Piece::Event(event) => self.builder.event(event),
            Piece::Token(token) => {
                self.builder.log_prob(log_probs::chat(reply.tokenizer()?, &token))
            }
            Piece::End(end) => {
                let stats = &end.stats;
                let usage = json!({
                    "input_tokens": stats.prompt_tokens,
                    "input_tokens_details": {"cached_tokens": stats.cached_tokens},
                    "output_tokens": stats.generated_tokens,
                    "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens()},
                    "total_tokens": stats.prompt_tokens + stats.generated_tokens,
                });
                self.builder.end(end.reason, usage);
                if let Some(keep) = self.keep.take() {
                    keep.store(self.builder.response());
                }
            }
        }
        Ok(self.builder.frames())
    }

    fn fail(&mut self, error: &ApiError) -> Option<Vec<Value>> {
        self.builder.fail(error);
        Some(self.builder.frames())
    }
}
