//! A response in pieces, which a task makes as fast as the client reads.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
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

/// The writing end of a stream.
#[derive(Clone)]
pub(crate) struct Frames {
    sender: Sender<Bytes>,
    format: Format,
}

impl Frames {
    /// Writes JSON without the name of an event.
    pub(crate) async fn data(&self, value: &Value) -> Result<(), Gone> {
        let text = match self.format {
            Format::Events(_) => format!("data: {value}\n\n"),
            Format::Lines => format!("{value}\n"),
        };
        self.write(text).await
    }

    /// Writes JSON with the name of an event.
    pub(crate) async fn event(&self, name: &str, value: &Value) -> Result<(), Gone> {
        self.write(format!("event: {name}\ndata: {value}\n\n")).await
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

    /// Writes an error in the middle of a stream.
    pub(crate) async fn error(&self, error: &ApiError) -> Result<(), Gone> {
        match self.format {
            Format::Events(Shape::Anthropic) => {
                self.event("error", &error.body(Shape::Anthropic)).await
            }
            Format::Events(shape) => self.data(&error.body(shape)).await,
            Format::Lines => self.data(&error.body(Shape::Ollama)).await,
        }
    }

    async fn write(&self, text: String) -> Result<(), Gone> {
        self.sender.send(text.into()).await.map_err(|_| Gone)
    }
}

/// The reading end of a stream. Dropping it ends the task.
struct FrameStream {
    receiver: Receiver<Bytes>,
    task: JoinHandle<()>,
    /// When the next comment is due.
    comment: Option<(Pin<Box<Sleep>>, Duration)>,
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
        const COMMENT: Bytes = Bytes::from_static(b":\n\n");
        let this = self.get_mut();
        if let Poll::Ready(frame) = this.receiver.poll_recv(context) {
            if let Some((due, every)) = &mut this.comment {
                due.as_mut().reset(Instant::now() + *every);
            }
            this.started = true;
            return Poll::Ready(frame.map(Ok));
        }
        let Some((due, every)) = &mut this.comment else { return Poll::Pending };
        if !this.started {
            // before a long prompt: the client knows that the request was taken
            this.started = true;
            return Poll::Ready(Some(Ok(COMMENT)));
        }
        match due.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                due.as_mut().reset(Instant::now() + *every);
                Poll::Ready(Some(Ok(COMMENT)))
            }
        }
    }
}

/// A response whose frames `produce` writes, in a task that ends with the client.
pub(crate) fn stream<P, F>(format: Format, keep_alive: Duration, produce: P) -> Response
where
    P: FnOnce(Frames) -> F,
    F: Future<Output = Result<(), Broken>> + Send + 'static,
{
    let (sender, receiver) = channel(UNREAD);
    let frames = Frames { sender, format };
    let work = produce(frames.clone());
    let task = tokio::spawn(async move {
        if let Err(Broken::Failed(error)) = work.await {
            tracing::warn!(%error, "a stream ends with an error");
            // the client may have gone too
            let _ = frames.error(&error).await;
        }
    });
    let comment =
        matches!(format, Format::Events(_)).then(|| (Box::pin(sleep(keep_alive)), keep_alive));
    let body = Body::from_stream(FrameStream { receiver, task, comment, started: false });
    let mut response = body.into_response();
    let kind = match format {
        Format::Events(_) => "text/event-stream",
        Format::Lines => "application/x-ndjson",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
