//! Pictures at addresses that clients name: fetched from allowed hosts, and from nowhere else.
//!
//! An address is `https`, and its host is one of the server's list. The host is looked up once, and
//! each of its addresses must be public, so that no client reaches what the server alone can reach.
//! Redirects are not followed.

mod public;

use std::time::{Duration, Instant};

use pelton::chat::{
    Chat, Content, IMAGE_BYTES_MAX, IMAGES_MAX, image_detail, image_file, image_source, is_image,
    with_detail,
};
use ureq::{
    Agent,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

use crate::error::ApiError;

/// The time of all fetches of a request.
const TIME: Duration = Duration::from_secs(10);
/// Characters of an address that errors show.
const SHOWN: usize = 100;

/// The client of pictures.
#[derive(Debug)]
pub(crate) struct Media {
    /// Names in lower case.
    hosts: Vec<String>,
    agent: Agent,
}

/// Looks up names, whose addresses must all be public.
#[derive(Debug, Default)]
struct PublicResolver(DefaultResolver);

impl Resolver for PublicResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.0.resolve(uri, config, timeout)?;
        match found.iter().all(|address| public::is_public(address.ip())) {
            true => Ok(found),
            false => Err(ureq::Error::HostNotFound),
        }
    }
}

impl Media {
    /// A client that fetches from these hosts.
    pub(crate) fn new(hosts: &[String]) -> Self {
        let config = config(true);
        let agent =
            Agent::with_parts(config, DefaultConnector::default(), PublicResolver::default());
        Self { hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(), agent }
    }

    /// Puts the bytes of the pictures of a chat in place of their addresses. Blocks for as long as
    /// that takes.
    ///
    /// # Errors
    /// If an address is not allowed, or its picture does not come.
    pub(crate) fn fetch(&self, chat: &mut Chat) -> Result<(), ApiError> {
        let end = Instant::now() + TIME;
        let parts = chat.messages.iter_mut().filter_map(|message| match &mut message.content {
            Some(Content::Parts(parts)) => Some(parts),
            _ => None,
        });
        let parts = parts.flatten().filter(|part| is_image(part));
        // one more is refused with the chat
        for part in parts.take(IMAGES_MAX) {
            let Some(source) = image_source(part).filter(|source| is_address(source)) else {
                continue;
            };
            let file = self.get(source, end).map_err(|problem| {
                let shown: String = source.chars().take(SHOWN).collect();
                ApiError::field("messages", format!("the picture at {shown:?} {problem}"))
            })?;
            let detail = image_detail(part).unwrap_or_default();
            *part = with_detail(image_file(&file), detail);
        }
        Ok(())
    }

    /// The file at an address.
    fn get(&self, address: &str, end: Instant) -> Result<Vec<u8>, String> {
        let uri = self.allowed(address)?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("was not fetched within {} seconds, the limit", TIME.as_secs()));
        }
        let request = self.agent.get(uri).config().timeout_global(Some(left)).build();
        let mut response = request.call().map_err(|error| failed(&error))?;
        if response.status() != 200 {
            let status = response.status().as_u16();
            return Err(format!("is answered with {status}, expected 200 and no redirect"));
        }
        let body = response.body_mut().with_config().limit(IMAGE_BYTES_MAX as u64);
        body.read_to_vec().map_err(|error| failed(&error))
    }

    /// The address, if the server may fetch from it.
    fn allowed(&self, address: &str) -> Result<Uri, String> {
        if self.hosts.is_empty() {
            return Err(
                "is not fetched by this server, expected its bytes as a data: URL".to_owned()
            );
        }
        let uri: Uri = address.parse().map_err(|_| "has no valid address".to_owned())?;
        if uri.scheme_str() != Some("https") {
            return Err("is not fetched, expected an address that begins with https://".to_owned());
        }
        let authority = uri.authority().ok_or_else(|| "has no host in its address".to_owned())?;
        if authority.as_str().contains('@') || authority.port_u16().is_some_and(|port| port != 443)
        {
            return Err("has a user or a port in its address, expected neither".to_owned());
        }
        let host = authority.host().to_ascii_lowercase();
        match self.hosts.contains(&host) {
            true => Ok(uri),
            false => Err(format!(
                "is not fetched: the host {host:?} is not allowed, expected a data: URL or one of {}",
                self.hosts.join(", ")
            )),
        }
    }
}

/// How files are fetched.
fn config(https_only: bool) -> Config {
    Config::builder()
        .https_only(https_only)
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("pelton/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .max_idle_connections(0)
        .build()
}

/// Whether a source is an address of the web.
fn is_address(source: &str) -> bool {
    let scheme = source.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| matches!(&*scheme.to_ascii_lowercase(), "http" | "https"))
}

/// The words for a failure. They say nothing about addresses that are not public.
fn failed(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BodyExceedsLimit(_) => {
            format!("has more than {IMAGE_BYTES_MAX} bytes, the limit")
        }
        ureq::Error::Timeout(_) => {
            format!("was not fetched within {} seconds, the limit", TIME.as_secs())
        }
        ureq::Error::HostNotFound => "is at a host without public addresses".to_owned(),
        _ => "could not be fetched".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
    };

    use pelton::chat::Message;
    use serde_json::json;

    use super::*;

    fn refusal(hosts: &[&str], address: &str) -> String {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let part = json!({"type": "image_url", "image_url": {"url": address}});
        let message = serde_json::from_value::<Message>(json!({"role": "user", "content": [part]}));
        let mut chat = Chat::new(vec![message.unwrap()]);
        Media::new(&hosts).fetch(&mut chat).unwrap_err().message.into_owned()
    }

    #[test]
    fn addresses_that_are_not_fetched() {
        for (hosts, address, word) in [
            (&[][..], "https://example.com/a.png", "data: URL"),
            (&["example.com"], "http://example.com/a.png", "https://"),
            (&["example.com"], "https://example.com.evil.net/a.png", "not allowed"),
            (&["example.com"], "https://example.com@evil.net/a.png", "a user or a port"),
            (&["example.com"], "https://example.com:8443/a.png", "a user or a port"),
            (&["example.com"], "HTTPS://EVIL.net", "not allowed"),
            (&["example.com"], "https:// /", "no valid address"),
        ] {
            let said = refusal(hosts, address);
            assert!(said.contains(word), "{address}: {said}");
        }
    }

    /// An allowed host whose address is the server's own is not even dialled.
    #[test]
    fn private_addresses_are_not_dialled() {
        let listener =
            TcpListener::bind("127.0.0.1:443").or_else(|_| TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        listener.set_nonblocking(true).unwrap();
        for host in ["localhost", "127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254"] {
            let said = refusal(&[host], &format!("https://{host}/a.png"));
            assert!(said.contains("without public addresses"), "{host}: {said}");
        }
        assert!(listener.accept().is_err());
    }

    /// A redirect of an allowed host is an answer without a picture. Its place is not dialled.
    #[test]
    fn redirects_to_private_addresses_are_not_followed() {
        let [host, place] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        place.set_nonblocking(true).unwrap();
        let target = format!("http://{}/secret", place.local_addr().unwrap());
        let address = host.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = host.accept().unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            let head =
                format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
        });
        // as for https, but for the certificate that a test cannot have
        let (connector, resolver) = (DefaultConnector::default(), DefaultResolver::default());
        let agent = Agent::with_parts(config(false), connector, resolver);
        let response = agent.get(format!("http://{address}/a.png")).call().unwrap();
        assert_eq!(response.status(), 302);
        answering.join().unwrap();
        assert!(place.accept().is_err());
    }

    #[test]
    fn other_sources_stay() {
        let part = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
        let message = json!({"role": "user", "content": [part]});
        let mut chat = Chat::new(vec![serde_json::from_value(message).unwrap()]);
        let before = chat.clone();
        Media::new(&[]).fetch(&mut chat).unwrap();
        assert_eq!(chat, before);
    }
}
