//! Text between a prefix and a suffix (fill in the middle).

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse, Response},
};
use pelton::Prompt;
use serde_json::json;

use crate::{
    app::{App, Caller, Json},
    error::{ApiError, Shape},
    run::{self, Options, TokenRun},
    wire::{Format, stream},
};

/// `POST /infill`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let expected = "the text before";
    let before = fields.string("input_prefix")?;
    let before = before.ok_or_else(|| fields.missing("input_prefix", expected))?;
    let after = fields.string("input_suffix")?.unwrap_or_default();
    let mut prefix = String::new();
    for mut file in fields.objects("input_extra")? {
        if let Some(name) = file.string("filename")? {
            prefix.push_str(&format!("{name}\n"));
        }
        prefix.push_str(&file.string("text")?.unwrap_or_default());
        prefix.push('\n');
    }
    prefix.push_str(&before);
    prefix.push_str(&fields.string("prompt")?.unwrap_or_default());
    let mut options = Options::take(&mut fields)?;
    options.take_stop(&mut fields, "stop")?;
    for name in ["max_tokens", "n_predict"] {
        let count = fields.integer(name, -1..=i64::from(u32::MAX))?;
        let count = count.and_then(|count| usize::try_from(count).ok()).filter(|&count| count > 0);
        options.max_tokens = count.or(options.max_tokens);
    }
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let lease = app.registry.lease(model.as_deref()).await?;
    let context = app.context(lease, &caller, options.cache_salt.as_deref());
    let name = context.lease.name.clone();
    let mut run = run::blocking(move || {
        let tokens = Prompt::Tokens(run::infill_prompt(&context.lease, &prefix, &after)?);
        let request = options.request(tokens, 0, &context);
        TokenRun::start(&context, request)
    })
    .await?;
    let last = |end: &run::End, text: &str| {
        json!({
            "content": text, "stop": true, "model": name,
            "tokens_evaluated": end.stats.prompt_tokens,
            "tokens_predicted": end.stats.generated_tokens,
            "tokens_cached": end.stats.cached_tokens,
            "truncated": false,
            "stop_type": match end.reason {
                pelton::FinishReason::Length => "limit",
                pelton::FinishReason::Stop => "word",
                _ => "eos",
            },
            "stopping_word": end.stop.clone().unwrap_or_default(),
        })
    };
    if streams {
        let name = name.clone();
        let keep_alive = app.config.limits.keep_alive;
        return Ok(stream(Format::Events(Shape::OpenAi), keep_alive, |frames| async move {
            while let Some(token) = run.next().await? {
                if !token.text.is_empty() {
                    frames.data(&json!({"content": token.text, "stop": false})).await?;
                }
            }
            let end = run.end();
            frames
                .data(&json!({
                    "content": "", "stop": true, "model": name,
                    "tokens_evaluated": end.stats.prompt_tokens,
                    "tokens_predicted": end.stats.generated_tokens,
                }))
                .await?;
            Ok(())
        }));
    }
    let mut text = String::new();
    while let Some(token) = run.next().await? {
        text.push_str(&token.text);
    }
    Ok(Answer(last(&run.end(), &text)).into_response())
}
