//! A hub on this machine, which answers as Hugging Face's does, or lies.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The commit of every repository.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// Bytes from which a file is in large-file storage, which has a host of its own.
const LARGE: usize = 10_000;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path and the query.
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Request {
    pub(crate) fn is(&self, method: &str, part: &str) -> bool {
        self.method == method && self.path.contains(part)
    }

    /// The first and the last byte that are wanted.
    pub(crate) fn range(&self) -> Option<(usize, usize)> {
        let range = self.headers.get("range")?.strip_prefix("bytes=")?;
        let (first, last) = range.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

/// An answer as it goes out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// The bytes of the body that are sent before the connection ends.
    pub(crate) cut: Option<usize>,
    /// The bytes of the body that are sent before nothing more comes.
    pub(crate) hang: Option<usize>,
    /// Whether a byte comes each 50 ms.
    pub(crate) trickle: bool,
    /// The pause before each 64 KiB.
    pub(crate) pause: Duration,
    /// Whether the length is left out.
    pub(crate) without_length: bool,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self { status: 200, body: value.to_string().into_bytes(), ..Self::default() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.to_string()));
        self
    }
}

/// Changes or replaces the honest answer.
pub(crate) type Lie = Box<dyn Fn(&Request, Answer) -> Answer + Send + Sync>;

/// Two hosts: the hub, and the storage of its large files.
pub(crate) struct Server {
    /// The hub's address.
    pub(crate) endpoint: String,
    /// The address of the large files.
    pub(crate) storage: String,
    pub(crate) state: Arc<State>,
}

struct File {
    bytes: Vec<u8>,
    sha256: String,
    git_sha1: String,
}

impl File {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { sha256: sha256(&bytes), git_sha1: git_sha1(&bytes), bytes })
    }
}

pub(crate) struct State {
    files: Mutex<BTreeMap<String, Arc<File>>>,
    lie: Mutex<Option<Arc<Lie>>>,
    /// Bytes of bodies that were sent.
    sent: AtomicUsize,
    log: Mutex<Vec<Request>>,
    storage: String,
}

impl Server {
    /// A hub whose only repository, `o/n`, has these files.
    pub(crate) fn new(files: &[(&str, Vec<u8>)]) -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (hub, storage) = (listen(), listen());
        let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let (endpoint, at) = (address(&hub), address(&storage));
        let named =
            |(name, bytes): &(&str, Vec<u8>)| ((*name).to_owned(), File::new(bytes.clone()));
        let files = files.iter().map(named).collect();
        let state = Arc::new(State {
            files: Mutex::new(files),
            lie: Mutex::default(),
            sent: AtomicUsize::new(0),
            log: Mutex::default(),
            storage: at.clone(),
        });
        for (listener, is_storage) in [(hub, false), (storage, true)] {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = Arc::clone(&state);
                    thread::spawn(move || serve(&state, &stream, is_storage));
                }
            });
        }
        Self { endpoint, storage: at, state }
    }

    /// Lies from now on.
    pub(crate) fn lie(&self, lie: impl Fn(&Request, Answer) -> Answer + Send + Sync + 'static) {
        *self.state.lie.lock().unwrap() = Some(Arc::new(Box::new(lie)));
    }

    /// Is honest from now on.
    pub(crate) fn repent(&self) {
        *self.state.lie.lock().unwrap() = None;
    }

    pub(crate) fn set(&self, name: &str, bytes: Vec<u8>) {
        self.state.files.lock().unwrap().insert(name.to_owned(), File::new(bytes));
    }

    /// Bytes of bodies that were sent so far.
    pub(crate) fn sent(&self) -> usize {
        self.state.sent.load(Ordering::Relaxed)
    }

    /// The requests so far, which are forgotten.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.state.log.lock().unwrap())
    }
}

/// Answers the requests of a connection.
pub(crate) fn serve<S>(state: &State, stream: &S, is_storage: bool)
where
    for<'a> &'a S: Read + Write,
{
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        state.log.lock().unwrap().push(request.clone());
        let honest = if is_storage { file(state, &request) } else { hub(state, &request) };
        let lie = state.lie.lock().unwrap().clone();
        let answer = match lie {
            Some(lie) => lie(&request, honest),
            None => honest,
        };
        if write(state, stream, &request, &answer).is_none() {
            break;
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Some(Request { method, path, headers })
}

/// Writes an answer; `None` if the connection ends with it.
fn write<S>(state: &State, mut stream: &S, request: &Request, answer: &Answer) -> Option<()>
where
    for<'a> &'a S: Read + Write,
{
    let mut head = format!("HTTP/1.1 {} Status\r\n", answer.status);
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let has_length = answer.headers.iter().any(|(name, _)| *name == "Content-Length");
    if !has_length && !answer.without_length {
        head += &format!("Content-Length: {}\r\n", answer.body.len());
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
    if request.method == "HEAD" {
        return Some(());
    }
    if answer.trickle {
        return answer.body.iter().try_for_each(|byte| {
            thread::sleep(Duration::from_millis(50));
            stream.write_all(&[*byte]).ok()
        });
    }
    let sent = answer.cut.or(answer.hang).unwrap_or(answer.body.len()).min(answer.body.len());
    for chunk in answer.body[..sent].chunks(64 << 10) {
        thread::sleep(answer.pause);
        stream.write_all(chunk).ok()?;
        state.sent.fetch_add(chunk.len(), Ordering::Relaxed);
    }
    if answer.hang.is_some() {
        thread::sleep(Duration::from_secs(20));
    }
    (answer.cut.is_none() && answer.hang.is_none() && !answer.without_length).then_some(())
}

/// The hub's own answer.
fn hub(state: &State, request: &Request) -> Answer {
    let files = state.files.lock().unwrap();
    let path = request.path.split('?').next().unwrap();
    if path.starts_with("/api/models/o/n/revision/") {
        return Answer::json(&serde_json::json!({ "id": "o/n", "sha": COMMIT }));
    }
    if path == format!("/api/models/o/n/tree/{COMMIT}") {
        let item = |(name, file): (&String, &Arc<File>)| {
            let bytes = &file.bytes;
            let mut item = serde_json::json!({
                "type": "file", "path": name, "size": bytes.len(), "oid": file.git_sha1,
            });
            if bytes.len() >= LARGE {
                item["lfs"] = serde_json::json!({ "oid": file.sha256, "size": bytes.len() });
            }
            item
        };
        return Answer::json(&files.iter().map(item).collect());
    }
    let Some(name) = in_repository(path) else { return Answer::status(404) };
    let Some(found) = files.get(name).cloned() else { return Answer::status(404) };
    drop(files);
    if found.bytes.len() < LARGE {
        return file(state, request).header("X-Repo-Commit", COMMIT);
    }
    Answer::status(302)
        .header("Location", format!("{}/{name}?signature=x", state.storage))
        .header("X-Repo-Commit", COMMIT)
        .header("X-Linked-ETag", format!("\"{}\"", found.sha256))
        .header("X-Linked-Size", found.bytes.len())
}

/// The file of an address in the repository.
fn in_repository(path: &str) -> Option<&str> {
    let (revision, name) = path.strip_prefix("/o/n/resolve/")?.split_once('/')?;
    [COMMIT, "main"].contains(&revision).then_some(name)
}

/// A file with ranges.
fn file(state: &State, request: &Request) -> Answer {
    let path = request.path.split('?').next().unwrap();
    let name = in_repository(path).unwrap_or(&path[1..]);
    let found = state.files.lock().unwrap().get(name).cloned();
    let Some(found) = found else { return Answer::status(404) };
    let bytes = &found.bytes;
    let etag = format!("\"{}\"", found.git_sha1);
    let whole = Answer { status: 200, body: bytes.clone(), ..Answer::default() };
    let answer = match request.range() {
        None => whole,
        Some((first, _)) if first >= bytes.len() => Answer::status(416),
        Some((first, last)) => {
            let last = last.min(bytes.len() - 1);
            let body = bytes[first..=last].to_vec();
            let range = format!("bytes {first}-{last}/{}", bytes.len());
            Answer { status: 206, body, ..Answer::default() }.header("Content-Range", range)
        }
    };
    answer.header("ETag", etag)
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn git_sha1(bytes: &[u8]) -> String {
    let mut digest = Sha1::new();
    digest.update(format!("blob {}\0", bytes.len()));
    digest.update(bytes);
    hex(&digest.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
