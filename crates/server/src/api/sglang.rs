//! Texts after prompts, with SGLang's own fields.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use pelton::FinishReason;
use serde_json::{Value, json};

use super::openai::{choices::run_all, log_probs, prompts, usage::Count};
use crate::{
    app::{App, Caller, Json},
    error::{ApiError, Shape},
    generate::{self, Batch, Context, End, Options, Output, TokenRun},
    input::{Fields, extras, parse},
    models::Encoded,
    wire::{Broken, Format, Frames, grow, new_id, respond},
};

/// Tokens of a text if the request does not say how many, as in SGLang.
const MAX_TOKENS: usize = 128;

/// The fields of a request beside its prompts.
#[derive(Clone, Copy)]
struct Wanted {
    /// Whether the answer is a list of texts.
    list: bool,
    streams: bool,
    log_probs: bool,
    /// Whether log-probabilities have the texts of their tokens.
    texts: bool,
}

/// Takes `sampling_params` out of a body: the options, and how many texts each prompt has.
fn sampling(fields: &mut Fields) -> Result<(Options, usize), ApiError> {
    let mut params = fields.object("sampling_params")?.unwrap_or_default();
    let mut options = Options::take(&mut params)?;
    options.take_stop(&mut params, "stop")?;
    if !options.take_limit(&mut params, &["max_new_tokens"])? {
        options.max_tokens = Some(MAX_TOKENS);
    }
    if let Some(schema) = params.string("json_schema")? {
        options.output = Output::Schema(parse(&schema)?);
    }
    if let Some(regex) = params.string("regex")? {
        options.output = Output::Regex(regex);
    }
    if let Some(grammar) = params.string("ebnf")? {
        options.output = Output::Grammar(grammar);
    }
    let n = params.integer("n", 1..=128)?.unwrap_or(1) as usize;
    params.finish(&[extras::ANY, extras::TEXT])?;
    Ok((options, n))
}

/// A text that is generated.
struct Text {
    wanted: Wanted,
    id: String,
    index: usize,
    run: TokenRun,
    context: Context,
    all: String,
    ids: Vec<u32>,
    log_probs: Vec<Value>,
}

impl Text {
    /// The text so far, or the whole one at its end.
    fn so_far(&self, end: Option<&End>) -> Value {
        let stats = self.run.stats();
        let reason = end.map(|end| match end.reason {
            FinishReason::Length => json!({"type": "length", "length": stats.generated_tokens}),
            _ => match &end.stop {
                Some(stop) => json!({"type": "stop", "matched": stop}),
                None => json!({"type": "stop", "matched": self.ids.last()}),
            },
        });
        let mut value = json!({
            "text": self.all,
            "meta_info": {
                "id": self.id, "finish_reason": reason, "prompt_tokens": stats.prompt_tokens,
                "completion_tokens": stats.generated_tokens, "cached_tokens": stats.cached_tokens,
            },
        });
        if self.wanted.list {
            value["index"] = self.index.into();
        }
        if let Some(end) = end {
            let seconds = (end.stats.prefill + end.stats.decode).as_secs_f64();
            value["output_ids"] = self.ids.clone().into();
            value["meta_info"]["e2e_latency"] = seconds.into();
            if self.wanted.log_probs {
                value["meta_info"]["output_token_logprobs"] = self.log_probs.clone().into();
            }
        }
        value
    }

    /// Writes the text: in a stream each object has all of the text so far, as SGLang writes it.
    async fn send(mut self, frames: Frames) -> Result<Count, Broken> {
        while let Some(token) = self.run.next().await? {
            self.all.push_str(&token.text);
            self.ids.push(token.id);
            if let (Some(log_prob), true) = (token.logprob, self.wanted.log_probs) {
                let tokenizer = self.context.lease.model()?.tokenizer().map_err(ApiError::from)?;
                let text = self.wanted.texts.then(|| log_probs::text(tokenizer, token.id));
                self.log_probs.push(json!([log_probs::number(log_prob), token.id, text]));
            }
            if frames.is_stream() && !token.text.is_empty() {
                frames.data(&self.so_far(None)).await?;
            }
        }
        let end = self.run.end();
        frames.data(&self.so_far(Some(&end))).await?;
        Ok(Count::default())
    }
}

/// `POST /generate`
pub(super) async fn generate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let (has_text, has_ids) = (fields.has("text"), fields.has("input_ids"));
    if has_text && has_ids {
        let message = "text and input_ids are both there, expected one of them";
        return Err(ApiError::field("input_ids", message));
    }
    let name = if has_ids { "input_ids" } else { "text" };
    let is_list = fields.peek(name).is_some_and(|value| match has_ids {
        true => value[0].is_array(),
        false => value.is_array(),
    });
    let prompts = prompts::take(&app, &mut fields, name)?;
    let (mut options, n) = sampling(&mut fields)?;
    let wanted = Wanted {
        list: is_list || n > 1,
        streams: fields.boolean("stream")?.unwrap_or(false),
        log_probs: fields.boolean("return_logprob")?.unwrap_or(false),
        texts: fields.boolean("return_text_in_logprobs")?.unwrap_or(false),
    };
    options.log_probs = wanted.log_probs.then_some(0);
    fields.finish(&[extras::ANY, extras::TEXT, extras::SGLANG])?;
    let count = prompts.len() * n;
    prompts::check_batch(&app, name, count)?;
    let lease = app.registry.lease(model.as_deref()).await?;
    let context = app.context(lease, &caller, None);
    let (started, compiles) = (context.clone(), options.compiles());
    let (texts, batch) = generate::starting(compiles, move || {
        let tokens = prompts.iter().map(|prompt| Ok(started.lease.encode(prompt)?.into()));
        let tokens: Vec<Encoded> = tokens.collect::<Result<_, ApiError>>()?;
        let mut batch = Batch::new(count, compiles, move |index| {
            let text = generate::constrain(options.of_text(index % n, &started), &options.output);
            Ok((index, TokenRun::start(&started, &tokens[index / n], &text)?))
        });
        Ok((batch.submit()?, batch))
    })
    .await?;
    let join = move |body: &mut Value, text: &Value| match wanted.list {
        true => grow(body, &json!([text])),
        false => body.clone_from(text),
    };
    let keep_alive = app.config.limits.keep_alive;
    respond(wanted.streams, Format::Events(Shape::OpenAi), keep_alive, join, |frames| async move {
        let run = |(index, run)| {
            let (id, all) = (new_id(""), String::new());
            let (ids, log_probs) = (Vec::new(), Vec::new());
            let context = context.clone();
            Text { wanted, id, index, run, context, all, ids, log_probs }.send(frames.clone())
        };
        run_all(texts, batch, run).await?;
        Ok(frames.done().await?)
    })
    .await
}
