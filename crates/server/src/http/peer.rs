//! The machine at the other end of a connection.

use std::{
    convert::Infallible,
    future::Future,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{Router, body::Body, extract::Request, http::HeaderName, response::Response};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;

use super::places::{Doing, Place};

/// Headers by which a proxy says that it speaks for another machine.
const PROXIED: [HeaderName; 3] = [
    HeaderName::from_static("forwarded"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
];

/// The address of the machine that sent a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

impl Peer {
    /// Whether a request comes from a program on this machine, as far as that can be known.
    pub(super) fn is_of_this_machine(request: &Request) -> bool {
        let is_proxied = PROXIED.iter().any(|name| request.headers().contains_key(name));
        let peer = request.extensions().get::<Self>();
        peer.is_some_and(|peer| peer.0.to_canonical().is_loopback()) && !is_proxied
    }
}

/// A mark of requests on connections above the limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowded;

/// The routes, for the requests of one connection.
pub(super) struct Routes {
    pub(super) service: TowerToHyperService<Router>,
    pub(super) peer: Peer,
    pub(super) place: Arc<Place>,
}

impl Service<hyper::Request<Incoming>> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, mut request: hyper::Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        if self.place.is_reserve {
            request.extensions_mut().insert(Crowded);
        }
        let first = match request.body().is_end_stream() {
            true => Doing::Answering,
            false => Doing::Reading,
        };
        self.place.does(first);
        let place = Arc::clone(&self.place);
        let request = request.map(|body| {
            Body::new(Watched { inner: Body::new(body), place, then: Doing::Answering })
        });
        let answering = self.service.call(request);
        let place = Arc::clone(&self.place);
        Box::pin(async move {
            let response = answering.await?;
            place.does(Doing::Answering);
            Ok(response.map(|inner| Body::new(Watched { inner, place, then: Doing::Waiting })))
        })
    }
}

/// A body during which a connection does one thing, and another after it.
struct Watched {
    inner: Body,
    place: Arc<Place>,
    then: Doing,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.inner).poll_frame(context);
        if this.then == Doing::Answering && matches!(frame, Poll::Ready(Some(Ok(_)))) {
            this.place.does(Doing::Reading);
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

impl Drop for Watched {
    fn drop(&mut self) {
        self.place.does(self.then);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn proxies_speak_for_others() {
        let of = |address: &str, header: Option<&str>| {
            let mut request = Request::new(Body::empty());
            request.extensions_mut().insert(Peer(address.parse().unwrap()));
            if let Some(name) = header {
                let name: HeaderName = name.parse().unwrap();
                request.headers_mut().insert(name, "203.0.113.7".parse().unwrap());
            }
            Peer::is_of_this_machine(&request)
        };
        assert!(of("127.0.0.1", None) && of("::1", None) && of("::ffff:127.0.0.1", None));
        assert!(!of("192.0.2.1", None) && !of("127.0.0.1", Some("X-Forwarded-For")));
        assert!(!Peer::is_of_this_machine(&Request::new(Body::empty())));
    }
}
