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
    chat::{Chat, Event, Message, Reply},
};
use serde_json::{Value, json};

use super::{
    keep,
    request::{messages, no_images, options, think},
    times::{end, now, only},
};
use crate::{
    app::{App, Caller, Json},
    error::ApiError,
    models::{Entry, Keep},
    run::{self, ChatRequest, Piece, ReplyRun, TokenRun},
    wire::{Broken, Format, Frames, stream},
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
    let (entry, keep) = keep::take(&app, &mut fields)?;
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
    entry.keep(keep);
    reply(&app, &caller, &entry.config.name, request, streams, Shown::Chat).await
}

/// `POST /api/generate`
pub(in crate::api) async fn generate(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let (entry, keep) = keep::take(&app, &mut fields)?;
    let prompt = fields.string("prompt")?.unwrap_or_default();
    if prompt.is_empty() {
        let mut line = load(&app, &entry, keep).await?;
        line["response"] = "".into();
        return Ok(Answer(line).into_response());
    }
    no_images(&mut fields)?;
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
    let options = options(&mut fields)?;
    entry.keep(keep);
    let name = &entry.config.name;
    if raw || suffix.is_some() {
        return text(&app, &caller, name, &prompt, suffix, options, streams).await;
    }
    let system = system.map(|system| Message::new("system", system));
    let messages = system.into_iter().chain([Message::new("user", prompt)]).collect();
    let mut chat = Chat::new(messages);
    (chat.enable_thinking, chat.reasoning_effort) = (thinks, effort);
    reply(&app, &caller, name, ChatRequest::new(chat, options), streams, Shown::Text).await
}

/// How a reply is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// As a message.
    Chat,
    /// As a text.
    Text,
}

/// A line of a reply.
fn line(name: &str, shown: Shown, content: &str, thinking: &str, calls: Vec<Value>) -> Value {
    let mut line = json!({"model": name, "created_at": now(), "done": false});
    let part = match shown {
        Shown::Text => {
            line["response"] = content.into();
            &mut line
        }
        Shown::Chat => {
            line["message"] = json!({"role": "assistant", "content": content});
            &mut line["message"]
        }
    };
    if !thinking.is_empty() {
        part["thinking"] = thinking.into();
    }
    if !calls.is_empty() {
        part["tool_calls"] = calls.into();
    }
    line
}

/// A whole tool call: its arguments are an object.
fn call(name: &str, arguments: &str) -> Value {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
    json!({"function": {"name": name, "arguments": arguments}})
}

async fn reply(
    app: &App,
    caller: &Caller,
    name: &str,
    request: ChatRequest,
    streams: bool,
    shown: Shown,
) -> Result<Response, ApiError> {
    let begun = Instant::now();
    let lease = app.registry.lease(Some(name)).await?;
    let context = app.context(lease, caller, None);
    let mut replies = run::blocking(move || request.start(&context)).await?;
    let Some(mut reply) = replies.pop() else {
        return Err(ApiError::internal("the request has no reply"));
    };
    let name = name.to_owned();
    if streams {
        let keep_alive = app.config.limits.keep_alive;
        return Ok(stream(Format::Lines, keep_alive, |frames| {
            lines(frames, reply, name, shown, begun)
        }));
    }
    let mut events = Vec::new();
    while let Some(piece) = reply.next().await? {
        match piece {
            Piece::Event(event) => events.push(event),
            Piece::Token(_) => {}
            Piece::End(last) => {
                let Reply { content, reasoning, tool_calls, .. } = Reply::from_events(events);
                let calls = tool_calls.iter().map(|one| call(&one.name, &one.arguments)).collect();
                let mut line = line(&name, shown, &content, &reasoning, calls);
                end(&mut line, last.reason, &last.stats, begun);
                return Ok(Answer(line).into_response());
            }
        }
    }
    Err(ApiError::internal("a reply has no end"))
}

/// Writes a reply as lines.
async fn lines(
    frames: Frames,
    mut reply: ReplyRun,
    name: String,
    shown: Shown,
    begun: Instant,
) -> Result<(), Broken> {
    let mut open: Option<(String, String)> = None;
    while let Some(piece) = reply.next().await? {
        let line = match piece {
            Piece::Token(_) => continue,
            Piece::Event(Event::Content(text)) => line(&name, shown, &text, "", Vec::new()),
            Piece::Event(Event::Reasoning(text)) => line(&name, shown, "", &text, Vec::new()),
            Piece::Event(Event::ToolCallStart { name, .. }) => {
                open = Some((name, String::new()));
                continue;
            }
            Piece::Event(Event::ToolCallArguments { delta, .. }) => {
                if let Some((_, arguments)) = &mut open {
                    arguments.push_str(&delta);
                }
                continue;
            }
            Piece::Event(Event::ToolCallEnd { .. }) => {
                let Some((tool, arguments)) = open.take() else { continue };
                line(&name, shown, "", "", vec![call(&tool, &arguments)])
            }
            Piece::Event(Event::ToolCallBroken { text, .. }) => {
                open = None;
                line(&name, shown, &text, "", Vec::new())
            }
            Piece::End(last) => {
                let mut line = line(&name, shown, "", "", Vec::new());
                end(&mut line, last.reason, &last.stats, begun);
                return Ok(frames.data(&line).await?);
            }
        };
        frames.data(&line).await?;
    }
    Err(ApiError::internal("a reply has no end").into())
}

/// A text after a prompt as it is.
async fn text(
    app: &App,
    caller: &Caller,
    name: &str,
    prompt: &str,
    suffix: Option<String>,
    options: run::Options,
    streams: bool,
) -> Result<Response, ApiError> {
    let begun = Instant::now();
    let lease = app.registry.lease(Some(name)).await?;
    let context = app.context(lease, caller, None);
    let (name, prompt) = (name.to_owned(), prompt.to_owned());
    let mut run = run::blocking(move || {
        let prompt = match suffix {
            None => Prompt::Text(prompt),
            Some(suffix) => Prompt::Tokens(run::infill_prompt(&context.lease, &prompt, &suffix)?),
        };
        let request = options.request(prompt, 0, &context);
        TokenRun::start(&context, run::constrain(request, &options.output))
    })
    .await?;
    if streams {
        let keep_alive = app.config.limits.keep_alive;
        return Ok(stream(Format::Lines, keep_alive, |frames| async move {
            while let Some(token) = run.next().await? {
                if !token.text.is_empty() {
                    let line = line(&name, Shown::Text, &token.text, "", Vec::new());
                    frames.data(&line).await?;
                }
            }
            let last = run.end();
            let mut line = line(&name, Shown::Text, "", "", Vec::new());
            end(&mut line, last.reason, &last.stats, begun);
            Ok(frames.data(&line).await?)
        }));
    }
    let mut text = String::new();
    while let Some(token) = run.next().await? {
        text.push_str(&token.text);
    }
    let last = run.end();
    let mut line = line(&name, Shown::Text, &text, "", Vec::new());
    end(&mut line, last.reason, &last.stats, begun);
    Ok(Answer(line).into_response())
}
