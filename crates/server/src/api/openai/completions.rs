//! Completions: texts after prompts.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse, Response},
};
use pelton::{Prompt, PromptToken, Token};
use serde_json::{Value, json};
use tokio::sync::watch;

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
    run::{self, Context, Options, TokenRun},
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

/// Where a text of a prompt has the log-probabilities of the prompt from.
enum Scored {
    /// Nobody has asked for them.
    No,
    /// From its own request, for the other texts of the prompt too.
    Own(watch::Sender<Arc<[PromptToken]>>),
    /// From the request of the first text of the prompt.
    First(watch::Receiver<Arc<[PromptToken]>>),
}

/// One text that is generated, with the text and the log-probabilities of its prompt.
struct Text {
    run: TokenRun,
    index: usize,
    /// Whether it is the first of its prompt.
    first: bool,
    echo: String,
    scored: Scored,
}

impl Request {
    fn take(app: &App, fields: &mut Fields) -> Result<Self, ApiError> {
        let prompts = prompts::take(app, fields, "prompt")?;
        let mut options = Options::take(fields)?;
        options.take_stop(fields, "stop")?;
        options.take_output(fields)?;
        options.max_tokens = Some(fields.count("max_tokens", 0)?.unwrap_or(MAX_TOKENS));
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
        let top = self.options.log_probs.filter(|_| self.echo && self.log_probs);
        let mut texts = Vec::with_capacity(self.prompts.len() * self.best_of);
        for prompt in &self.prompts {
            let tokens = self.tokens(context, prompt)?;
            let echo = match prompt {
                _ if !self.echo => String::new(),
                Prompt::Text(text) => text.clone(),
                _ => model.tokenizer()?.decode(&tokens, true),
            };
            let (mut own, first) = match top {
                Some(_) => {
                    let (sender, receiver) = watch::channel(Arc::default());
                    (Some(sender), Some(receiver))
                }
                None => (None, None),
            };
            for i in 0..self.best_of {
                let options = &self.options;
                let prompt = Prompt::Tokens(tokens.clone());
                let mut request = options.request(prompt, i, context);
                request.prompt_log_probs = top.filter(|_| i == 0);
                let request = run::constrain(request, &options.output);
                let scored = match (own.take(), &first) {
                    (Some(own), _) => Scored::Own(own),
                    (None, Some(first)) => Scored::First(first.clone()),
                    (None, None) => Scored::No,
                };
                texts.push(Text {
                    run: TokenRun::start(context, request)?,
                    index: texts.len(),
                    first: i == 0,
                    echo: echo.clone(),
                    scored,
                });
            }
        }
        Ok(texts)
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
        count.add(&self.run.stats(), 0, self.first);
        count
    }

    /// The first token, if there is one, and the log-probabilities of the prompt, which come before.
    async fn begin(
        &mut self,
        tokenizer: &pelton::Tokenizer,
    ) -> Result<(Option<Token>, TextLogProbs), ApiError> {
        let token = self.run.next().await?;
        let prompt = match &mut self.scored {
            Scored::No => Arc::default(),
            Scored::Own(sender) => {
                let tokens: Arc<[PromptToken]> = self.run.prompt().into();
                sender.send_replace(Arc::clone(&tokens));
                tokens
            }
            Scored::First(receiver) => {
                let tokens = receiver.wait_for(|tokens| !tokens.is_empty()).await;
                // the request of the first text has failed
                tokens.map_err(|_| ApiError::from(pelton::Error::Stopped))?.clone()
            }
        };
        let mut all = TextLogProbs::from(0);
        for token in prompt.iter() {
            all.add(tokenizer, token.id, token.log_prob, &token.top);
        }
        Ok((token, all))
    }

    /// The whole text as a choice, its tokens, and its mean log-probability.
    async fn collect(
        mut self,
        context: &Context,
        log_probs: bool,
    ) -> Result<(Value, Count, f64), ApiError> {
        let tokenizer = context.lease.model()?.tokenizer()?;
        let (mut next, mut all) = self.begin(tokenizer).await?;
        let mut text = std::mem::take(&mut self.echo);
        let (mut sum, mut tokens) = (0.0, 0);
        while let Some(token) = next {
            text.push_str(&token.text);
            sum += f64::from(token.log_prob.unwrap_or(0.0));
            tokens += 1;
            all.add(tokenizer, token.id, token.log_prob, &token.top);
            next = self.run.next().await?;
        }
        let reason = finish_reason(self.run.end().reason, false);
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
        let (mut next, begin) = self.begin(tokenizer).await?;
        let mut at = begin.at();
        if !self.echo.is_empty() {
            let log_probs = (!matches!(self.scored, Scored::No)).then_some(begin);
            frames.data(&chunk(&self.echo, log_probs, None)).await?;
        }
        while let Some(token) = next {
            let mut log_probs = None;
            if token.log_prob.is_some() {
                let mut one = TextLogProbs::from(at);
                one.add(tokenizer, token.id, token.log_prob, &token.top);
                at = one.at();
                log_probs = Some(one);
            }
            if !token.text.is_empty() || log_probs.is_some() {
                frames.data(&chunk(&token.text, log_probs, None)).await?;
            }
            next = self.run.next().await?;
        }
        let reason = finish_reason(self.run.end().reason, false);
        frames.data(&chunk("", None, Some(reason))).await?;
        Ok(self.count())
    }
}
