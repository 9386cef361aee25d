//! Tokens of texts, texts of tokens, prompts of chats.

use std::sync::Arc;

use axum::{Json as Answer, extract::State};
use pelton::tokenizer::Special;
use serde_json::{Value, json};

use super::super::openai::chat;
use crate::{
    app::{App, Json},
    error::ApiError,
    generate,
};

/// `POST /tokenize`: llama.cpp's fields, and vLLM's.
pub(in crate::api) async fn tokenize(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let lease = app.registry.lease_or_first(model.as_deref()).await?;
    let pieces = fields.boolean("with_pieces")?.unwrap_or(false);
    if fields.has("messages") {
        let request = chat::take(&app, &mut fields)?;
        return generate::blocking(move || {
            let tokens = lease.encode(&request.render(&lease)?.prompt)?;
            Ok(Answer(json!({
                "tokens": tokens, "count": tokens.len(), "max_model_len": lease.model()?.context(),
            })))
        })
        .await;
    }
    // vLLM adds special tokens to a prompt unless told, llama.cpp does not to a content
    let (text, vllm) = match fields.string("prompt")? {
        Some(text) => (text, true),
        None => match fields.string("content")? {
            Some(text) => (text, false),
            None => return Err(fields.missing("content", "a string")),
        },
    };
    let vllm_adds = fields.boolean("add_special_tokens")?.unwrap_or(true);
    let adds = fields.boolean("add_special")?.unwrap_or(vllm && vllm_adds);
    let special = match fields.boolean("parse_special")?.unwrap_or(true) {
        true => Special::Parse,
        false => Special::Ignore,
    };
    generate::blocking(move || {
        let (model, tokenizer) = (lease.model()?, lease.model()?.tokenizer()?);
        let tokens = match adds {
            true => tokenizer.encode_prompt(&text)?,
            false => tokenizer.encode(&text, special)?,
        };
        let count = tokens.len();
        let tokens: Value = match pieces {
            false => tokens.into(),
            true => tokens
                .iter()
                .map(|&id| {
                    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
                    let piece = match std::str::from_utf8(bytes) {
                        Ok(text) => Value::from(text),
                        Err(_) => Value::from(bytes),
                    };
                    json!({"id": id, "piece": piece})
                })
                .collect(),
        };
        Ok(Answer(json!({"tokens": tokens, "count": count, "max_model_len": model.context()})))
    })
    .await
}

/// `POST /detokenize`
pub(in crate::api) async fn detokenize(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let expected = "a list of token ids";
    let tokens = fields.ids("tokens")?.ok_or_else(|| fields.missing("tokens", expected))?;
    let lease = app.registry.lease_or_first(model.as_deref()).await?;
    generate::blocking(move || {
        let tokenizer = lease.model()?.tokenizer()?;
        let vocab = tokenizer.vocab_size();
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(pelton::Error::UnknownToken { token, vocab }.into());
        }
        let text = tokenizer.decode(&tokens, true);
        Ok(Answer(json!({"prompt": text, "content": text})))
    })
    .await
}

/// `POST /apply-template`
pub(in crate::api) async fn apply_template(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let lease = app.registry.lease_or_first(model.as_deref()).await?;
    let request = chat::take(&app, &mut fields)?;
    generate::blocking(move || Ok(Answer(json!({"prompt": request.render(&lease)?.text()})))).await
}

/// `POST /v1/chat/completions/input_tokens`: the tokens of a chat's prompt.
pub(in crate::api) async fn input_tokens(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let lease = app.registry.lease_or_first(model.as_deref()).await?;
    let request = chat::take(&app, &mut fields)?;
    generate::blocking(move || {
        let tokens = lease.encode(&request.render(&lease)?.prompt)?;
        Ok(Answer(json!({"object": "response.input_tokens", "input_tokens": tokens.len()})))
    })
    .await
}
