//! The frames of a body, one at a time, within limits of size and time.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream},
    http::StatusCode,
};
use bytes::Bytes;
use futures_core::Stream;
use tokio::time::{Instant, Sleep, sleep};

use crate::{config::Limits, error::ApiError};

/// Bytes that must come within the time of a body.
const STEP: usize = 1 << 20;
/// Bytes that a parser may hold without giving a part of the form: the longest headers.
const HELD: usize = 256 << 10;

/// Bytes that a parser has taken since it gave something.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken(Arc<AtomicUsize>);

impl Taken {
    /// Notes that the parser gave a part, or bytes of one.
    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Adds bytes; whether those before them were too many.
    fn add(&self, bytes: usize) -> bool {
        self.0.fetch_add(bytes, Ordering::Relaxed) > HELD
    }
}

/// The frames of a body. After each one it is pending once: a parser that reads as long as there is
/// something would hold a whole file otherwise.
pub(super) struct Frames {
    body: BodyDataStream,
    /// Bytes that may still come.
    left: usize,
    limit: usize,
    /// Bytes of the step, which has to be complete at its end.
    step: usize,
    end: Pin<Box<Sleep>>,
    time: Duration,
    rests: bool,
    pub(super) taken: Taken,
}

impl Frames {
    /// The frames of a body of at most `most` bytes.
    pub(super) fn new(body: Body, most: usize, limits: &Limits) -> Self {
        let time = limits.body_time;
        Self {
            body: body.into_data_stream(),
            left: most,
            limit: most,
            step: 0,
            end: Box::pin(sleep(time)),
            time,
            rests: false,
            taken: Taken::default(),
        }
    }

    /// Reads what is left, after an error that it returns.
    pub(super) async fn end(mut self, error: ApiError) -> ApiError {
        // a body that is too long or too slow is not read on
        let is_read =
            !matches!(error.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT);
        if is_read {
            self.taken = Taken::default();
            let next =
                |this: &mut Self, context: &mut Context<'_>| Pin::new(this).poll_next(context);
            while let Some(Ok(_)) = std::future::poll_fn(|context| next(&mut self, context)).await {
                self.taken.reset();
            }
        }
        error
    }
}

impl Stream for Frames {
    type Item = Result<Bytes, ApiError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if std::mem::take(&mut this.rests) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_next(context) else {
            ready!(this.end.as_mut().poll(context));
            let seconds = this.time.as_secs();
            let message =
                format!("the body is too slow, expected a MiB or its end within {seconds} seconds");
            let error = ApiError::new(StatusCode::REQUEST_TIMEOUT, message);
            return Poll::Ready(Some(Err(error)));
        };
        let Some(frame) = frame else { return Poll::Ready(None) };
        let bytes = match frame {
            Ok(bytes) => bytes,
            Err(error) => {
                let error = ApiError::invalid(format!("the body could not be read: {error}"));
                return Poll::Ready(Some(Err(error)));
            }
        };
        let Some(left) = this.left.checked_sub(bytes.len()) else {
            let message = format!("the body is too large, expected at most {} bytes", this.limit);
            let error = ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message);
            return Poll::Ready(Some(Err(error)));
        };
        this.left = left;
        this.step += bytes.len();
        if this.step >= STEP {
            this.step = 0;
            this.end.as_mut().reset(Instant::now() + this.time);
        }
        if this.taken.add(bytes.len()) {
            let message =
                "the headers of a part of the form are too long, or a boundary is missing";
            return Poll::Ready(Some(Err(ApiError::invalid(message))));
        }
        this.rests = true;
        Poll::Ready(Some(Ok(bytes)))
    }
}
