//! A hub on this machine, whose repositories are honest or lie in one manner each.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The commit of every repository.
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const FILE: &str = "m-Q8_0.gguf";
const SIZE: usize = 1_500_000;
/// Names of repositories that lie. The name of an honest one begins with `good`.
pub(crate) const LIES: [&str; 20] = [
    "trickle",
    "trickle-list",
    "silent",
    "early",
    "wrong-bytes",
    "short-size",
    "long-size",
    "huge-size",
    "loop",
    "away",
    "names",
    "pages",
    "deep-list",
    "page-of-html",
    "statuses",
    "endless-head",
    "wrong-range",
    "wrong-tag",
    "no-model",
    "closes",
];
/// The pause between two bytes of a trickle.
const TRICKLE: Duration = Duration::from_millis(50);

pub(crate) struct Hub {
    pub(crate) address: String,
}

struct Request {
    method: String,
    path: String,
    /// The first and the last byte that are wanted.
    range: Option<(usize, usize)>,
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
    /// Whether the connection ends after half of the body.
    is_cut: bool,
    is_trickle: bool,
}

impl Answer {
    fn new(status: u16, headers: String, body: Vec<u8>) -> Self {
        Self { status, headers, body, is_cut: false, is_trickle: false }
    }

    fn json(value: &Value) -> Self {
        Self::new(200, String::new(), value.to_string().into_bytes())
    }
}

impl Hub {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // a client that goes ends its thread
                thread::spawn(move || serve(&stream));
            }
        });
        Self { address }
    }
}

/// The SHA-256 of the file of an honest repository.
pub(crate) fn hash(repository: &str) -> String {
    hex(&bytes(repository))
}

/// Where the cache in a home folder has the file of a repository.
pub(crate) fn place(repository: &str) -> String {
    format!(".cache/huggingface/hub/models--o--{repository}/snapshots/{COMMIT}/{FILE}")
}

/// The SHA-256 of bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file of a repository: random bytes, which begin as those of a model do if it is one.
fn bytes(repository: &str) -> Vec<u8> {
    let seed = repository.bytes().fold(0, |sum, byte| sum * 31 + u64::from(byte));
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut bytes: Vec<u8> = (0..SIZE).map(|_| rng.u8(..)).collect();
    if repository != "no-model" {
        bytes[..8].copy_from_slice(b"GGUF\x03\0\0\0");
    }
    bytes
}

fn serve(mut stream: &TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let line = lines.next()?.ok()?;
        let mut words = line.split_whitespace();
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut range = None;
        loop {
            let header = lines.next()?.ok()?.to_lowercase();
            if let Some(value) = header.strip_prefix("range: bytes=") {
                let (first, last) = value.split_once('-')?;
                range = Some((first.parse().ok()?, last.parse().ok()?));
            }
            if header.is_empty() {
                break;
            }
        }
        let request = Request { method, path, range };
        let repository = repository(&request.path).unwrap_or_default().to_owned();
        let answer = lie(&repository, &request, honest(&repository, &request))?;
        let length = match answer.headers.contains("Content-Length") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", answer.body.len()),
        };
        let head = format!("HTTP/1.1 {} Status\r\n{}{length}\r\n", answer.status, answer.headers);
        stream.write_all(head.as_bytes()).ok()?;
        if request.method == "HEAD" {
            continue;
        }
        if answer.is_cut {
            stream.write_all(&answer.body[..answer.body.len() / 2]).ok()?;
            return None;
        }
        let chunk = if answer.is_trickle { 1 } else { answer.body.len().max(1) };
        for bytes in answer.body.chunks(chunk) {
            stream.write_all(bytes).ok()?;
            if answer.is_trickle {
                thread::sleep(TRICKLE);
            }
        }
    }
}

/// The repository that a path names.
fn repository(path: &str) -> Option<&str> {
    path.strip_prefix("/api/models/o/").or_else(|| path.strip_prefix("/o/"))?.split('/').next()
}

fn honest(repository: &str, request: &Request) -> Answer {
    let (path, bytes) = (request.path.as_str(), bytes(repository));
    if path.contains("/revision/") {
        return Answer::json(&json!({"id": format!("o/{repository}"), "sha": COMMIT}));
    }
    if path.contains("/tree/") {
        let lfs = json!({"oid": hex(&bytes), "size": bytes.len()});
        return Answer::json(
            &json!([{"type": "file", "path": FILE, "size": bytes.len(), "lfs": lfs}]),
        );
    }
    if !path.contains(FILE) {
        return Answer::new(404, String::new(), Vec::new());
    }
    let tag = format!("ETag: \"{}\"\r\nX-Repo-Commit: {COMMIT}\r\n", hex(&bytes));
    match request.range {
        Some((first, last)) if first <= last && first < bytes.len() => {
            let last = last.min(bytes.len() - 1);
            let range = format!("{tag}Content-Range: bytes {first}-{last}/{}\r\n", bytes.len());
            Answer::new(206, range, bytes[first..=last].to_vec())
        }
        Some(_) => Answer::new(416, tag, Vec::new()),
        None => Answer::new(200, tag, bytes),
    }
}

/// Changes the honest answer as a repository does; `None` closes the connection.
fn lie(repository: &str, request: &Request, mut answer: Answer) -> Option<Answer> {
    let is_tree = request.path.contains("/tree/");
    let is_file = request.path.contains("/resolve/");
    let listed = |path: &str, size: u64| {
        Answer::json(&json!([{"type": "file", "path": path, "size": size}]))
    };
    match repository {
        "trickle" => answer.is_trickle = is_file,
        "trickle-list" => answer.is_trickle = is_tree,
        "silent" if is_file => thread::sleep(Duration::from_secs(60)),
        "early" => answer.is_cut = is_file,
        "wrong-bytes" if !answer.body.is_empty() && is_file => {
            let middle = answer.body.len() / 2;
            answer.body[middle] ^= 1;
        }
        "short-size" if is_tree => return Some(listed(FILE, 1000)),
        "long-size" if is_tree => return Some(listed(FILE, 10 * SIZE as u64)),
        "huge-size" if is_tree => return Some(listed(FILE, 1 << 60)),
        "huge-size" if is_file => {
            answer.headers += &format!("Content-Length: {}\r\n", 1_u64 << 60);
        }
        "loop" if is_file => {
            return Some(Answer::new(302, format!("Location: {}\r\n", request.path), Vec::new()));
        }
        "away" if is_file => {
            let to = ["file:///etc/passwd", "http://127.0.0.1:1/m-Q8_0.gguf", "//", "gopher://a"];
            let to = fastrand::choice(to)?;
            return Some(Answer::new(307, format!("Location: {to}\r\n"), Vec::new()));
        }
        "names" if is_tree => return Some(listed("../../../m-Q8_0.gguf", 1000)),
        "pages" if is_tree => {
            answer = listed("README.md", 1);
            answer.headers = "Link: <?again=1>; rel=\"next\"\r\n".to_owned();
        }
        "deep-list" if is_tree => {
            return Some(Answer::new(200, String::new(), "[".repeat(100_000).into_bytes()));
        }
        "page-of-html" => answer.body = "<html>log in".repeat(100_000).into_bytes(),
        "statuses" => {
            answer.status = fastrand::choice([401, 403, 404, 429, 500, 503, 999])?;
            answer.headers += "Retry-After: 99999999999\r\n";
        }
        "endless-head" => answer.headers += &"X-More: more\r\n".repeat(200_000),
        "wrong-range" if request.range.is_some() => {
            answer.headers =
                answer.headers.replace("Content-Range: bytes ", "Content-Range: bytes 9");
        }
        "wrong-tag" if is_file => {
            answer.headers = format!("ETag: \"../../{}\"\r\n", "a".repeat(5000));
        }
        "closes" if is_file => return None,
        _ => {}
    }
    Some(answer)
}
