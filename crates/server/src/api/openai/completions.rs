//! Completions: texts after prompts.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{extract::State, response::Response};
use pelton::{Prompt, PromptToken, chat::Event};
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
    generate::{self, Batch, Context, Options, Piece, ReplyRun, TokenRun},
    input::{Fields, extras, metadata},
    wire::{Broken, Format, Frames, Sink, grow, new_id, respond, send},
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

/// A prompt whose texts are submitted.
struct Planned {
    tokens: Vec<u32>,
    echo: String,
    /// The two ends of the way of its log-probabilities from its first text to the others.
    own: Mutex<Option<watch::Sender<Arc<[PromptToken]>>>>,
    first: Option<watch::Receiver<Arc<[PromptToken]>>>,
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
        if !options.take_limit(fields, &["max_tokens", "n_predict"])? {
            options.usual_tokens = Some(MAX_TOKENS);
        }
        let log_probs = fields.integer("logprobs", 0..=20)?;
        options.log_probs = log_probs.and_then(|top| usize::try_from(top).ok());
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
        metadata(fields)?;
        let suffix = fields.string("suffix")?.filter(|suffix| !suffix.is_empty());
        fields.finish(&[extras::ANY, extras::TEXT])?;
        Ok(Self { suffix, prompts, options, n, best_of, echo, stream, include_usage, log_probs })
    }

    /// The tokens of a prompt, with the suffix if there is one.
    fn tokens(&self, context: &Context, prompt: &Prompt) -> Result<Vec<u32>, ApiError> {
        match (prompt, &self.suffix) {
            (_, None) => context.lease.encode(prompt),
            (Prompt::Text(text), Some(suffix)) => {
                generate::infill_prompt(&context.lease, text, suffix)
            }
            (_, Some(_)) => {
                Err(ApiError::field("suffix", "suffix is there, expected texts as prompts"))
            }
        }
    }

    /// How many log-probabilities each token of a prompt has in the answer, if any.
    fn of_prompt(&self) -> Option<usize> {
        self.options.log_probs.filter(|_| self.echo && self.log_probs)
    }

    /// Encodes the prompts and submits their texts, as far as the queue has room for them. Blocks
    /// for as long as that takes.
    fn start(self: &Arc<Self>, context: &Context) -> Result<(Vec<Text>, Batch<Text>), ApiError> {
        let model = context.lease.model()?;
        let mut planned = Vec::with_capacity(self.prompts.len());
        for prompt in &self.prompts {
            let tokens = self.tokens(context, prompt)?;
            let echo = match prompt {
                _ if !self.echo => String::new(),
                Prompt::Text(text) => text.clone(),
                _ => model.tokenizer()?.decode(&tokens, true),
            };
            let (own, first) = match self.of_prompt() {
                Some(_) => {
                    let (sender, receiver) = watch::channel(Arc::default());
                    (Some(sender), Some(receiver))
                }
                None => (None, None),
            };
            planned.push(Planned { tokens, echo, own: Mutex::new(own), first });
        }
        let (request, context) = (Arc::clone(self), context.clone());
        let count = planned.len() * self.best_of;
        let mut batch = Batch::new(count, self.options.compiles(), move |index| {
            request.submit(&planned[index / request.best_of], index, &context)
        });
        Ok((batch.submit()?, batch))
    }

    /// Submits the text with a number.
    fn submit(&self, prompt: &Planned, index: usize, context: &Context) -> Result<Text, ApiError> {
        let i = index % self.best_of;
        let mut options = self.options.of_text(i, context);
        options.prompt_logprobs = self.of_prompt().filter(|_| i == 0);
        let options = generate::constrain(options, &self.options.output);
        let run = TokenRun::start(context, &prompt.tokens.clone().into(), &options)?;
        let own = prompt.own.lock().unwrap_or_else(PoisonError::into_inner).take();
        let scored = match (own, &prompt.first) {
            (Some(own), _) => Scored::Own(own),
            (None, Some(first)) => Scored::First(first.clone()),
            (None, None) => Scored::No,
        };
        Ok(Text { run, index, first: i == 0, echo: prompt.echo.clone(), scored })
    }
}

/// Takes `stream_options` out of a body.
pub(super) fn include_usage(fields: &mut Fields) -> Result<bool, ApiError> {
    let Some(mut options) = fields.object("stream_options")? else { return Ok(false) };
    let include = options.boolean("include_usage")?.unwrap_or(false);
    options.finish(&[extras::STREAM_OPTIONS])?;
    Ok(include)
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
    let head = json!({
        "id": id, "object": "text_completion", "created": created, "model": name,
        "system_fingerprint": context.lease.fingerprint(),
    });
    let (best_of, n) = (request.best_of, request.n);
    let started = context.clone();
    let (streams, with_usage) = (request.stream, request.include_usage || !request.stream);
    let log_probs = request.log_probs;
    let request = Arc::new(request);
    let (texts, batch) =
        generate::starting(request.options.compiles(), move || request.start(&started)).await?;
    let keep_alive = app.config.limits.keep_alive;
    let join = move |body: &mut Value, chunk: &Value| join(body, chunk, best_of, n);
    respond(streams, Format::Events(Shape::OpenAi), keep_alive, join, |frames| async move {
        let run = |text: Text| {
            let log_probs = log_probs.then(TextLogProbs::new);
            let (head, ranked) = (head.clone(), best_of > n);
            let chunks = Chunks { head, log_probs, ranked, ..Chunks::of(&text) };
            text.send(chunks, frames.clone(), context.clone())
        };
        let count = run_all(texts, batch, run).await?;
        if with_usage {
            frames.usage(head, count.json()).await?;
        }
        Ok(frames.done().await?)
    })
    .await
}

/// Adds a chunk to whole completions; the last one has the tokens.
fn join(body: &mut Value, chunk: &Value, best_of: usize, n: usize) {
    if body.is_null() {
        *body = chunk.clone();
        body["choices"] = json!([]);
    }
    grow(&mut body["choices"], &chunk["choices"]);
    if let Some(usage) = chunk.get("usage") {
        body["usage"] = usage.clone();
        let all = body["choices"].as_array_mut().map(std::mem::take);
        body["choices"] = best(all.unwrap_or_default(), best_of, n);
    }
}

/// The `n` likeliest texts of each `best_of`.
fn best(mut all: Vec<Value>, best_of: usize, n: usize) -> Value {
    let mut choices = Vec::new();
    for group in all.chunks_mut(best_of.max(1)) {
        if best_of > n {
            let score = |choice: &Value| choice[SCORE].as_f64().unwrap_or(f64::NEG_INFINITY);
            group.sort_by(|a, b| score(b).total_cmp(&score(a)));
        }
        choices.extend(group.iter_mut().take(n).map(Value::take));
    }
    for (index, choice) in choices.iter_mut().enumerate() {
        choice["index"] = index.into();
        if let Some(choice) = choice.as_object_mut() {
            choice.remove(SCORE);
        }
    }
    choices.into()
}

/// The mean log-probability of a text, until the likeliest ones are chosen.
const SCORE: &str = "score";

impl Scored {
    /// The tokens of the prompt with their log-probabilities, which come with the first piece.
    async fn tokens(self, reply: &mut ReplyRun) -> Result<Arc<[PromptToken]>, ApiError> {
        Ok(match self {
            Self::No => Arc::default(),
            Self::Own(sender) => {
                let tokens: Arc<[PromptToken]> = reply.prompt().await?.into();
                sender.send_replace(Arc::clone(&tokens));
                tokens
            }
            Self::First(mut receiver) => {
                let tokens = receiver.wait_for(|tokens| !tokens.is_empty()).await;
                // the request of the first text has failed
                Arc::clone(&*tokens.map_err(|_| ApiError::from(pelton::Error::Stopped))?)
            }
        })
    }
}

impl Text {
    /// Writes the text.
    async fn send(
        self,
        mut chunks: Chunks,
        frames: Frames,
        context: Context,
    ) -> Result<Count, Broken> {
        let tokenizer = context.lease.model()?.tokenizer().map_err(ApiError::from)?;
        let mut reply = ReplyRun::text(self.run);
        let prompt = self.scored.tokens(&mut reply).await?;
        if let Some(all) = &mut chunks.log_probs {
            all.add_prompt(tokenizer, &prompt, &self.echo);
        }
        if !self.echo.is_empty() {
            frames.data(&chunks.chunk(&self.echo, None)).await?;
        }
        Ok(send(reply, chunks, &frames).await?.count)
    }
}

/// A text as chunks.
#[derive(Default)]
struct Chunks {
    head: Value,
    index: usize,
    /// Whether the tokens of the prompt count.
    first: bool,
    /// Whether the last chunk has the score.
    ranked: bool,
    /// The log-probabilities of tokens whose text comes next, if asked for.
    log_probs: Option<TextLogProbs>,
    /// The sum of all log-probabilities.
    sum: f64,
    count: Count,
}

impl Chunks {
    fn of(text: &Text) -> Self {
        Self { index: text.index, first: text.first, ..Self::default() }
    }

    fn chunk(&mut self, text: &str, reason: Option<&str>) -> Value {
        let mut chunk = self.head.clone();
        let log_probs = self.log_probs.as_mut().map(TextLogProbs::take);
        chunk["choices"] = json!([{
            "index": self.index, "text": text, "logprobs": log_probs, "finish_reason": reason,
        }]);
        chunk
    }
}

impl Sink for Chunks {
    fn piece(&mut self, piece: Piece, reply: &ReplyRun) -> Result<Vec<Value>, ApiError> {
        Ok(match piece {
            Piece::Token(token) => {
                self.sum += f64::from(token.log_prob);
                if let Some(all) = &mut self.log_probs {
                    all.add(reply.tokenizer()?, &token);
                }
                Vec::new()
            }
            Piece::Event(Event::Content(text)) => vec![self.chunk(&text, None)],
            Piece::Event(_) => Vec::new(),
            Piece::End(end) => {
                self.count.add(&end.stats, 0, self.first);
                let mut chunk = self.chunk("", Some(finish_reason(end.reason, false)));
                if self.ranked {
                    let tokens = end.stats.generated_tokens.max(1);
                    chunk["choices"][0][SCORE] = (self.sum / tokens as f64).into();
                }
                vec![chunk]
            }
        })
    }
}
