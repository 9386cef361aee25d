//! Completions: texts after prompts.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse, Response},
};
use pelton::Prompt;
use serde_json::{Value, json};

use super::{
    choices::run_all,
    log_probs::TextLogProbs,
    prompts,
    usage::{Count, finish_reason, now},
};
use crate::{
    app::{App, Caller, Json},
    error::{ApiError, Shape},
    input::Fields,
    run::{self, Context, Options, Scored, TokenRun},
    wire::{Broken, Format, Frames, new_id, stream},
};

/// Tokens of a text if the request does not say how many, as in the API of OpenAI.
const MAX_TOKENS: usize = 16;

/// A request for completions.
struct Request {
    prompts: Vec<Prompt>,
    options: Options,
    n: usize,
    best_of: usize,
    suffix: Option<String>,
    echo: bool,
    stream: bool,
    include_usage: bool,
    /// Whether the client has asked for log-probabilities.
    log_probs: bool,
}

/// One text that is generated, with the text and the log-probabilities of its prompt.
struct Text {
    /// `None` for no tokens at all.
    run: Option<TokenRun>,
    index: usize,
    /// Whether it is the first of its prompt.
    first: bool,
    echo: String,
    /// The log-probabilities of the prompt, if asked for.
    scored: Vec<Scored>,
    prompt_tokens: usize,
}

impl Request {
    fn take(app: &App, fields: &mut Fields) -> Result<Self, ApiError> {
        let prompts = prompts::take(app, fields, "prompt")?;
        let mut options = Options::take(fields)?;
        options.take_stop(fields, "stop")?;
        options.take_output(fields)?;
        if !options.take_limit(fields, &["max_tokens", "n_predict"])? {
            options.max_tokens = Some(MAX_TOKENS);
        }
        let log_probs = fields.integer("logprobs", 0..=20)?;
        options.log_probs = log_probs.and_then(|top| u8::try_from(top).ok());
        let log_probs = options.log_probs.is_some();
        let n = fields.integer("n", 1..=128)?.unwrap_or(1) as usize;
        let best_of = fields.integer("best_of", 1..=128)?.map_or(n, |best| best as usize);
        let echo = fields.boolean("echo")?.unwrap_or(false);
        let stream = fields.boolean("stream")?.unwrap_or(false);
        let include_usage = include_usage(fields)?;
        if best_of < n {
            let message = format!("best_of is {best_of}, expected at least n, which is {n}");
            return Err(ApiError::field("best_of", message));
        }
        if best_of > n && stream {
            let message = "best_of is above n, expected a request without stream";
            return Err(ApiError::field("best_of", message));
        }
        if best_of > n && options.log_probs.is_none() {
            options.log_probs = Some(0);
        }
        prompts::check_batch(app, "prompt", prompts.len().saturating_mul(best_of))?;
        fields.string("user")?;
        let suffix = fields.string("suffix")?.filter(|suffix| !suffix.is_empty());
        Ok(Self { suffix, prompts, options, n, best_of, echo, stream, include_usage, log_probs })
    }

    /// The tokens of a prompt, with the suffix if there is one.
    fn tokens(&self, context: &Context, prompt: &Prompt) -> Result<Vec<u32>, ApiError> {
        match (prompt, &self.suffix) {
            (_, None) => context.lease.encode(prompt),
            (Prompt::Text(text), Some(suffix)) => run::infill_prompt(&context.lease, text, suffix),
            (_, Some(_)) => {
                Err(ApiError::field("suffix", "suffix is there, expected texts as prompts"))
            }
        }
    }

    /// Submits all texts. Blocks for as long as that takes.
    fn start(&self, context: &Context) -> Result<Vec<Text>, ApiError> {
        let model = context.lease.model()?;
        let mut texts = Vec::with_capacity(self.prompts.len() * self.best_of);
        for prompt in &self.prompts {
            let tokens = self.tokens(context, prompt)?;
            let echo = match prompt {
                _ if !self.echo => String::new(),
                Prompt::Text(text) => text.clone(),
                _ => model.tokenizer()?.decode(&tokens, true),
            };
            for i in 0..self.best_of {
                let options = &self.options;
                let prompt = Prompt::Tokens(tokens.clone());
                let request = options.request(prompt, i, context);
                let request = run::constrain(request, &options.output);
                let run = match options.max_tokens {
                    Some(0) => {
                        check(model, &tokens)?;
                        None
                    }
                    _ => Some(TokenRun::start(context, request)?),
                };
                texts.push(Text {
                    run,
                    index: texts.len(),
                    first: i == 0,
                    echo: echo.clone(),
                    scored: Vec::new(),
                    prompt_tokens: tokens.len(),
                });
            }
        }
        let asked = self.echo && self.log_probs;
        let Some(top) = self.options.log_probs.filter(|_| asked) else { return Ok(texts) };
        for (i, prompt) in self.prompts.iter().enumerate() {
            let scored = run::score(model, &self.tokens(context, prompt)?, top.into())?;
            for text in &mut texts[i * self.best_of..][..self.best_of] {
                text.scored.clone_from(&scored);
            }
        }
        Ok(texts)
    }
}

/// Checks a prompt that is not run.
fn check(model: &pelton::Model, tokens: &[u32]) -> Result<(), ApiError> {
    let (context, vocab) = (model.context(), model.plan().vocab);
    if tokens.is_empty() {
        return Err(pelton::Error::EmptyPrompt.into());
    }
    if tokens.len() > context {
        return Err(pelton::Error::PromptTooLong { tokens: tokens.len(), context }.into());
    }
    match tokens.iter().find(|&&token| token as usize >= vocab) {
        Some(&token) => Err(pelton::Error::UnknownToken { token, vocab }.into()),
        None => Ok(()),
    }
}

/// Takes `stream_options` out of a body.
pub(super) fn include_usage(fields: &mut Fields) -> Result<bool, ApiError> {
    let options = fields.object("stream_options")?;
    Ok(options.map(|mut options| options.boolean("include_usage")).transpose()?.flatten()
        == Some(true))
}

/// `POST /v1/completions`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let request = Request::take(&app, &mut fields)?;
    let lease = app.registry.lease(model.as_deref()).await?;
    let context = app.context(lease, &caller, request.options.cache_salt.as_deref());
    let (id, created) = (new_id("cmpl-"), now());
    let name = context.lease.name.clone();
    let head = json!({"id": id, "object": "text_completion", "created": created, "model": name});
    let log_probs = request.log_probs;
    let started = context.clone();
    let (request, texts) = run::blocking(move || {
        let texts = request.start(&started)?;
        Ok((request, texts))
    })
    .await?;
    if request.stream {
        let keep_alive = app.config.limits.keep_alive;
        let usage = request.include_usage;
        return Ok(stream(Format::Events(Shape::OpenAi), keep_alive, |frames| async move {
            let each = texts.into_iter();
            let each = each.map(|text| text.send(frames.clone(), head.clone(), context.clone()));
            let count = run_all(each.collect::<Vec<_>>()).await?;
            if usage {
                frames.usage(head, count.json()).await?;
            }
            Ok(frames.done().await?)
        }));
    }
    let mut count = Count::default();
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        let (choice, own, score) = text.collect(&context, log_probs).await?;
        all.push((choice, score));
        count.add_all(&own);
    }
    let mut body = head;
    body["choices"] = best(all, request.best_of, request.n);
    body["usage"] = count.json();
    Ok(Answer(body).into_response())
}

/// The `n` likeliest texts of each `best_of`.
fn best(all: Vec<(Value, f64)>, best_of: usize, n: usize) -> Value {
    let mut choices = Vec::new();
    for group in all.chunks(best_of.max(1)) {
        let mut group: Vec<&(Value, f64)> = group.iter().collect();
        if best_of > n {
            group.sort_by(|a, b| b.1.total_cmp(&a.1));
        }
        choices.extend(group.into_iter().take(n).map(|(choice, _)| choice.clone()));
    }
    for (index, choice) in choices.iter_mut().enumerate() {
        choice["index"] = index.into();
    }
    choices.into()
}

impl Text {
    /// The tokens of the text after its end.
    fn count(&self) -> Count {
        let mut count = Count::default();
        match &self.run {
            Some(run) => count.add(&run.stats(), 0, self.first),
            None if self.first => count.prompt = self.prompt_tokens,
            None => {}
        }
        count
    }

    /// The log-probabilities of the prompt.
    fn begin(&self, tokenizer: &pelton::Tokenizer) -> TextLogProbs {
        let mut all = TextLogProbs::from(0);
        self.scored.iter().for_each(|token| all.add(tokenizer, token));
        all
    }

    /// The whole text as a choice, its tokens, and its mean log-probability.
    async fn collect(
        mut self,
        context: &Context,
        log_probs: bool,
    ) -> Result<(Value, Count, f64), ApiError> {
        let tokenizer = context.lease.model()?.tokenizer()?;
        let mut all = self.begin(tokenizer);
        let mut text = std::mem::take(&mut self.echo);
        let (mut sum, mut tokens) = (0.0, 0);
        let mut reason = "length";
        if let Some(run) = &mut self.run {
            while let Some(token) = run.next().await? {
                text.push_str(&token.text);
                sum += f64::from(token.log_prob.unwrap_or(0.0));
                tokens += 1;
                let (id, log_prob) = (token.id, token.log_prob);
                all.add(tokenizer, &Scored { id, log_prob, top: token.top });
            }
            reason = finish_reason(run.end().reason, false);
        }
        let log_probs = if log_probs { all.json() } else { Value::Null };
        let choice = json!({
            "index": self.index, "text": text, "logprobs": log_probs, "finish_reason": reason,
        });
        Ok((choice, self.count(), sum / f64::from(tokens.max(1))))
    }

    /// Writes the text as chunks.
    async fn send(
        mut self,
        frames: Frames,
        head: Value,
        context: Context,
    ) -> Result<Count, Broken> {
        let tokenizer = context.lease.model()?.tokenizer().map_err(ApiError::from)?;
        let index = self.index;
        let chunk = |text: &str, log_probs: Option<TextLogProbs>, reason: Option<&str>| {
            let mut chunk = head.clone();
            chunk["choices"] = json!([{
                "index": index, "text": text, "logprobs": log_probs.map(TextLogProbs::json),
                "finish_reason": reason,
            }]);
            chunk
        };
        let begin = self.begin(tokenizer);
        let mut at = begin.at();
        if !self.echo.is_empty() {
            let log_probs = (!self.scored.is_empty()).then_some(begin);
            frames.data(&chunk(&self.echo, log_probs, None)).await?;
        }
        let mut reason = "length";
        if let Some(run) = &mut self.run {
            while let Some(token) = run.next().await? {
                let mut log_probs = None;
                if token.log_prob.is_some() {
                    let mut one = TextLogProbs::from(at);
                    let (id, log_prob) = (token.id, token.log_prob);
                    one.add(tokenizer, &Scored { id, log_prob, top: token.top });
                    at = one.at();
                    log_probs = Some(one);
                }
                if !token.text.is_empty() || log_probs.is_some() {
                    frames.data(&chunk(&token.text, log_probs, None)).await?;
                }
            }
            reason = finish_reason(run.end().reason, false);
        }
        frames.data(&chunk("", None, Some(reason))).await?;
        Ok(self.count())
    }
}
