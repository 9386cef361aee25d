//! Tokens of texts, texts of tokens, prompts of chats.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse, Response},
};
use pelton::tokenizer::{Special, Tokenizer};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::super::openai::chat;
use crate::{
    app::{App, Json},
    error::ApiError,
    generate,
    input::extras,
    models::Lease,
};

/// Limit of a text to be tokenized, in bytes, whatever the context. A tokenizer may need some fifty
/// times the memory of a text without spaces.
const TEXT_MAX: usize = 1 << 20;
/// The same for each position of the model's context: more than most texts have for a token.
const POSITION_BYTES: usize = 8;
/// Fields of `/tokenize` of llama.cpp and vLLM that change nothing here.
const TOKENIZE: &[&str] = &[
    "add_special",
    "add_special_tokens",
    "content",
    "parse_special",
    "prompt",
    "return_token_strs=false",
];
/// Limit of a text that tokens become, in bytes.
const DECODED_MAX: usize = 8 << 20;

/// The response of `/tokenize`, written without a JSON value for each token.
#[derive(Serialize)]
struct Tokens<'a> {
    tokens: List<'a>,
    count: usize,
    max_model_len: usize,
}

#[derive(Serialize)]
#[serde(untagged)]
enum List<'a> {
    Ids(&'a [u32]),
    #[serde(serialize_with = "pieces")]
    Pieces(&'a [u32], &'a Tokenizer),
}

fn pieces<S: Serializer>(
    ids: &&[u32],
    tokenizer: &&Tokenizer,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().map(|&id| {
        let piece = tokenizer.token_bytes(id).unwrap_or_default();
        Piece { id, piece }
    }))
}

impl Tokens<'_> {
    /// The response, made on the calling thread.
    fn response(lease: &Lease, ids: &[u32], pieces: bool) -> Result<Response, ApiError> {
        let model = lease.model()?;
        let tokens = match pieces {
            true => List::Pieces(ids, model.tokenizer()?),
            false => List::Ids(ids),
        };
        let answer = Tokens { tokens, count: ids.len(), max_model_len: model.context() };
        Ok(Answer(answer).into_response())
    }
}

/// A token with its text, or its bytes where they are no text.
#[derive(Serialize)]
struct Piece<'a> {
    id: u32,
    #[serde(serialize_with = "text_or_bytes")]
    piece: &'a [u8],
}

fn text_or_bytes<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serializer.serialize_str(text),
        Err(_) => serializer.collect_seq(bytes.iter()),
    }
}

/// `POST /tokenize`: llama.cpp's fields, and vLLM's.
pub(in crate::api) async fn tokenize(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let lease = app.registry.lease_or_first(model.as_deref()).await?;
    let pieces = fields.boolean("with_pieces")?.unwrap_or(false);
    if fields.has("messages") {
        let mut request = chat::take(&app, &mut fields)?;
        fields.finish(&[extras::ANY, extras::TEXT, extras::STREAM, TOKENIZE])?;
        return generate::blocking(move || {
            let ids = lease.read_tokens(&request.render(&lease)?.prompt)?;
            Tokens::response(&lease, &ids, pieces)
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
    fields.finish(&[extras::ANY, TOKENIZE])?;
    generate::blocking(move || {
        let most = TEXT_MAX.max(lease.model()?.context().saturating_mul(POSITION_BYTES));
        if text.len() > most {
            let (name, len) = (if vllm { "prompt" } else { "content" }, text.len());
            let message =
                format!("{name} has {len} bytes, expected at most {most}: send it in pieces");
            return Err(ApiError::field(name, message));
        }
        let tokenizer = lease.model()?.tokenizer()?;
        let ids = match adds {
            true => tokenizer.encode_prompt(&text)?,
            false => tokenizer.encode(&text, special)?,
        };
        Tokens::response(&lease, &ids, pieces)
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
    fields.finish(&[extras::ANY])?;
    let lease = app.registry.lease_or_first(model.as_deref()).await?;
    generate::blocking(move || {
        let tokenizer = lease.model()?.tokenizer()?;
        let vocab = tokenizer.vocab_size();
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(pelton::Error::UnknownToken { token, vocab }.into());
        }
        let bytes = |&token| tokenizer.token_bytes(token).map_or(0, <[u8]>::len);
        let len: usize = tokens.iter().map(bytes).sum();
        if len > DECODED_MAX {
            let message = format!(
                "tokens have a text of {len} bytes, expected at most {DECODED_MAX}: send them in pieces"
            );
            return Err(ApiError::field("tokens", message));
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
    let mut request = chat::take(&app, &mut fields)?;
    fields.finish(&[extras::ANY, extras::TEXT, extras::STREAM])?;
    generate::blocking(move || Ok(Answer(json!({"prompt": request.render(&lease)?.text()})))).await
}

/// `POST /v1/chat/completions/input_tokens`: the tokens of a chat's prompt.
pub(in crate::api) async fn input_tokens(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let lease = app.registry.lease_or_first(model.as_deref()).await?;
    let mut request = chat::take(&app, &mut fields)?;
    fields.finish(&[extras::ANY, extras::TEXT, extras::STREAM])?;
    generate::blocking(move || {
        let tokens = lease.read_tokens(&request.render(&lease)?.prompt)?;
        Ok(Answer(json!({"object": "response.input_tokens", "input_tokens": tokens.len()})))
    })
    .await
}
