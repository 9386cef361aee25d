//! The names under which the server may be called, and the pages that may call it.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::config::Config;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a host name is that of this machine only, as a Unix socket is.
pub(crate) fn is_local(host: &str) -> bool {
    if host.starts_with("unix:") {
        return true;
    }
    let host = host.trim_end_matches('.');
    let address = host.parse::<IpAddr>();
    host == "localhost"
        || host.ends_with(".localhost")
        || address.is_ok_and(|address| address.is_loopback())
}

/// Whether no page of the web can have this host: an address, or a name that public name servers do
/// not resolve (RFC 6761, 6762, 8375, ICANN's `internal`; names without a dot).
fn is_private(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let ends = ["localhost", "local", "internal", "home.arpa"];
    !host.is_empty()
        && (host.parse::<IpAddr>().is_ok()
            || !host.contains('.')
            || ends
                .iter()
                .any(|end| host.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'))))
}

/// The host of an authority such as `localhost:8080` or `[::1]:8080`.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// The names and origins that a server allows.
#[derive(Clone, Copy)]
pub(crate) struct Hosts<'a>(pub(crate) &'a Config);

impl Hosts<'_> {
    fn is_named(self, host: &str) -> bool {
        let hosts = std::iter::once(&self.0.host).chain(&self.0.hosts);
        hosts.into_iter().any(|one| one.eq_ignore_ascii_case(host))
    }

    /// Whether the `Host` header is right. A server without keys refuses names of the web, under
    /// which a page of somebody else could reach it (DNS rebinding).
    pub(crate) fn allows_host(self, headers: &HeaderMap) -> bool {
        let Some(host) = headers.get(header::HOST).filter(|_| self.0.keys.is_empty()) else {
            return true;
        };
        let host = host.to_str().map(host_of);
        host.is_ok_and(|host| is_private(host) || self.is_named(host))
    }

    /// Whether pages of an origin are allowed by name.
    pub(crate) fn names_origin(self, origin: &HeaderValue) -> bool {
        let origins = &self.0.origins;
        origins.iter().any(|one| one == "*" || one.as_bytes() == origin.as_bytes())
    }

    /// Whether a page of this origin may send the request.
    pub(crate) fn allows_origin(self, origin: &HeaderValue, headers: &HeaderMap) -> bool {
        if self.names_origin(origin) {
            return true;
        }
        // the server's own page, as the browser says, where a proxy has changed the host
        if headers.get(FETCH_SITE).is_some_and(|site| site == "same-origin") {
            return true;
        }
        let Some((_, authority)) = origin.to_str().ok().and_then(|origin| origin.split_once("://"))
        else {
            return false;
        };
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        Some(authority) == host || self.0.hosts.iter().any(|one| one == host_of(authority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_hosts() {
        for host in
            ["localhost", "127.0.0.1", "127.3.2.1", "::1", "a.localhost", "unix:/run/p.sock"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in ["0.0.0.0", "::", "192.168.1.1", "example.com", "localhost.example.com", ""] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn hosts_that_no_page_of_the_web_has() {
        for host in [
            "127.0.0.1",
            "192.168.1.7",
            "0.0.0.0",
            "::1",
            "localhost",
            "pelton",
            "host.docker.internal",
            "Nas.local",
            "pelton.default.svc.cluster.local.",
            "box.home.arpa",
        ] {
            assert!(is_private(host), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.nip.io", "local.evil.com", "evillocal.com", "", "."]
        {
            assert!(!is_private(host), "{host}");
        }
        assert_eq!(host_of("[::1]:80"), "::1");
        assert_eq!(host_of("localhost:80"), "localhost");
    }
}
