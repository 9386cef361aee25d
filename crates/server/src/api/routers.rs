//! Paths for routers in front of several servers: tokens of prompts as vLLM has them, and facts as
//! SGLang has them.

use std::sync::Arc;

use axum::{Json as Answer, extract::State};
use pelton::graph::PAGE;
use serde_json::{Value, json};

use super::openai::{chat, prompts};
use crate::{
    app::{App, Json},
    error::ApiError,
    generate::{self, Options},
    input::extras,
    models::{Replica, Served},
    wire::new_id,
};

/// Fields of a completion that its prompt does not depend on.
const COMPLETION: &[&str] = &[
    "best_of",
    "echo",
    "logprobs",
    "max_tokens",
    "n",
    "n_predict",
    "response_format",
    "stop",
    "structured_outputs",
    "suffix=",
];

/// The tokens of one prompt, as the request of vLLM's next stage.
fn rendered(prefix: &str, served: &Served, tokens: &[u32]) -> Value {
    json!({
        "request_id": new_id(prefix), "model": served.name, "token_ids": tokens, "features": null,
    })
}

/// `POST /v1/chat/completions/render`: the tokens of a chat's prompt.
pub(super) async fn render_chat(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let lease = app.registry.lease_or_first(model.as_deref()).await?;
    let mut request = chat::take(&app, &mut fields)?;
    fields.finish(&[extras::ANY, extras::TEXT, extras::STREAM])?;
    generate::blocking(move || {
        let tokens = lease.read_tokens(&request.render(&lease)?.prompt)?;
        Ok(Answer(rendered("chatcmpl-", &lease, &tokens)))
    })
    .await
}

/// `POST /v1/completions/render`: the tokens of each prompt.
pub(super) async fn render_completions(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let lease = app.registry.lease_or_first(model.as_deref()).await?;
    let prompts = prompts::take(&app, &mut fields, "prompt")?;
    // the options of the text, which the tokens do not depend on
    Options::take(&mut fields)?;
    fields.finish(&[extras::ANY, extras::TEXT, extras::STREAM, COMPLETION])?;
    generate::blocking(move || {
        let all: Result<Vec<Value>, ApiError> = prompts
            .iter()
            .map(|prompt| Ok(rendered("cmpl-", &lease, &lease.encode(prompt)?)))
            .collect();
        Ok(Answer(all?.into()))
    })
    .await
}

/// The first model, which is loaded if it is not.
async fn first(app: &App) -> Result<Arc<Served>, ApiError> {
    let entry = app.registry.first();
    let entry = entry.ok_or_else(|| ApiError::unavailable("the server has no model"))?;
    app.registry.load(&entry).await
}

/// `GET /server_info`: what the server can run at the same time.
pub(super) async fn server_info(State(app): State<Arc<App>>) -> Result<Answer<Value>, ApiError> {
    let served = first(&app).await?;
    let (model, replicas) = (served.model()?, served.replicas()?);
    let status = replicas.status();
    let pages = status.pages.iter().map(|pages| pages.total).max().unwrap_or(0);
    let count = replicas.count();
    let one = |replica: Replica<'_>| {
        json!({
            "device": replica.model.summary().device, "requests": replica.requests,
            "error": replica.gone.map(|error| error.to_string()),
        })
    };
    let all: Vec<Value> = replicas.all().map(one).collect();
    Ok(Answer(json!({
        "version": format!("pelton {}", env!("CARGO_PKG_VERSION")),
        "model_path": served.name, "served_model_name": served.name,
        "context_length": model.context(), "page_size": PAGE,
        "max_total_num_tokens": pages * PAGE,
        "max_running_requests": count * app.config.load.max_concurrent.unwrap_or(1),
        "max_queued_requests": count * app.config.load.queue_requests,
        "num_running_reqs": status.running, "num_waiting_reqs": status.queued + status.preempted,
        "tp_size": 1, "dp_size": count, "device": app.registry.backend(), "replicas": all,
    })))
}

/// `GET /model_info`: what the first model is.
pub(super) async fn model_info(State(app): State<Arc<App>>) -> Result<Answer<Value>, ApiError> {
    let served = first(&app).await?;
    let generates = served.model()?.plan().output == pelton::graph::OutputKind::Logits;
    Ok(Answer(json!({
        "model_path": served.name, "tokenizer_path": served.name, "served_model_name": served.name,
        "is_generation": generates, "max_model_len": served.model()?.context(),
    })))
}
