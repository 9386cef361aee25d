//! One request as a text, sent to a server in this process.
//!
//! The text is an HTTP message without what its client adds: a line `METHOD PATH`, lines of
//! headers, an empty line and the body. `tests/corpus.rs` and the fuzz target `http` share this
//! file.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use pelton::Device;
use pelton_server::{Config, Server};
use serde_json::Value;

/// The longest time until a response is complete.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest prompt and text together, in tokens: requests are to be many, not long.
const CONTEXT: usize = 128;
/// The most texts, prompts or documents of a request.
const BATCH: usize = 16;
/// Signs in paths and queries (RFC 3986). A request line with others is refused before it is read.
const OF_PATHS: &str = "-._~!$&'()*+,;=:@%/?";
/// Headers that say where a message ends, which the client writes itself.
const FRAMING: [&str; 5] = ["connection", "content-length", "expect", "te", "transfer-encoding"];

/// A server with the built-in model, and a connection to it.
pub(crate) struct Subject {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    closes: bool,
}

/// A request that a case describes.
struct Request<'a> {
    method: &'a str,
    path: String,
    headers: Vec<(&'a str, String)>,
    body: &'a [u8],
}

impl Subject {
    /// Starts a server, which runs as long as the process.
    pub(crate) fn start() -> io::Result<Self> {
        let mut config = Config::default();
        config.port = 0;
        config.device = Device::Cpu;
        config.threads = 1;
        config.limits.batch = BATCH;
        config.load = config.load.context(CONTEXT).max_concurrent(4);
        let (sender, receiver) = mpsc::channel();
        let serve = move || -> io::Result<()> {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(2).enable_all().build()?;
            runtime.block_on(async move {
                let server = Server::bind(config).await.map_err(io::Error::other)?;
                let (address, ready) = (server.address().socket(), server.ready());
                tokio::spawn(async move {
                    if let (true, Some(address)) = (ready.await, address) {
                        let _ = sender.send(address);
                    }
                });
                server.run(std::future::pending()).await.map_err(io::Error::other)
            })
        };
        thread::Builder::new().name("server".to_owned()).spawn(move || {
            if let Err(error) = serve() {
                eprintln!("the server does not start: {error}");
            }
        })?;
        let address = receiver.recv().map_err(io::Error::other)?;
        Ok(Self { address, connection: None })
    }

    /// Sends the request of a case: there is a response, its status is documented, and an error is
    /// JSON. Returns the response; `None` for a text that describes no request.
    pub(crate) fn exercise(&mut self, case: &[u8]) -> Option<Answer> {
        let request = Request::parse(case)?;
        let begun = Instant::now();
        let answer = match self.send(&request) {
            Ok(answer) => answer,
            Err(error) => panic!("{} {}: no response: {error}", request.method, request.path),
        };
        let text = String::from_utf8_lossy(&answer.body);
        let place = format!("{} {}: {}", request.method, request.path, answer.status);
        let taken = begun.elapsed();
        assert!(taken < PATIENCE, "{place}: a response after {taken:?}");
        // a browser's question before a request has no body
        let is_preflight = answer.status == 204 && request.method == "OPTIONS";
        let is_documented = matches!(answer.status, 200 | 400..=499 | 501 | 503);
        assert!(is_documented || is_preflight, "{place}: {text}");
        let is_json = serde_json::from_slice::<Value>(&answer.body).is_ok();
        let has_body = request.method != "HEAD";
        assert!(answer.status < 400 || is_json || !has_body, "{place}: no JSON: {text}");
        Some(answer)
    }

    fn send(&mut self, request: &Request<'_>) -> io::Result<Answer> {
        // the server may have closed a connection that was idle
        let is_used = self.connection.is_some();
        match self.send_once(request) {
            Err(error) if is_used && is_closed(&error) => self.send_once(request),
            outcome => outcome,
        }
    }

    fn send_once(&mut self, request: &Request<'_>) -> io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(self.address)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        match connection.get_mut().write_all(&request.bytes(self.address)) {
            // the server may answer and close before it has read everything
            Err(error) if !is_closed(&error) => return Err(error),
            _ => {}
        }
        let answer = read(&mut connection, request.method == "HEAD")?;
        if !answer.closes {
            self.connection = Some(connection);
        }
        Ok(answer)
    }
}

impl<'a> Request<'a> {
    fn parse(case: &'a [u8]) -> Option<Self> {
        let (head, body) = match case.windows(2).position(|pair| pair == b"\n\n") {
            Some(at) => (&case[..at], &case[at + 2..]),
            None => (case, &b""[..]),
        };
        let mut lines = std::str::from_utf8(head).ok()?.lines();
        let (method, path) = lines.next()?.split_once(' ')?;
        let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
        // a tunnel is no request to a path
        if !is_method || method == "CONNECT" {
            return None;
        }
        let is_of_path = |c: &char| c.is_ascii_alphanumeric() || OF_PATHS.contains(*c);
        let path: String = path.chars().filter(is_of_path).collect();
        if !path.starts_with('/') {
            return None;
        }
        let header = |line: &'a str| {
            let (name, value) = line.split_once(':')?;
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let is_name = !name.is_empty() && name.bytes().all(is_token);
            let is_framing = FRAMING.contains(&name.to_ascii_lowercase().as_str());
            let value: String = value.trim().chars().filter(|c| matches!(c, ' '..='~')).collect();
            (is_name && !is_framing).then_some((name, value))
        };
        Some(Self { method, path, headers: lines.filter_map(header).collect(), body })
    }

    fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let has =
            |name: &str| self.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        if !has("host") {
            head.push_str(&format!("host: {address}\r\n"));
        }
        if !has("content-type") {
            head.push_str("content-type: application/json\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", self.body.len()));
        [head.as_bytes(), self.body].concat()
    }
}

/// Whether the other side has closed the connection.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::BrokenPipe | Kind::ConnectionAborted | Kind::ConnectionReset | Kind::UnexpectedEof
    )
}

/// Reads a response, which has no body if it answers `HEAD`.
fn read(connection: &mut BufReader<TcpStream>, is_head: bool) -> io::Result<Answer> {
    let status = line(connection)?;
    let status: Option<u16> = status.get(9..12).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("no line of a status"))?;
    let (mut length, mut is_chunked, mut closes) = (None, false, false);
    loop {
        let line = line(connection)?.to_ascii_lowercase();
        let Some((name, value)) = line.split_once(':') else { break };
        match (name, value.trim()) {
            ("content-length", value) => length = value.parse::<u64>().ok(),
            ("transfer-encoding", "chunked") => is_chunked = true,
            ("connection", "close") => closes = true,
            _ => {}
        }
    }
    let mut body = Vec::new();
    match length {
        _ if is_head || status == 204 => {}
        _ if is_chunked => loop {
            let size = line(connection)?;
            let size = u64::from_str_radix(&size, 16).map_err(io::Error::other)?;
            connection.take(size).read_to_end(&mut body)?;
            line(connection)?;
            if size == 0 {
                break;
            }
        },
        Some(length) => {
            connection.take(length).read_to_end(&mut body)?;
        }
        None => {
            closes = true;
            connection.read_to_end(&mut body)?;
        }
    }
    Ok(Answer { status, body, closes })
}

/// The next line without its end.
fn line(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    match connection.read_line(&mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}
