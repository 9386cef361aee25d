//! The machine at the other end of a connection.

use std::{convert::Infallible, net::IpAddr};

use axum::{Router, extract::Request, http::HeaderName, response::Response};
use hyper::{body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;

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

/// The routes, for the requests of one machine.
pub(super) struct Routes {
    pub(super) service: TowerToHyperService<Router>,
    pub(super) peer: Peer,
}

impl Service<hyper::Request<Incoming>> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = <TowerToHyperService<Router> as Service<hyper::Request<Incoming>>>::Future;

    fn call(&self, mut request: hyper::Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.service.call(request)
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
