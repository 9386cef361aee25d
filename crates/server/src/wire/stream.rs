//! A response in frames, which a task makes as fast as the client reads, or a body made of them.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Json,
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_core::Stream;
use serde_json::Value;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::JoinHandle,
    time::{Instant, Sleep, sleep},
};

use crate::error::{ApiError, Shape};

/// Frames that a slow client leaves unread before its task waits.
const UNREAD: usize = 16;

/// How frames are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Server-sent events, with comments to keep the connection alive.
    Events(Shape),
    /// The same with names: the `type` of each.
    Named(Shape),
    /// A line of JSON each.
    Lines,
}

/// The client has gone.
#[derive(Debug)]
pub(crate) struct Gone;

/// Why a stream ended before its end.
#[derive(Debug)]
pub(crate) enum Broken {
    Gone,
    Failed(ApiError),
}

impl From<Gone> for Broken {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<ApiError> for Broken {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

/// Adds a frame to a whole body, which is null before the first.
type Join = Arc<dyn Fn(&mut Value, &Value) + Send + Sync>;

/// Where the frames of a response go.
#[derive(Clone)]
pub(crate) enum Frames {
    /// To the client.
    Stream { sender: Sender<Bytes>, format: Format },
    /// Into a whole body.
    Whole { body: Arc<Mutex<Value>>, join: Join },
}

impl Frames {
    /// Whether the client receives each frame.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream { .. })
    }

    /// Writes a frame.
    pub(crate) async fn data(&self, value: &Value) -> Result<(), Gone> {
        match self {
            Self::Stream { format: Format::Events(_), .. } => {
                self.write(format!("data: {value}\n\n")).await
            }
            Self::Stream { format: Format::Named(_), .. } => {
                let name = value["type"].as_str().unwrap_or_default();
                self.write(format!("event: {name}\ndata: {value}\n\n")).await
            }
            Self::Stream { format: Format::Lines, .. } => self.write(format!("{value}\n")).await,
            Self::Whole { body, join } => {
                join(&mut body.lock().unwrap_or_else(PoisonError::into_inner), value);
                Ok(())
            }
        }
    }

    /// Writes the chunk of OpenAI's streams that has the tokens of all choices, and no choice.
    pub(crate) async fn usage(&self, mut head: Value, usage: Value) -> Result<(), Gone> {
        head["choices"] = Value::Array(Vec::new());
        head["usage"] = usage;
        self.data(&head).await
    }

    /// Writes the end of OpenAI's streams.
    pub(crate) async fn done(&self) -> Result<(), Gone> {
        self.write("data: [DONE]\n\n".to_owned()).await
    }

    async fn write(&self, text: String) -> Result<(), Gone> {
        match self {
            Self::Stream { sender, .. } => sender.send(text.into()).await.map_err(|_| Gone),
            Self::Whole { .. } => Ok(()),
        }
    }
}

/// A comment between events. It is the first sign of life of every stream of events.
const COMMENT: &[u8] = b":\n\n";

/// A sign of life, when it is due next, and how often.
type Alive = (&'static [u8], Pin<Box<Sleep>>, Duration);

/// The reading end of a stream. Dropping it ends the task.
struct FrameStream {
    receiver: Receiver<Bytes>,
    task: JoinHandle<()>,
    /// Keeps the connection alive.
    alive: Option<Alive>,
    started: bool,
}

impl Drop for FrameStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stream for FrameStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = this.receiver.poll_recv(context) {
            if let Some((_, due, every)) = &mut this.alive {
                due.as_mut().reset(Instant::now() + *every);
            }
            this.started = true;
            return Poll::Ready(frame.map(Ok));
        }
        let Some((alive, due, every)) = &mut this.alive else { return Poll::Pending };
        if !this.started {
            // before a long prompt: the client knows that the request was taken
            this.started = true;
            return Poll::Ready(Some(Ok(Bytes::from_static(COMMENT))));
        }
        match due.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                due.as_mut().reset(Instant::now() + *every);
                Poll::Ready(Some(Ok(Bytes::from_static(alive))))
            }
        }
    }
}

/// A response whose frames `produce` writes: a stream, or the body that `join` makes of them.
pub(crate) async fn respond<P, F>(
    streams: bool,
    format: Format,
    keep_alive: Duration,
    join: impl Fn(&mut Value, &Value) + Send + Sync + 'static,
    produce: P,
) -> Result<Response, ApiError>
where
    P: FnOnce(Frames) -> F,
    F: Future<Output = Result<(), Broken>> + Send + 'static,
{
    if streams {
        return Ok(stream(format, keep_alive, produce));
    }
    let body = Arc::new(Mutex::new(Value::Null));
    let frames = Frames::Whole { body: Arc::clone(&body), join: Arc::new(join) };
    match produce(frames).await {
        Ok(()) => {
            let mut body = body.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(Json(body.take()).into_response())
        }
        Err(Broken::Failed(error)) => Err(error),
        Err(Broken::Gone) => Err(ApiError::internal("a reply has no end")),
    }
}

/// A response whose frames `produce` writes, in a task that ends with the client.
pub(crate) fn stream<P, F>(format: Format, keep_alive: Duration, produce: P) -> Response
where
    P: FnOnce(Frames) -> F,
    F: Future<Output = Result<(), Broken>> + Send + 'static,
{
    let (sender, receiver) = channel(UNREAD);
    let frames = Frames::Stream { sender, format };
    let work = produce(frames.clone());
    let task = tokio::spawn(async move {
        if let Err(Broken::Failed(error)) = work.await {
            tracing::warn!(%error, "a stream ends with an error");
            let shape = match format {
                Format::Events(shape) | Format::Named(shape) => shape,
                Format::Lines => Shape::Ollama,
            };
            // the client may have gone too
            let _ = frames.data(&error.body(shape)).await;
        }
    });
    let alive: Option<&[u8]> = match format {
        Format::Named(Shape::Anthropic) => Some(b"event: ping\ndata: {\"type\": \"ping\"}\n\n"),
        Format::Events(_) | Format::Named(_) => Some(COMMENT),
        Format::Lines => None,
    };
    let alive = alive.map(|alive| (alive, Box::pin(sleep(keep_alive)), keep_alive));
    let body = Body::from_stream(FrameStream { receiver, task, alive, started: false });
    let mut response = body.into_response();
    let kind = match format {
        Format::Events(_) | Format::Named(_) => "text/event-stream",
        Format::Lines => "application/x-ndjson",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
