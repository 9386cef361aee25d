//! Chats and texts.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json as Answer,
    extract::State,
    response::{IntoResponse, Response},
};
use pelton::{
    Prompt,
    chat::{Chat, Message},
};
use serde_json::{Value, json};

use super::{
    super::openai::log_probs,
    keep,
    request::{images, messages, options, think, with_images},
    times::{end, now, only},
};
use crate::{
    app::{App, Caller, Json},
    error::ApiError,
    generate::{self, ChatRequest, Context, Piece, ReplyRun, TokenRun},
    input::extras,
    models::{Entry, Keep},
    wire::{Format, Part, Sink, WholeCalls, grow, respond, send},
};

/// Loads or unloads a model, for a request without a text.
async fn load(app: &App, entry: &Arc<Entry>, keep: Keep) -> Result<Value, ApiError> {
    let reason = match keep {
        Keep::For(Duration::ZERO) => {
            entry.unload().await;
            "unload"
        }
        _ => {
            app.registry.load(entry).await?;
            entry.keep(keep);
            "load"
        }
    };
    Ok(only(&entry.config.name, reason))
}

/// `POST /api/chat`
pub(in crate::api) async fn chat(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let keep::Asked { entry, name: asked, keep } = keep::take(&app, &caller, &mut fields)?;
    let messages = messages(&mut fields)?;
    if messages.is_empty() {
        let mut line = load(&app, &entry, keep).await?;
        line["message"] = json!({"role": "assistant", "content": ""});
        return Ok(Answer(line).into_response());
    }
    let streams = fields.boolean("stream")?.unwrap_or(true);
    let mut chat = Chat::new(messages);
    (chat.enable_thinking, chat.reasoning_effort) = think(&mut fields)?;
    let mut request = ChatRequest::new(chat, options(&mut fields)?);
    request.take_tools(&mut fields)?;
    fields.finish(&[extras::ANY, extras::OLLAMA, &["stream_options"]])?;
    entry.keep(keep);
    let name = entry.config.name.clone();
    let form = Form { asked, name, streams, shown: Shown::Chat, compiles: request.compiles() };
    let start = move |context: &Context| Ok(request.start(context)?.pop());
    answer(&app, &caller, form, start).await
}

/// `POST /api/generate`
pub(in crate::api) async fn generate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let keep::Asked { entry, name: asked, keep } = keep::take(&app, &caller, &mut fields)?;
    let prompt = fields.string("prompt")?.unwrap_or_default();
    let images = images(&mut fields)?;
    if prompt.is_empty() && images.is_empty() {
        let mut line = load(&app, &entry, keep).await?;
        line["response"] = "".into();
        return Ok(Answer(line).into_response());
    }
    let streams = fields.boolean("stream")?.unwrap_or(true);
    let raw = fields.boolean("raw")?.unwrap_or(false);
    let suffix = fields.string("suffix")?.filter(|suffix| !suffix.is_empty());
    let system = fields.string("system")?.filter(|system| !system.is_empty());
    if fields.string("template")?.is_some_and(|template| !template.is_empty()) {
        return Err(ApiError::field(
            "template",
            "template is there, expected none: the template is the server's",
        ));
    }
    let (thinks, effort) = think(&mut fields)?;
    let before = fields.ids("context")?.unwrap_or_default();
    if raw {
        let given = [("system", system.is_some()), ("context", !before.is_empty())];
        if let Some((field, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            let message =
                format!("{field} is there and raw true, expected the whole text in prompt");
            return Err(ApiError::field(field, message));
        }
    }
    if (raw || suffix.is_some()) && !images.is_empty() {
        let message = "images has elements and raw or suffix is there, expected a plain prompt";
        return Err(ApiError::field("images", message));
    }
    let options = options(&mut fields)?;
    fields.finish(&[extras::ANY, extras::OLLAMA, &["stream_options"]])?;
    entry.keep(keep);
    let name = entry.config.name.clone();
    if raw || suffix.is_some() {
        let form = Form { asked, name, streams, shown: Shown::Text, compiles: options.compiles() };
        let start = move |context: &Context| {
            let lease = &context.lease;
            let prompt = match suffix {
                None => lease.encode(&Prompt::Text(prompt))?,
                Some(suffix) => generate::infill_prompt(lease, &prompt, &suffix)?,
            };
            let text = generate::constrain(options.of_text(0, context), &options.output);
            Ok(Some(ReplyRun::text(TokenRun::start(context, &prompt.into(), &text)?)))
        };
        return answer(&app, &caller, form, start).await;
    }
    let system = system.map(|system| Message::new("system", system));
    let messages =
        system.into_iter().chain([with_images(Message::new("user", prompt), images)]).collect();
    let mut chat = Chat::new(messages);
    (chat.enable_thinking, chat.reasoning_effort) = (thinks, effort);
    let mut request = ChatRequest::new(chat, options);
    request.before = before;
    let form = Form { asked, name, streams, shown: Shown::Text, compiles: request.compiles() };
    let start = move |context: &Context| Ok(request.start(context)?.pop());
    answer(&app, &caller, form, start).await
}

/// How a reply is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// As a message.
    Chat,
    /// As a text.
    Text,
}

/// The form of an answer.
struct Form {
    /// The name of the model in the request.
    asked: String,
    /// The model's name.
    name: String,
    streams: bool,
    shown: Shown,
    /// Whether its start compiles a constraint.
    compiles: bool,
}

/// Answers with a reply.
async fn answer(
    app: &App,
    caller: &Caller,
    Form { asked, name, streams, shown, compiles }: Form,
    start: impl FnOnce(&Context) -> Result<Option<ReplyRun>, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let begun = Instant::now();
    let lease = app.registry.lease(Some(&asked)).await?;
    let context = app.context(lease, caller, None);
    let Some(reply) = generate::starting(compiles, move || start(&context)).await? else {
        return Err(ApiError::internal("the request has no reply"));
    };
    let lines = Lines { name, shown, begun, calls: WholeCalls::default(), tokens: Vec::new() };
    let keep_alive = app.config.limits.keep_alive;
    respond(streams, Format::Lines, keep_alive, join, |frames| async move {
        send(reply, lines, &frames).await?;
        Ok(())
    })
    .await
}

/// A reply as lines.
struct Lines {
    name: String,
    shown: Shown,
    begun: Instant,
    calls: WholeCalls,
    /// Log-probabilities of tokens whose text comes next.
    tokens: Vec<Value>,
}

impl Lines {
    /// A line with a text and other fields.
    fn line(&mut self, content: &str, more: Option<(&str, Value)>) -> Value {
        let mut line = json!({"model": self.name, "created_at": now(), "done": false});
        let part = match self.shown {
            Shown::Text => {
                line["response"] = content.into();
                &mut line
            }
            Shown::Chat => {
                line["message"] = json!({"role": "assistant", "content": content});
                &mut line["message"]
            }
        };
        if let Some((name, value)) = more {
            part[name] = value;
        }
        if !self.tokens.is_empty() {
            line["logprobs"] = std::mem::take(&mut self.tokens).into();
        }
        line
    }
}

impl Sink for Lines {
    fn piece(&mut self, piece: Piece, reply: &ReplyRun) -> Result<Vec<Value>, ApiError> {
        let line = match piece {
            Piece::Token(token) => {
                self.tokens.push(log_probs::chat(reply.tokenizer()?, &token));
                None
            }
            Piece::Event(event) => self.calls.part(event).map(|part| match part {
                Part::Text(text) => self.line(&text, None),
                Part::Reasoning(text) => self.line("", Some(("thinking", text.into()))),
                Part::Call { name, arguments } => {
                    let call = json!({"function": {"name": name, "arguments": arguments}});
                    self.line("", Some(("tool_calls", json!([call]))))
                }
            }),
            Piece::End(last) => {
                let mut line = self.line("", None);
                end(&mut line, last.reason, &last.stats, self.begun);
                // the tokens of the conversation, for the request that continues it
                if self.shown == Shown::Text && !reply.tokens.is_empty() && !reply.has_pictures {
                    line["context"] = reply.tokens.as_slice().into();
                }
                Some(line)
            }
        };
        Ok(line.into_iter().collect())
    }
}

/// Adds a line to the one line of a whole reply.
fn join(body: &mut Value, line: &Value) {
    let mut whole = body.take();
    *body = line.clone();
    let Some(before) = whole.as_object_mut() else { return };
    for name in ["response", "thinking", "message", "logprobs"] {
        let Some(mut own) = before.remove(name) else { continue };
        let mut part = body[name].take();
        if let Some(message) = part.as_object_mut() {
            message.remove("role");
        }
        grow(&mut own, &part);
        body[name] = own;
    }
}
