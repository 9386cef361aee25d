//! Requests: redirects within limits, the token for one host, retries.

use std::{
    io::Read,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use ureq::{
    Agent, Body,
    http::{HeaderMap, Response, Uri, header},
    tls::TlsConfig,
};

use crate::{
    address::resolve,
    cancel::Cancel,
    certificates,
    error::{Error, Result, without_query},
    failure::{Failure, LONGEST_PAUSE, Retry, text},
    pace::Pace,
    proxy::Proxies,
    refusal::refusal,
    settings::{Settings, Token},
};

/// The largest number of redirects of a request.
const REDIRECTS: usize = 10;
/// The longest pause between two attempts that nobody asked for.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// Bytes of a read of a small body.
const BUFFER: usize = 32 << 10;

/// A client of one hub. It may be used on several threads.
#[derive(Debug)]
pub(crate) struct Client {
    /// For https and for http, through their proxies if there are any.
    agents: [Agent; 2],
    /// Past any proxy.
    direct: Agent,
    proxies: Proxies,
    token: Option<(Origin, Token)>,
    attempts: u32,
    back_off: Duration,
    /// The time in which a read must bring something.
    stall: Duration,
    /// Whether a host has answered.
    is_online: AtomicBool,
}

/// Whom an address belongs to: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    is_encrypted: bool,
    host: String,
    port: u16,
}

/// A kind of request without a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Head,
    Get,
}

impl Client {
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let tls = TlsConfig::builder().root_certs(certificates::roots(settings)?).build();
        let agent = |proxy| {
            Agent::config_builder()
                .proxy(proxy)
                .tls_config(tls.clone())
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .user_agent(concat!("pelton/", env!("CARGO_PKG_VERSION")))
                // the sizes and ranges of compressed bodies are not those of files
                .accept_encoding("identity")
                .max_idle_connections_per_host(settings.connections.max(1))
                .timeout_resolve(Some(settings.stall))
                .timeout_connect(Some(settings.stall))
                .timeout_recv_response(Some(settings.stall))
                .timeout_per_read(Some(settings.stall))
                .build()
                .new_agent()
        };
        let proxies = settings.proxies.clone();
        let endpoint = parsed(&settings.endpoint)?;
        let token = settings.token.clone().zip(origin(&endpoint));
        Ok(Self {
            agents: [true, false].map(|is_encrypted| agent(proxies.of_scheme(is_encrypted))),
            direct: agent(None),
            proxies,
            token: token.map(|(token, origin)| (origin, token)),
            attempts: settings.attempts.max(1),
            back_off: settings.back_off,
            stall: settings.stall,
            is_online: AtomicBool::new(false),
        })
    }

    /// The pace of a body that begins now.
    pub(crate) fn pace(&self) -> Pace {
        Pace::new(self.stall)
    }

    /// Whether requests to an address have the user's token.
    fn token_for(&self, uri: &Uri) -> Option<&Token> {
        let (to, token) = self.token.as_ref()?;
        (Some(to) == origin(uri).as_ref()).then_some(token)
    }

    /// One attempt of a request, with its redirects. `follows` decides about each, by its response
    /// and by whether it leads to another scheme, host or port.
    pub(crate) fn attempt(
        &self,
        method: Method,
        url: &str,
        range: Option<(u64, u64)>,
        follows: &dyn Fn(&Response<Body>, bool) -> bool,
    ) -> std::result::Result<Response<Body>, Failure> {
        let mut uri = parsed(url)?;
        for _ in 0..=REDIRECTS {
            let response = self.send(method, &uri, range)?;
            let status = response.status();
            if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                return match status.is_success() {
                    true => Ok(response),
                    false => {
                        let has_token = self.token_for(&uri).is_some();
                        Err(refusal(&uri.to_string(), &response, has_token))
                    }
                };
            }
            let next = target(&uri, response.headers())?;
            let (from, to) = (origin(&uri), origin(&next));
            if loses_encryption(from.as_ref(), to.as_ref()) {
                let problem = "it redirects from https to http, expected encryption to the end";
                return Err(Error::answer(url, problem).into());
            }
            if !follows(&response, from != to) {
                return Ok(response);
            }
            uri = next;
        }
        Err(Error::answer(url, format!("it has more than {REDIRECTS} redirects")).into())
    }

    fn send(
        &self,
        method: Method,
        uri: &Uri,
        range: Option<(u64, u64)>,
    ) -> std::result::Result<Response<Body>, Failure> {
        let [https, http] = &self.agents;
        let agent = match uri.scheme_str() {
            _ if self.proxies.excepts(uri) => &self.direct,
            Some("http") => http,
            _ => https,
        };
        let mut request = match method {
            Method::Head => agent.head(uri),
            Method::Get => agent.get(uri),
        };
        if let Some(token) = self.token_for(uri) {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.text()));
        }
        if let Some((first, last)) = range {
            request = request.header(header::RANGE, format!("bytes={first}-{last}"));
        }
        let outcome = request.call();
        self.is_online.fetch_or(outcome.is_ok(), Ordering::Relaxed);
        outcome.map_err(|error| {
            // a machine without a network finds no name, now and later
            let error = match is_lookup(&error) && !self.is_online.load(Ordering::Relaxed) {
                true => ureq::Error::HostNotFound,
                false => error,
            };
            broken(&uri.to_string(), &error)
        })
    }

    /// Runs attempts of one request until one succeeds or fails for good.
    pub(crate) fn tried<T>(
        &self,
        cancel: &Cancel,
        mut attempt: impl FnMut() -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let mut failures = 0;
        loop {
            cancel.check()?;
            match attempt() {
                Ok(value) => return Ok(value),
                Err(failure) => {
                    failures += 1;
                    self.pause(failure, failures, cancel)?;
                }
            }
        }
    }

    /// Waits before the next attempt, or returns the error if there is none.
    pub(crate) fn pause(&self, failure: Failure, failures: u32, cancel: &Cancel) -> Result<()> {
        let grown = self.back_off.saturating_mul(1 << (failures.min(16) - 1));
        let pause = match failure.retry {
            Retry::Never => return Err(failure.error),
            _ if failures >= self.attempts => return Err(failure.error),
            Retry::Later => grown.min(LONGEST_BACK_OFF),
            Retry::After(pause) if pause > LONGEST_PAUSE => return Err(failure.error),
            Retry::After(pause) => pause.max(self.back_off.min(LONGEST_BACK_OFF)),
        };
        tracing::debug!(%failure.error, ?pause, "a request is tried again");
        cancel.wait(pause)
    }

    /// The body of a small file at an address, of `most` bytes at most.
    pub(crate) fn document(&self, url: &str, most: u64, cancel: &Cancel) -> Result<Document> {
        self.tried(cancel, || {
            let response = self.attempt(Method::Get, url, None, &|_, leaves| !leaves)?;
            if response.status().is_redirection() {
                let problem = "it redirects to another host, expected the hub's own list";
                return Err(Error::answer(url, problem).into());
            }
            let next = next_page(response.headers()).map(|next| resolve(url, &next));
            let (mut body, mut pace) = (Vec::new(), self.pace());
            let mut reader = response.into_body().into_with_config().limit(most + 2).reader();
            let mut buffer = vec![0; BUFFER];
            loop {
                let read = reader.read(&mut buffer).map_err(|error| cut(url, &error))?;
                if read == 0 {
                    return Ok(Document { body, next });
                }
                body.extend_from_slice(&buffer[..read]);
                if body.len() as u64 > most {
                    let problem = format!("it has more than {most} bytes");
                    return Err(Error::answer(url, problem).into());
                }
                if let Some(rate) = pace.too_slow(read) {
                    return Err(trickle(url, rate));
                }
            }
        })
    }
}

/// A small body.
pub(crate) struct Document {
    pub(crate) body: Vec<u8>,
    /// The address of the list's next page.
    pub(crate) next: Option<String>,
}

/// Whether two addresses have the same scheme, host and port.
pub(crate) fn same_origin(a: &str, b: &str) -> bool {
    let of = |url: &str| parsed(url).ok().and_then(|uri| origin(&uri));
    of(a).is_some() && of(a) == of(b)
}

/// A body that ended too early.
pub(crate) fn cut(url: &str, error: &std::io::Error) -> Failure {
    let problem = match error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
        Some(ureq::Error::Timeout(_)) => "nothing more came for too long".to_owned(),
        _ => format!("the connection ended within the body ({error})"),
    };
    Failure { error: Error::Network { url: without_query(url), problem }, retry: Retry::Later }
}

/// A body that comes too slowly.
pub(crate) fn trickle(url: &str, rate: u64) -> Failure {
    let problem = format!("it sends {rate} bytes a second, expected 1024 or more");
    Failure { error: Error::Network { url: without_query(url), problem }, retry: Retry::Later }
}

fn parsed(url: &str) -> Result<Uri> {
    let uri: Uri = url.parse().map_err(|_| Error::answer(url, "it is no address"))?;
    match origin(&uri) {
        Some(_) => Ok(uri),
        None => Err(Error::answer(url, "expected an address with http or https and a host")),
    }
}

/// Whether a redirect leads from https to something else.
fn loses_encryption(from: Option<&Origin>, to: Option<&Origin>) -> bool {
    from.is_some_and(|from| from.is_encrypted) && to.is_none_or(|to| !to.is_encrypted)
}

fn origin(uri: &Uri) -> Option<Origin> {
    let is_encrypted = match uri.scheme_str()? {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
    let port = uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
    Some(Origin { is_encrypted, host, port })
}

/// The address to which a response redirects.
fn target(from: &Uri, headers: &HeaderMap) -> Result<Uri> {
    let url = from.to_string();
    let location = text(headers, "location")
        .ok_or_else(|| Error::answer(&url, "it redirects without an address"))?;
    let absolute = resolve(&url, location);
    if absolute.split("://").nth(1).is_some_and(|rest| {
        rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
    }) {
        return Err(Error::answer(&url, "it redirects to an address with a user's name"));
    }
    parsed(&absolute).map_err(|_| {
        Error::answer(
            &url,
            format!("it redirects to {:?}, expected an address", without_query(location)),
        )
    })
}

/// Whether an error is one of the name service, which has no kind of its own.
fn is_lookup(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::Io(io) if io.to_string().starts_with("failed to lookup address"))
}

/// A request without a response.
fn broken(url: &str, error: &ureq::Error) -> Failure {
    use std::io::ErrorKind;
    let retry = match error {
        ureq::Error::HostNotFound
        | ureq::Error::BadUri(_)
        | ureq::Error::Http(_)
        | ureq::Error::Tls(_)
        | ureq::Error::Rustls(_)
        | ureq::Error::InvalidProxyUrl
        | ureq::Error::LargeResponseHeader(..) => Retry::Never,
        ureq::Error::Io(io) if io.kind() == ErrorKind::ConnectionRefused => Retry::Never,
        _ => Retry::Later,
    };
    let problem = match error {
        ureq::Error::HostNotFound => "the host has no address; is this machine offline?".to_owned(),
        ureq::Error::Timeout(_) => "no answer came in time".to_owned(),
        other => other.to_string(),
    };
    Failure { error: Error::Network { url: without_query(url), problem }, retry }
}

/// The address behind `rel="next"` of a `Link` header (RFC 8288).
fn next_page(headers: &HeaderMap) -> Option<String> {
    let link = text(headers, "link")?;
    link.split(',').find_map(|entry| {
        let (address, parameters) = entry.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = parameters
            .split(';')
            .any(|parameter| matches!(parameter.trim(), "rel=\"next\"" | "rel=next"));
        is_next.then(|| address.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirected(from: &str, location: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, location.parse().unwrap());
        target(&parsed(from).unwrap(), &headers).ok().map(|uri| uri.to_string())
    }

    /// RFC 3986, section 5.2, and what is no address of a file.
    #[test]
    fn addresses_of_redirects() {
        let from = "https://hub.example:8443/a/b?x=1";
        for (location, to) in [
            ("/c?d=1", Some("https://hub.example:8443/c?d=1")),
            ("../c", Some("https://hub.example:8443/c")),
            ("?x=2", Some("https://hub.example:8443/a/b?x=2")),
            ("c/./d", Some("https://hub.example:8443/a/c/d")),
            ("//cdn.example/c", Some("https://cdn.example/c")),
            ("http://other/", Some("http://other/")),
            ("https://user@other/", None),
            ("ftp://other/", None),
            ("http:other", None),
            ("//user@other/", None),
            ("file:///etc/passwd", None),
        ] {
            assert_eq!(redirected(from, location).as_deref(), to, "{location}");
        }
    }

    #[test]
    fn encryption_is_not_lost() {
        let of = |url: &str| origin(&url.parse().unwrap());
        let loses = |from, to| loses_encryption(of(from).as_ref(), of(to).as_ref());
        assert!(loses("https://a/", "http://a/"));
        assert!(!loses("https://a/", "https://b/"));
        assert!(!loses("http://a/", "https://a/"));
        assert_ne!(of("https://a/"), of("https://a:444/"));
        assert_eq!(of("https://A/"), of("https://a:443/x"));
    }

    /// An example of RFC 8288, section 3.5, and the form of GitHub and Hugging Face.
    #[test]
    fn next_pages() {
        let next = |link: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::LINK, link.parse().unwrap());
            next_page(&headers)
        };
        let both = "<https://h/p?page=1>; rel=\"prev\", <https://h/p?cursor=x>; rel=\"next\"";
        assert_eq!(next(both).as_deref(), Some("https://h/p?cursor=x"));
        assert_eq!(next("<http://example.com/TheBook/chapter2>; rel=\"previous\""), None);
    }
}
