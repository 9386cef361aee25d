//! Embeddings.

use std::{sync::Arc, time::Instant};

use axum::{Json as Answer, extract::State, response::Response};
use pelton::{EmbedOptions, Embedding, Prompt};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    super::vectors::{Vectors, large},
    keep,
    request::options,
    times::nanoseconds,
};
use crate::{
    app::{App, Caller, Json},
    error::ApiError,
    generate,
    input::{Fields, extras},
    models::Served,
};

async fn run(
    app: &App,
    caller: &Caller,
    name: &str,
    texts: Vec<String>,
    dimensions: Option<usize>,
    truncates: bool,
) -> Result<Vec<Embedding>, ApiError> {
    let lease = app.registry.lease_embedder(Some(name)).await?;
    let context = app.context(lease, caller, None);
    let cut = context.clone();
    let texts = generate::blocking(move || match truncates {
        true => texts.iter().map(|text| cut_text(&cut.lease, text)).collect(),
        false => Ok(texts.into_iter().map(Prompt::Text).collect()),
    })
    .await?;
    let mut options = EmbedOptions::default();
    options.dimensions = dimensions;
    generate::embed(&context, texts, options).await
}

/// The tokens of a text, cut at its end to what the model reads. A token that ends every text
/// stays.
fn cut_text(served: &Served, text: &str) -> Result<Prompt, ApiError> {
    let (tokenizer, limit) = (served.model()?.tokenizer()?, served.model()?.longest_text());
    // text after the longest tokens is cut in any case
    let mut end = text.len().min(limit.saturating_mul(tokenizer.longest_token().max(64)));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut tokens = tokenizer.encode_prompt(&text[..end])?;
    if tokens.len() > limit {
        let empty = tokenizer.encode_prompt("")?;
        let end =
            tokens.last().copied().filter(|last| empty.len() > 1 && empty.last() == Some(last));
        tokens.truncate(limit - usize::from(end.is_some()));
        tokens.extend(end);
    }
    Ok(Prompt::Tokens(tokens))
}

#[derive(Serialize)]
struct Answered {
    model: String,
    embeddings: Vec<Vectors>,
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: usize,
}

/// Checks `options`, which change no embedding, and that no field is left.
fn finish(fields: &mut Fields) -> Result<(), ApiError> {
    options(fields)?;
    fields.finish(&[extras::ANY, extras::OLLAMA])
}

/// `POST /api/embed`
pub(in crate::api) async fn embed(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let begun = Instant::now();
    let keep::Asked { entry, name: asked, keep } = keep::take(&app, &caller, &mut fields)?;
    if !fields.has("input") {
        return Err(fields.missing("input", "a string or a list of strings"));
    }
    let texts = fields.strings("input")?;
    let limit = app.config.limits.batch;
    if texts.len() > limit {
        let message = format!("input has {} elements, expected at most {limit}", texts.len());
        return Err(ApiError::field("input", message));
    }
    let truncates = fields.boolean("truncate")?.unwrap_or(true);
    let dimensions = fields.count("dimensions", 1)?;
    finish(&mut fields)?;
    entry.keep(keep);
    let name = &entry.config.name;
    let all = run(&app, &caller, &asked, texts, dimensions, truncates).await?;
    let tokens: usize = all.iter().map(|one| one.tokens).sum();
    let vector = |one: Embedding| Vectors { values: one.values, width: None };
    large(Answered {
        model: name.clone(),
        embeddings: all.into_iter().map(vector).collect(),
        total_duration: nanoseconds(begun.elapsed()),
        load_duration: 0,
        prompt_eval_count: tokens,
    })
    .await
}

/// `POST /api/embeddings`, the older path for one text.
pub(in crate::api) async fn embeddings(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let keep::Asked { entry, name: asked, keep } = keep::take(&app, &caller, &mut fields)?;
    let text = fields.string("prompt")?.ok_or_else(|| fields.missing("prompt", "a string"))?;
    finish(&mut fields)?;
    entry.keep(keep);
    let all = run(&app, &caller, &asked, vec![text], None, true).await?;
    let values = all.into_iter().next().map(|one| one.values).unwrap_or_default();
    Ok(Answer(json!({"embedding": values})))
}
