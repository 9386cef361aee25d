//! Traces: a span of each request, sent to a collector of OpenTelemetry (OTLP over HTTP, in JSON).

use std::{
    hash::{BuildHasher, RandomState},
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use axum::http::HeaderMap;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::timeout,
};

/// The most spans that wait to be sent; further ones are dropped.
const WAITING: usize = 4096;
/// The most spans of one message.
const BATCH: usize = 512;
/// The time after which spans are sent that fill no message.
const EVERY: Duration = Duration::from_secs(2);
/// Time for a collector to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The address of a collector: `http://HOST:PORT`, with a path before `/v1/traces` or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collector {
    host: String,
    path: String,
}

impl Collector {
    /// Parses an address; `None` for one of another form.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !plain(host) || !plain(path) {
            return None;
        }
        let port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if port { host.to_owned() } else { format!("{host}:4318") };
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Some(Self { host, path: format!("{path}/v1/traces") })
    }

    /// Sends a body and returns the status of the response. Blocks for that long.
    fn post(&self, body: &str) -> io::Result<u16> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        let address = self.host.to_socket_addrs()?.next().ok_or_else(unknown)?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (path, host, len) = (&self.path, &self.host, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
             content-length: {len}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        let status = std::str::from_utf8(&answer[9..]).ok().and_then(|text| text.parse().ok());
        status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no status of HTTP"))
    }
}

/// The place of a span in its trace (W3C Trace Context).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    trace: String,
    parent: Option<String>,
    sampled: bool,
}

impl Place {
    /// The trace that a request belongs to: the client's, by its header `traceparent`, or its own.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get("traceparent").and_then(|value| value.to_str().ok());
        given.and_then(Self::parse).unwrap_or_else(|| Self {
            trace: format!("{:016x}{:016x}", random(), random()),
            parent: None,
            sampled: true,
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, parent, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let hex = |text: &str, len: usize| {
            let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.len() == len && text.bytes().all(lower)
        };
        let id = |text: &str, len| hex(text, len) && text.bytes().any(|byte| byte != b'0');
        let good = hex(version, 2) && version != "ff" && id(trace, 32) && id(parent, 16);
        let sampled =
            u8::from_str_radix(flags, 16).ok().filter(|_| good && hex(flags, 2))? & 1 == 1;
        Some(Self { trace: trace.to_owned(), parent: Some(parent.to_owned()), sampled })
    }
}

/// A random number above 0.
fn random() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // each has keys of its own
    RandomState::new().hash_one(NEXT.fetch_add(1, Ordering::Relaxed)).max(1)
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) place: Place,
    pub(crate) method: String,
    pub(crate) route: String,
    pub(crate) status: u16,
    pub(crate) duration: Duration,
    pub(crate) request_id: String,
    pub(crate) model: Option<String>,
    /// Tokens of prompts and of texts.
    pub(crate) tokens: (usize, usize),
}

impl Span {
    fn json(&self) -> Value {
        let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
        // integers of 64 bits are strings in this form of JSON
        let integer =
            |key: &str, value: usize| json!({"key": key, "value": {"intValue": value.to_string()}});
        let mut attributes = vec![
            text("http.request.method", &self.method),
            text("http.route", &self.route),
            integer("http.response.status_code", self.status.into()),
            text("pelton.request_id", &self.request_id),
        ];
        if let Some(model) = &self.model {
            attributes.push(text("gen_ai.response.model", model));
            attributes.push(integer("gen_ai.usage.input_tokens", self.tokens.0));
            attributes.push(integer("gen_ai.usage.output_tokens", self.tokens.1));
        }
        let end = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let begin = end.saturating_sub(self.duration);
        json!({
            "traceId": self.place.trace,
            "spanId": format!("{:016x}", random()),
            "parentSpanId": self.place.parent.as_deref().unwrap_or(""),
            "name": format!("{} {}", self.method, self.route),
            // a server's span
            "kind": 2,
            "startTimeUnixNano": begin.as_nanos().to_string(),
            "endTimeUnixNano": end.as_nanos().to_string(),
            "attributes": attributes,
            // unset, or an error
            "status": {"code": if self.status >= 500 { 2 } else { 0 }},
        })
    }
}

/// A message with spans.
fn message(spans: &[Value]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            attribute("service.name", "pelton"), attribute("service.version", version),
        ]},
        "scopeSpans": [{"scope": {"name": "pelton-server", "version": version}, "spans": spans}],
    }]})
    .to_string()
}

enum Command {
    Span(Value),
    /// Sends what waits, and answers.
    Flush(oneshot::Sender<()>),
}

/// Where requests leave their spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telemetry(Option<mpsc::Sender<Command>>);

impl Telemetry {
    /// Starts the task that sends spans, on the runtime of the caller; without a collector there is
    /// none.
    pub(crate) fn start(collector: Option<Collector>) -> Self {
        Self(collector.map(|collector| {
            let (sender, receiver) = mpsc::channel(WAITING);
            tokio::spawn(send(collector, receiver));
            sender
        }))
    }

    /// Leaves the span of a request that has ended, if there is a collector and room for it.
    pub(crate) fn record(&self, span: impl FnOnce() -> Span) {
        let Some(sender) = &self.0 else { return };
        let span = span();
        if span.place.sampled {
            // a slow collector loses spans and never slows requests
            let _ = sender.try_send(Command::Span(span.json()));
        }
    }

    /// Sends the spans that wait.
    pub(crate) async fn flush(&self) {
        let Some(sender) = &self.0 else { return };
        let (done, end) = oneshot::channel();
        if sender.send(Command::Flush(done)).await.is_ok() {
            let _ = timeout(PATIENCE, end).await;
        }
    }
}

/// Sends spans in batches until no sender is left.
async fn send(collector: Collector, mut commands: mpsc::Receiver<Command>) {
    let mut ticks = tokio::time::interval(EVERY);
    let mut spans = Vec::new();
    loop {
        let flushed = tokio::select! {
            command = commands.recv() => match command {
                None => return,
                Some(Command::Span(span)) => {
                    spans.push(span);
                    if spans.len() < BATCH {
                        continue;
                    }
                    None
                }
                Some(Command::Flush(done)) => Some(done),
            },
            _ = ticks.tick() => None,
        };
        if !spans.is_empty() {
            let body = message(&spans);
            spans.clear();
            let collector = collector.clone();
            match spawn_blocking(move || collector.post(&body)).await {
                Ok(Ok(200..=299)) => {}
                Ok(Ok(status)) => tracing::warn!(status, "the collector refuses spans"),
                Ok(Err(error)) => tracing::warn!(%error, "spans cannot be sent"),
                Err(error) => tracing::warn!(%error, "the task that sends spans has ended"),
            }
        }
        if let Some(done) = flushed {
            // the caller may have stopped waiting
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parsed = |url| Collector::parse(url).map(|c| (c.host, c.path));
        let some = |host: &str, path: &str| Some((host.to_owned(), path.to_owned()));
        assert_eq!(parsed("http://localhost:4318"), some("localhost:4318", "/v1/traces"));
        assert_eq!(parsed("http://collector/a/"), some("collector:4318", "/a/v1/traces"));
        for wrong in ["https://localhost:4318", "localhost:4318", "http://", "http://a b"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn places() {
        // the example of the W3C's recommendation
        let example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let place = Place::parse(example).unwrap();
        assert_eq!(place.trace, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!((place.parent.as_deref(), place.sampled), (Some("00f067aa0ba902b7"), true));
        assert!(!Place::parse(&example.replace("-01", "-00")).unwrap().sampled);
        for wrong in [
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-é1",
            "",
        ] {
            assert_eq!(Place::parse(wrong), None, "{wrong}");
        }
        let own = Place::of(&HeaderMap::new());
        assert!(own.sampled && own.parent.is_none() && own.trace.len() == 32);
    }
}
