//! The end of a request: its log line and its metrics.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::{
    app::App,
    telemetry::{Place, Span},
    usage::Usage,
};

/// The status of a request whose client has gone before there was a response: nginx's number.
pub(super) const GONE: u16 = 499;

/// The most characters of a client's path, or of a reason with a client's words, in a log line.
const SHOWN: usize = 300;

/// The beginning of a text, for a log line.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(SHOWN).map_or(text, |(end, _)| &text[..end])
}

/// The record of a request, logged when it is dropped.
pub(super) struct Access {
    pub(super) app: Arc<App>,
    pub(super) id: String,
    pub(super) method: String,
    /// The route, as metrics have it.
    pub(super) route: String,
    /// The path of the request, without a query, which may have secrets.
    pub(super) path: String,
    pub(super) key: Option<String>,
    pub(super) status: u16,
    /// Why the request was refused or has failed.
    pub(super) reason: Option<String>,
    pub(super) begun: Instant,
    pub(super) usage: Arc<Usage>,
    pub(super) place: Place,
    /// Whether all of the response was written.
    pub(super) complete: bool,
}

impl Drop for Access {
    fn drop(&mut self) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let (prompt, generated) = self.usage.tokens();
        self.app.metrics.http.end(&self.route, self.status, seconds);
        self.app.telemetry.record(|| Span {
            place: self.place.clone(),
            method: self.method.clone(),
            route: self.route.clone(),
            status: self.status,
            duration: self.begun.elapsed(),
            request_id: self.id.clone(),
            model: self.usage.model(),
            tokens: (prompt, generated),
        });
        let (id, method, route) = (&self.id, &self.method, &self.route);
        let milliseconds = (seconds * 1e4).round() / 10.0;
        let (status, complete) = (self.status, self.complete);
        let key = self.key.as_deref().unwrap_or("-");
        let (path, reason) = (shortened(&self.path), self.reason.as_deref().map(shortened));
        let is_probe = matches!(route.as_str(), "/health" | "/live" | "/metrics" | "/ping");
        match (&self.reason, self.usage.model()) {
            (Some(_), model) if status >= 500 => tracing::warn!(
                target: "pelton::access", id, method, route, path, status, reason, milliseconds, key,
                model,
                "request"
            ),
            (Some(_), model) => tracing::info!(
                target: "pelton::access", id, method, route, path, status, reason, milliseconds, key,
                model,
                "request"
            ),
            (None, Some(model)) => tracing::info!(
                target: "pelton::access", id, method, route, status, milliseconds, key, model,
                prompt, generated, audio = self.usage.audio(), complete, "request"
            ),
            (None, None) if is_probe => tracing::debug!(
                target: "pelton::access", id, method, route, status, milliseconds, key, complete,
                "request"
            ),
            (None, None) => tracing::info!(
                target: "pelton::access", id, method, route, status, milliseconds, key, complete,
                "request"
            ),
        }
    }
}

/// A body that ends the request when it is written or dropped.
pub(super) struct Logged {
    pub(super) inner: Body,
    pub(super) access: Access,
}

impl HttpBody for Logged {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.inner).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || this.inner.is_end_stream() {
            this.access.complete = true;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
