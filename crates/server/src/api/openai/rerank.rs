//! Relevance of documents.

use std::sync::Arc;

use axum::{Json as Answer, extract::State};
use pelton::{RerankOptions, Score};
use serde_json::{Value, json};

use super::prompts::check_batch;
use crate::{
    app::{App, Caller, Json},
    error::ApiError,
    generate,
    input::{Fields, extras},
};

/// The documents: texts, or objects with a text.
fn documents(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let name = if fields.has("texts") { "texts" } else { "documents" };
    let path = fields.at(name);
    let list = fields.list(name)?.ok_or_else(|| fields.missing("documents", "a list of texts"))?;
    if list.is_empty() {
        return Err(fields.wrong(name, &Value::Array(list), "a list with at least one text"));
    }
    let one = |(i, value)| match value {
        Value::String(text) => Ok(text),
        other => {
            let mut object = Fields::of(format!("{path}[{i}]"), other)?;
            object.string("text")?.ok_or_else(|| object.missing("text", "a string"))
        }
    };
    list.into_iter().enumerate().map(one).collect()
}

/// `POST /v1/rerank`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let query = fields.string("query")?.ok_or_else(|| fields.missing("query", "a string"))?;
    let documents = documents(&mut fields)?;
    check_batch(&app, "documents", documents.len())?;
    let top = fields.count("top_n", 1)?.unwrap_or(usize::MAX);
    let show = fields.boolean("return_documents")?.unwrap_or(false);
    let raw = fields.boolean("raw_scores")?.unwrap_or(false);
    fields.finish(&[extras::ANY, extras::VECTORS])?;
    let lease = app.registry.lease_scorer(model.as_deref()).await?;
    let context = app.context(lease, &caller, None);
    let options = RerankOptions::default().raw(raw);
    let shown = if show { documents.clone() } else { Vec::new() };
    let scores = generate::rerank(&context, vec![query], documents, options).await?;
    let tokens: usize = scores.iter().map(|score| score.tokens).sum();
    let mut scores: Vec<(usize, Score)> = scores.into_iter().enumerate().collect();
    scores.sort_by(|(i, a), (j, b)| b.score.total_cmp(&a.score).then(i.cmp(j)));
    scores.truncate(top);
    let one = |(index, score): (usize, Score)| {
        let mut result = json!({"index": index, "relevance_score": score.score});
        if let Some(document) = shown.get(index) {
            result["document"] = json!({"text": document});
        }
        result
    };
    let results: Vec<Value> = scores.into_iter().map(one).collect();
    Ok(Answer(json!({
        "object": "list", "model": context.lease.name, "results": results,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })))
}
