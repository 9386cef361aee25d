//! A server in this process, and a small HTTP client.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::OnceLock,
    thread::JoinHandle,
    time::Duration,
};

use pelton::Device;
use pelton_server::{Config, Server};
use serde_json::Value;
use tokio::sync::oneshot;

/// A server that runs until it is dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// By names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// A configuration for tests: the built-in model on one thread of the CPU, any port.
pub(crate) fn config() -> Config {
    let mut config = Config::default();
    config.port = 0;
    config.device = Device::Cpu;
    config.threads = 1;
    config.strict_models = true;
    config.load = config.load.context(512).max_concurrent(4);
    config
}

/// Starts a server with a changed configuration.
pub(crate) fn start(change: impl FnOnce(&mut Config)) -> TestServer {
    let mut config = config();
    change(&mut config);
    let (stop, stopped) = oneshot::channel();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let server = Server::bind(config).await.unwrap();
            let (address, ready) = (server.address().socket().unwrap(), server.ready());
            tokio::spawn(async move {
                if ready.await {
                    sender.send(address).unwrap();
                }
            });
            server.run(async { stopped.await.unwrap_or(()) }).await.unwrap();
        });
    });
    let address = receiver.recv().unwrap();
    TestServer { address, stop: Some(stop), thread: Some(thread) }
}

/// A server that all tests share.
pub(crate) fn shared() -> &'static TestServer {
    static SERVER: OnceLock<TestServer> = OnceLock::new();
    SERVER.get_or_init(|| start(|_| {}))
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

impl TestServer {
    /// Begins the shutdown.
    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits for the end of the shutdown.
    pub(crate) fn join(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends a request and reads the whole response.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut stream = self.connect();
        stream.write_all(&self.head(method, path, headers, body.len())).unwrap();
        // the server may answer and close before it has read everything
        let _ = stream.write_all(body);
        read(&mut stream)
    }

    /// The head of a request.
    pub(crate) fn head(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        len: usize,
    ) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-type: application/json\r\ncontent-length: {len}\r\n\r\n"));
        head.into_bytes()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    /// The body at a path, read with a key.
    pub(crate) fn get_as(&self, secret: &str, path: &str) -> String {
        self.send("GET", path, &[("x-api-key", secret)], b"").body
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], body.to_string().as_bytes())
    }
}

/// Reads a response to the end of the connection.
pub(crate) fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // a connection that is reset ends the response too
    let _ = stream.read_to_end(&mut bytes);
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let at = at.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.trim().to_lowercase(), value.trim().to_owned())
    };
    let headers: BTreeMap<_, _> = lines.map(header).collect();
    let mut body = bytes[at + 4..].to_vec();
    if headers.get("transfer-encoding").is_some_and(|value| value == "chunked") {
        body = unchunk(&body);
    }
    Answer { status, headers, body: String::from_utf8(body).unwrap() }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(at) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..at]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let end = (at + 2 + size).min(bytes.len());
        body.extend_from_slice(&bytes[at + 2..end]);
        bytes = bytes.get(end + 2..).unwrap_or_default();
    }
    body
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The JSON of a response with status 200.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()
    }

    /// The data of server-sent events: all but comments and names.
    pub(crate) fn events(&self) -> Vec<String> {
        assert_eq!(self.status, 200, "{}", self.body);
        let data = |line: &str| line.strip_prefix("data: ").map(str::to_owned);
        self.body.lines().filter_map(data).collect()
    }

    /// The events before `[DONE]`.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        let mut events = self.events();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"));
        events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// The lines of NDJSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.body);
        self.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
