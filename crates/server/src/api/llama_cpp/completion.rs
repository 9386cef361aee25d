//! Texts after prompts, with llama.cpp's own fields.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse, Response},
};
use pelton::{FinishReason, Prompt};
use serde_json::{Value, json};

use super::{
    super::openai::{log_probs, prompts, usage},
    pictured::Pictured,
};
use crate::{
    app::{App, Caller, Json},
    error::{ApiError, Shape},
    generate::{self, Context, End, LogToken, Options, TokenRun},
    input::{Fields, extras},
    models::{Encoded, Served},
    wire::{Broken, Format, Frames, stream},
};

/// How a text is generated and written.
pub(super) struct Wanted {
    options: Options,
    /// Whether the prompt is only put into the cache: a pass over it ends in one token, which is
    /// not shown.
    warms: bool,
    streams: bool,
    /// Whether the ids of tokens are in the answer.
    ids: bool,
    log_probs: bool,
}

impl Wanted {
    /// Takes the fields that all of llama.cpp's own paths have.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let mut options = Options::take(fields)?;
        options.take_stop(fields, "stop")?;
        options.take_output(fields)?;
        options.take_limit(fields, &["max_tokens", "n_predict"])?;
        let warms = options.max_tokens == Some(0);
        if warms {
            options.max_tokens = Some(1);
        }
        let log_probs = fields.integer("n_probs", 0..=20)?.unwrap_or(0);
        options.log_probs = usize::try_from(log_probs).ok().filter(|&count| count > 0);
        let streams = fields.boolean("stream")?.unwrap_or(false);
        let ids = fields.boolean("return_tokens")?.unwrap_or(false);
        fields.finish(&[extras::ANY, extras::TEXT, extras::STREAM])?;
        Ok(Self { warms, streams, ids, log_probs: options.log_probs.is_some(), options })
    }

    /// The namespace of cached prefixes that the client chose.
    pub(super) fn salt(&self) -> Option<&str> {
        self.options.cache_salt.as_deref()
    }

    /// Submits a prompt and answers its text.
    pub(super) async fn answer(
        self,
        app: &App,
        context: Context,
        prompt: impl FnOnce(&Context) -> Result<Encoded, ApiError> + Send + 'static,
    ) -> Result<Response, ApiError> {
        let (started, options) = (context.clone(), self.options.clone());
        let run = generate::starting(options.compiles(), move || {
            let prompt = prompt(&started)?;
            let text = generate::constrain(options.of_text(0, &started), &options.output);
            TokenRun::start(&started, &prompt, &text)
        })
        .await?;
        let streams = self.streams;
        let text = Text { wanted: self, run, context, all: String::new(), ids: Vec::new() };
        match streams {
            true => {
                let keep_alive = app.config.limits.keep_alive;
                Ok(stream(Format::Events(Shape::OpenAi), keep_alive, |frames| text.send(frames)))
            }
            false => Ok(Answer(text.collect().await?).into_response()),
        }
    }
}

/// A text that is generated.
struct Text {
    wanted: Wanted,
    run: TokenRun,
    context: Context,
    all: String,
    ids: Vec<u32>,
}

/// A token's text, and its entry of log-probabilities.
type Piece = (String, u32, Option<Value>);

impl Text {
    async fn next(&mut self) -> Result<Option<Piece>, ApiError> {
        let Some(token) = self.run.next().await? else { return Ok(None) };
        if self.wanted.warms {
            return Ok(Some((String::new(), token.id, None)));
        }
        self.all.push_str(&token.text);
        self.ids.push(token.id);
        let mut entry = None;
        if let Some(log_prob) = token.logprob {
            let tokenizer = self.context.lease.model()?.tokenizer()?;
            let token = LogToken { id: token.id, log_prob, top: token.top.clone() };
            entry = Some(log_probs::llama_cpp(tokenizer, &token));
        }
        Ok(Some((token.text, token.id, entry)))
    }

    /// The last object: that of a whole text, or the last one of a stream.
    fn last(&mut self, content: &str, entries: Vec<Value>) -> Value {
        let end = self.run.end();
        let mut last = self.ending(&end);
        last["content"] = content.into();
        last["tokens"] = match self.wanted.ids && !self.wanted.streams {
            true => self.ids.clone().into(),
            false => json!([]),
        };
        if self.wanted.log_probs && !self.wanted.streams {
            last["completion_probabilities"] = entries.into();
        }
        last
    }

    fn ending(&self, end: &End) -> Value {
        let stats = &end.stats;
        json!({
            "index": 0, "stop": true, "model": self.context.lease.name, "id_slot": -1,
            "tokens_evaluated": stats.prompt_tokens,
            "tokens_predicted": if self.wanted.warms { 0 } else { stats.generated_tokens },
            "tokens_cached": stats.cached_tokens,
            "truncated": false, "has_new_line": self.all.contains('\n'),
            "stop_type": match end.reason {
                FinishReason::Length => "limit",
                FinishReason::Stop => "word",
                _ => "eos",
            },
            "stopping_word": end.stop.clone().unwrap_or_default(),
            "timings": usage::timings(stats),
        })
    }

    async fn collect(mut self) -> Result<Value, ApiError> {
        let mut entries = Vec::new();
        while let Some((_, _, entry)) = self.next().await? {
            entries.extend(entry);
        }
        let content = self.all.clone();
        Ok(self.last(&content, entries))
    }

    /// Writes the text as llama.cpp does: the object with `stop` is the last one.
    async fn send(mut self, frames: Frames) -> Result<(), Broken> {
        while let Some((text, id, entry)) = self.next().await? {
            if self.wanted.warms || (text.is_empty() && entry.is_none()) {
                continue;
            }
            let stats = self.run.stats();
            let ids = if self.wanted.ids { json!([id]) } else { json!([]) };
            let mut frame = json!({
                "index": 0, "content": text, "tokens": ids, "stop": false, "id_slot": -1,
                "tokens_predicted": stats.generated_tokens,
                "tokens_evaluated": stats.prompt_tokens,
            });
            if let Some(entry) = entry {
                frame["completion_probabilities"] = json!([entry]);
            }
            frames.data(&frame).await?;
        }
        let last = self.last("", Vec::new());
        Ok(frames.data(&last).await?)
    }
}

/// The prompt of a request.
enum Given {
    Plain(Prompt),
    Pictured(Pictured),
}

impl Given {
    /// Encodes it. Blocks for as long as that takes.
    fn encode(&self, served: &Served) -> Result<Encoded, ApiError> {
        match self {
            Self::Plain(prompt) => Ok(served.encode(prompt)?.into()),
            Self::Pictured(prompt) => prompt.encode(served),
        }
    }
}

/// Takes the only prompt out of a body.
fn one_prompt(app: &App, fields: &mut Fields) -> Result<Prompt, ApiError> {
    let mut prompts = prompts::take(app, fields, "prompt")?;
    match (prompts.pop(), prompts.len()) {
        (Some(prompt), 0) => Ok(prompt),
        _ => {
            let message =
                "prompt has several texts, expected one here; /v1/completions takes a list";
            Err(ApiError::field("prompt", message))
        }
    }
}

/// `POST /completion` and `/completions`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let prompt = match Pictured::take(&mut fields)? {
        Some(pictured) => Given::Pictured(pictured),
        None => Given::Plain(one_prompt(&app, &mut fields)?),
    };
    let wanted = Wanted::take(&mut fields)?;
    let lease = app.registry.lease(model.as_deref()).await?;
    let context = app.context(lease, &caller, wanted.salt());
    wanted.answer(&app, context, move |context| prompt.encode(&context.lease)).await
}
