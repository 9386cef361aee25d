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

/// The record of a request, logged when it is dropped.
pub(super) struct Access {
    pub(super) app: Arc<App>,
    pub(super) id: String,
    pub(super) method: String,
    /// The route, not the path: paths are the client's.
    pub(super) route: String,
    pub(super) key: Option<String>,
    pub(super) status: u16,
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
        let quiet = matches!(self.route.as_str(), "/health" | "/live" | "/metrics");
        let (id, method, route) = (&self.id, &self.method, &self.route);
        let milliseconds = (seconds * 1e4).round() / 10.0;
        let (status, complete) = (self.status, self.complete);
        let key = self.key.as_deref().unwrap_or("-");
        match (self.usage.model(), quiet) {
            (Some(model), _) => tracing::info!(
                target: "pelton::access", id, method, route, status, milliseconds, key, model,
                prompt, generated, audio = self.usage.audio(), complete, "request"
            ),
            (None, false) => tracing::info!(
                target: "pelton::access", id, method, route, status, milliseconds, key, complete,
                "request"
            ),
            (None, true) => tracing::debug!(
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
