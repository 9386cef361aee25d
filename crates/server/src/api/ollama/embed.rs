//! Embeddings.

use std::{sync::Arc, time::Instant};

use axum::{Json as Answer, extract::State};
use pelton::{EmbedOptions, Embedding, Prompt};
use serde_json::{Value, json};

use super::{keep, times::nanoseconds};
use crate::{
    app::{App, Caller, Json},
    error::ApiError,
    run,
};

async fn run(
    app: &App,
    caller: &Caller,
    name: &str,
    texts: Vec<String>,
    dimensions: Option<usize>,
) -> Result<Vec<Embedding>, ApiError> {
    let lease = app.registry.lease(Some(name)).await?;
    let context = app.context(lease, caller, None);
    let texts = texts.into_iter().map(Prompt::Text).collect();
    let mut options = EmbedOptions::default();
    options.dimensions = dimensions;
    run::embed(&context, texts, options).await
}

/// `POST /api/embed`
pub(in crate::api) async fn embed(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let begun = Instant::now();
    let (entry, keep) = keep::take(&app, &mut fields)?;
    if !fields.has("input") {
        return Err(fields.missing("input", "a string or a list of strings"));
    }
    let texts = fields.strings("input")?;
    let limit = app.config.limits.batch;
    if texts.len() > limit {
        let message = format!("input has {} elements, expected at most {limit}", texts.len());
        return Err(ApiError::field("input", message));
    }
    // a text that is too long is an error either way: nothing is cut without a word
    fields.boolean("truncate")?;
    let dimensions = fields.count("dimensions", 1)?;
    entry.keep(keep);
    let name = &entry.config.name;
    let all = run(&app, &caller, name, texts, dimensions).await?;
    let tokens: usize = all.iter().map(|one| one.tokens).sum();
    let vectors: Vec<Vec<f32>> = all.into_iter().map(|one| one.values).collect();
    Ok(Answer(json!({
        "model": name, "embeddings": vectors, "total_duration": nanoseconds(begun.elapsed()),
        "load_duration": 0, "prompt_eval_count": tokens,
    })))
}

/// `POST /api/embeddings`, the older path for one text.
pub(in crate::api) async fn embeddings(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let (entry, keep) = keep::take(&app, &mut fields)?;
    let text = fields.string("prompt")?.ok_or_else(|| fields.missing("prompt", "a string"))?;
    entry.keep(keep);
    let all = run(&app, &caller, &entry.config.name, vec![text], None).await?;
    let values = all.into_iter().next().map(|one| one.values).unwrap_or_default();
    Ok(Answer(json!({"embedding": values})))
}
