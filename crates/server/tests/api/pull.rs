//! Downloads: a small hub on this machine, the client of Ollama, and requests that go away.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use pelton_server::{ApiKey, Downloads};
use pelton_testing::{Need, skip};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    clients::{python, succeeds},
    harness::{TestServer, read, start},
};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/pelton-tiny.gguf");

/// A hub whose only repository is `o/tiny-GGUF`.
struct Hub {
    address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<&'static str, Vec<u8>>,
    /// Whether the first byte of a file is another one.
    lies: AtomicBool,
    /// Whether bodies stop after 64 KiB.
    stalls: AtomicBool,
    /// Whether bodies of large files come at 40 KiB a second.
    trickles: AtomicBool,
    /// Requests for bytes of files.
    fetched: AtomicUsize,
}

impl Hub {
    fn new(files: &[(&'static str, Vec<u8>)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State { files: files.iter().cloned().collect(), ..State::default() });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(&stream, &state));
            }
        });
        Self { address, state }
    }
}

fn serve(mut stream: &TcpStream, state: &State) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (method, path) = (words[0], words[1].split('?').next().unwrap());
        let mut range = None;
        for header in lines.by_ref() {
            let header = header.unwrap_or_default().to_lowercase();
            if let Some(value) = header.strip_prefix("range: bytes=") {
                let (first, last) = value.split_once('-').unwrap();
                range = Some((first.parse::<usize>().unwrap(), last.parse::<usize>().unwrap()));
            }
            if header.is_empty() {
                break;
            }
        }
        let resolve = format!("/o/tiny-GGUF/resolve/{COMMIT}/");
        let file = path.strip_prefix(&*resolve).and_then(|name| state.files.get(name));
        let (mut status, mut body, mut headers) = (200, Vec::new(), String::new());
        match (path.strip_prefix("/api/models/o/tiny-GGUF/"), file) {
            (Some(rest), _) if rest.starts_with("revision/") => {
                body = json!({"sha": COMMIT}).to_string().into_bytes();
            }
            (Some(_), _) => {
                let item = |(name, bytes): (&&str, &Vec<u8>)| json!({"type": "file", "path": name, "size": bytes.len()});
                body = Value::from_iter(state.files.iter().map(item)).to_string().into_bytes();
            }
            (None, Some(bytes)) => {
                let hash: String =
                    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                headers = format!("ETag: \"{hash}\"\r\n");
                body.clone_from(bytes);
                if state.lies.load(Ordering::SeqCst) {
                    body[0] ^= 1;
                }
                if let Some((first, last)) = range {
                    status = 206;
                    headers += &format!("Content-Range: bytes {first}-{last}/{}\r\n", bytes.len());
                    body = body[first..=last].to_vec();
                }
            }
            (None, None) => status = 404,
        }
        let length = body.len();
        let head = format!("HTTP/1.1 {status} S\r\n{headers}Content-Length: {length}\r\n\r\n");
        if stream.write_all(head.as_bytes()).is_err() {
            return;
        }
        if method == "HEAD" {
            continue;
        }
        let is_file = file.is_some();
        state.fetched.fetch_add(usize::from(is_file), Ordering::SeqCst);
        if is_file && state.stalls.load(Ordering::SeqCst) {
            let _ = stream.write_all(&body[..body.len().min(64 << 10)]);
            while state.stalls.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            return;
        }
        for chunk in body.chunks(2 << 10) {
            if is_file && body.len() > 100 && state.trickles.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(50));
            }
            if stream.write_all(chunk).is_err() {
                return;
            }
        }
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// How a server downloads from a hub, for a user with this home folder.
fn downloads(hub: &Hub, home: &Path) -> Downloads {
    let variable = |name: &str| (name == "HF_ENDPOINT").then(|| hub.address.clone());
    let mut settings = pelton_hub::Settings::of(&variable, Some(home.to_owned())).unwrap();
    settings.ollama.retain(|folder| folder.starts_with(home));
    settings.back_off = Duration::from_millis(1);
    settings.connections = 1;
    Downloads { settings, budget: |_| Some(1 << 30) }
}

fn with(hub: &Hub, name: &str) -> TestServer {
    let downloads = downloads(hub, &folder(name));
    start(|config| config.downloads = Some(downloads))
}

fn model() -> Vec<u8> {
    fs::read(MODEL).unwrap()
}

/// Sends a request whose response is not read.
fn send(server: &TestServer, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /api/pull HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream
}

/// Waits for a condition.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn names(server: &TestServer) -> Vec<String> {
    let tags = server.get("/api/tags").ok();
    let models = tags["models"].as_array().unwrap();
    models.iter().map(|model| model["name"].as_str().unwrap().to_owned()).collect()
}

/// Bytes that begin as a GGUF file does.
fn head(byte: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![byte; length];
    let magic = b"GGUF\x03\0\0\0";
    let begun = length.min(magic.len());
    bytes[..begun].copy_from_slice(&magic[..begun]);
    bytes
}

/// The steps of `api.md` of Ollama: a pull in lines, the list, a text, a deletion.
#[test]
fn a_model_is_pulled_listed_used_and_deleted() {
    let hub = Hub::new(&[("tiny-Q8_0.gguf", model()), ("tiny-Q4_0.gguf", head(0, 9))]);
    let server = with(&hub, "pull-whole");
    let answer = server.post("/api/pull", &json!({"model": "o/tiny-GGUF"}));
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    let lines: Vec<Value> =
        answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last: Vec<&str> =
        lines.iter().rev().take(2).map(|line| line["status"].as_str().unwrap()).collect();
    assert_eq!(last, ["success", "writing manifest"], "{lines:?}");
    assert_eq!(lines[0], json!({"status": "pulling manifest"}));
    let coming = lines.iter().find(|line| line["digest"].is_string()).unwrap();
    let digest: String = Sha256::digest(model()).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(coming["digest"], format!("sha256:{digest}"));
    assert_eq!(coming["total"], model().len());

    assert_eq!(names(&server), ["built-in", "o/tiny-GGUF"]);
    for name in ["o/tiny-GGUF", "o/tiny-GGUF:Q8_0", "o/tiny-GGUF:latest"] {
        let body = json!({"model": name, "prompt": "Hi", "stream": false,
                          "options": {"num_predict": 1}});
        assert_eq!(server.post("/api/generate", &body).ok()["done"], true, "{name}");
    }
    // again, under another name: nothing comes, and the model is the same
    let fetched = hub.state.fetched.load(Ordering::SeqCst);
    let again = json!({"name": "hf.co/o/tiny-GGUF:Q8_0", "stream": false});
    assert_eq!(server.post("/api/pull", &again).ok(), json!({"status": "success"}));
    assert_eq!(hub.state.fetched.load(Ordering::SeqCst), fetched);
    assert_eq!(names(&server), ["built-in", "o/tiny-GGUF"]);
    let shown = server.post("/api/show", &json!({"model": "o/tiny-GGUF:Q8_0"})).ok();
    assert_eq!(shown["details"]["format"], "gguf");

    let delete = |name: &str| {
        let body = json!({"model": name}).to_string();
        server.send("DELETE", "/api/delete", &[], body.as_bytes())
    };
    let document = server.get("/openapi.json").ok();
    let operation = &document["paths"]["/api/delete"]["delete"];
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(schema["required"], json!(["model"]));
    let deleted = delete("o/tiny-GGUF");
    assert_eq!((deleted.status, deleted.body.as_str()), (200, ""));
    assert_eq!(operation["responses"]["200"]["content"], json!({}));
    assert_eq!(names(&server), ["built-in"]);
    assert_eq!(delete("o/tiny-GGUF").status, 404);
    assert_eq!(delete("built-in").status, 403);
    let generate = json!({"model": "o/tiny-GGUF", "prompt": "Hi"});
    assert_eq!(server.post("/api/generate", &generate).status, 404);
}

#[test]
fn faults_of_the_hub_are_errors() {
    let hub = Hub::new(&[("tiny-Q8_0.gguf", head(7, 100_000))]);
    let server = with(&hub, "pull-faults");
    let pull =
        |model: &str, stream| server.post("/api/pull", &json!({"model": model, "stream": stream}));
    for (name, status) in [
        ("/etc/passwd", 400),
        ("o/none", 404),
        ("o/tiny-GGUF:Q2_K", 404),
        ("nothing-known", 400),
        ("http://127.0.0.1:1/x.gguf", 502),
    ] {
        let answer = pull(name, false);
        assert_eq!(answer.status, status, "{name}: {}", answer.body);
        assert!(answer.json()["error"].is_string(), "{name}: {}", answer.body);
    }
    hub.state.lies.store(true, Ordering::SeqCst);
    let answer = pull("o/tiny-GGUF", true);
    let last: Value = serde_json::from_str(answer.body.lines().last().unwrap()).unwrap();
    assert!(last["error"].as_str().unwrap().contains("SHA-256"), "{}", answer.body);
    assert_eq!(names(&server), ["built-in"]);
    hub.state.lies.store(false, Ordering::SeqCst);
    assert_eq!(pull("o/tiny-GGUF", false).ok(), json!({"status": "success"}));
}

/// Two requests for one name are one download, others are bounded, and the last that goes ends it.
#[test]
fn downloads_are_joined_bounded_and_cancelled() {
    let files = [("a-Q8_0.gguf", head(1, 300_000)), ("b-Q4_0.gguf", head(2, 300_000))];
    let hub = Hub::new(&[files[0].clone(), files[1].clone(), ("c-Q6_K.gguf", head(3, 9))]);
    let home = folder("pull-joined");
    let downloads = downloads(&hub, &home);
    let server = start(|config| config.downloads = Some(downloads));
    hub.state.stalls.store(true, Ordering::SeqCst);
    let fetched = || hub.state.fetched.load(Ordering::SeqCst);
    let (a, again) = (json!({"model": "o/tiny-GGUF:Q8_0"}), json!({"name": "hf:o/tiny-GGUF:Q8_0"}));
    let first = send(&server, &a);
    eventually("the first begins", || fetched() == 1);
    let second = send(&server, &again);
    let third = send(&server, &json!({"model": "o/tiny-GGUF:Q4_0", "stream": false}));
    eventually("the third begins", || fetched() == 2);
    let refused = server.post("/api/pull", &json!({"model": "o/tiny-GGUF:Q6_K"}));
    assert_eq!(refused.status, 429, "{}", refused.body);
    // the second one keeps the download
    drop(first);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(server.post("/api/pull", &json!({"model": "o/tiny-GGUF:Q6_K"})).status, 429);
    drop((second, third));
    eventually("places are free", || {
        let answer = server.post("/api/pull", &json!({"model": "o/none", "stream": false}));
        answer.status == 404
    });
    hub.state.stalls.store(false, Ordering::SeqCst);
    let done = server.post("/api/pull", &json!({"model": "o/tiny-GGUF:Q8_0", "stream": false}));
    assert_eq!(done.ok(), json!({"status": "success"}));
    let snapshot = home.join(".cache/huggingface/hub/models--o--tiny-GGUF/snapshots").join(COMMIT);
    assert_eq!(fs::read(snapshot.join("a-Q8_0.gguf")).unwrap(), files[0].1);
    assert!(!snapshot.join("b-Q4_0.gguf").exists());
}

/// Hosts that send a little hold the places of others for a third of the time in which they may
/// stall.
#[test]
fn slow_hosts_give_their_places_up() {
    let files = [("a-Q8_0.gguf", head(1, 3_000_000)), ("b-Q4_0.gguf", head(2, 3_000_000))];
    let hub = Hub::new(&[files[0].clone(), files[1].clone(), ("c-Q6_K.gguf", head(3, 100))]);
    let mut downloads = downloads(&hub, &folder("pull-slow"));
    downloads.settings.stall = Duration::from_secs(9);
    let server = start(|config| config.downloads = Some(downloads));
    hub.state.trickles.store(true, Ordering::SeqCst);
    let body = |tag: &str| json!({"model": format!("o/tiny-GGUF:{tag}"), "stream": false});
    let begun = Instant::now();
    let slow = [send(&server, &body("Q8_0")), send(&server, &body("Q4_0"))];
    eventually("both begin", || hub.state.fetched.load(Ordering::SeqCst) == 2);
    let refused = server.post("/api/pull", &body("Q6_K"));
    // a busy machine may have taken the three seconds for that
    assert!(refused.status == 429 || begun.elapsed() > Duration::from_secs(3), "{}", refused.body);
    eventually("a third one has a place", || server.post("/api/pull", &body("Q6_K")).status == 200);
    assert_eq!(names(&server), ["built-in", "o/tiny-GGUF:Q6_K"]);
    // the slow ones go on
    hub.state.trickles.store(false, Ordering::SeqCst);
    for mut stream in slow {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(read(&mut stream).ok(), json!({"status": "success"}));
    }
}

#[test]
fn downloads_need_an_admin_or_this_machine() {
    let hub = Hub::new(&[("tiny-Q8_0.gguf", head(7, 100))]);
    let key = |secret: &str| ApiKey { name: secret.into(), secret: secret.into(), priority: 0 };
    let pull = |server: &TestServer, headers: &[(&str, &str)]| {
        let body = json!({"model": "o/tiny-GGUF", "stream": false}).to_string();
        server.send("POST", "/api/pull", headers, body.as_bytes()).status
    };
    let open = with(&hub, "pull-open");
    assert_eq!(pull(&open, &[("x-forwarded-for", "203.0.113.7")]), 403);
    assert_eq!(pull(&open, &[]), 200);
    let downloads = |name: &str| downloads(&hub, &folder(name));
    let keyed = start(|config| {
        config.downloads = Some(downloads("pull-keyed"));
        config.keys = vec![key("user")];
    });
    assert_eq!(pull(&keyed, &[]), 401);
    assert_eq!(pull(&keyed, &[("authorization", "Bearer user")]), 403);
    let admin = start(|config| {
        config.downloads = Some(downloads("pull-admin"));
        config.keys = vec![key("user")];
        config.admin_keys = vec![key("admin")];
    });
    assert_eq!(pull(&admin, &[("authorization", "Bearer user")]), 403);
    assert_eq!(pull(&admin, &[("authorization", "Bearer admin")]), 200);
    let offline = start(|config| {
        let mut downloads = downloads("pull-offline");
        downloads.settings.offline = true;
        config.downloads = Some(downloads);
    });
    assert_eq!(pull(&offline, &[]), 403);
}

/// A server that was started with one model answers any name by it, also after a download.
#[test]
fn any_name_is_still_the_first_model() {
    let hub = Hub::new(&[("tiny-Q8_0.gguf", model())]);
    let downloads = downloads(&hub, &folder("pull-names"));
    let server = start(|config| {
        config.downloads = Some(downloads);
        config.strict_models = false;
    });
    let pull = json!({"model": "o/tiny-GGUF", "stream": false});
    server.post("/api/pull", &pull).ok();
    let asked = |name: &str| {
        let body = json!({"model": name, "max_tokens": 1, "prompt": "Hi"});
        server.post("/v1/completions", &body).ok()["model"].clone()
    };
    assert_eq!(asked("gpt-5"), "built-in");
    assert_eq!(asked("o/tiny-GGUF"), "o/tiny-GGUF");
}

/// The name by which a model was pulled is its name everywhere, in all its spellings.
#[test]
fn pulled_names_work_in_all_spellings() {
    const SPELLINGS: [&str; 7] = [
        "hf.co/o/tiny-GGUF:Q8_0",
        "hf.co/o/tiny-GGUF:q8_0",
        "huggingface.co/o/tiny-GGUF:Q8_0",
        "https://huggingface.co/o/tiny-GGUF:Q8_0",
        "hf:o/tiny-GGUF:Q8_0",
        "o/tiny-GGUF:Q8_0",
        "o/tiny-GGUF:latest",
    ];
    let hub = Hub::new(&[("tiny-Q8_0.gguf", model()), ("tiny-Q4_0.gguf", model())]);
    let downloads = downloads(&hub, &folder("pull-spellings"));
    let server = start(|config| {
        config.downloads = Some(downloads);
        config.strict_models = false;
    });
    let delete = |name: &str| {
        let body = json!({"model": name}).to_string();
        server.send("DELETE", "/api/delete", &[], body.as_bytes()).status
    };
    let generate = |name: &str| {
        let body = json!({"model": name, "prompt": "Hi", "stream": false,
                          "options": {"num_predict": 1}});
        server.post("/api/generate", &body)
    };
    let complete = |name: &str| {
        let body = json!({"model": name, "max_tokens": 1, "prompt": "Hi"});
        server.post("/v1/completions", &body)
    };
    for pulled in SPELLINGS {
        server.post("/api/pull", &json!({"model": pulled, "stream": false})).ok();
        let expected = if pulled.contains("latest") { "o/tiny-GGUF" } else { "o/tiny-GGUF:Q8_0" };
        assert_eq!(names(&server), ["built-in", expected], "{pulled}");
        let list = server.get("/v1/models").ok();
        let ids: Vec<&str> = list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids.iter().filter(|id| **id == expected).count(), 1, "{ids:?}");
        for name in SPELLINGS {
            assert_eq!(generate(name).ok()["model"], expected, "{pulled}: {name}");
            assert_eq!(complete(name).ok()["model"], expected, "{pulled}: {name}");
            assert_eq!(server.post("/api/show", &json!({"model": name})).status, 200, "{name}");
        }
        // other files of the repository are other models
        for name in ["hf.co/o/tiny-GGUF:Q4_0", "o/tiny-GGUF@v2:Q8_0"] {
            assert_eq!((generate(name).status, complete(name).status), (404, 404), "{name}");
            assert_eq!(delete(name), 404, "{name}");
        }
        // Ollama's clients name what they have pulled; others have any name for the first model
        assert_eq!(generate("never-pulled:1b").status, 404);
        assert_eq!(complete("gpt-5").ok()["model"], "built-in");
        assert_eq!(delete(pulled), 200, "{pulled}");
        assert_eq!(names(&server), ["built-in"], "{pulled}");
        assert_eq!((delete(pulled), generate(pulled).status), (404, 404), "{pulled}");
        assert_eq!(complete(pulled).status, 404, "{pulled}");
    }
    // a short name in the letters of its user, as long as the list of names has it
    assert_eq!(generate("gpt-5").ok()["model"], "built-in");
}

/// The Python client of Ollama, where the machine has it.
#[test]
fn the_client_of_ollama_pulls() {
    let python = python();
    if !succeeds(Command::new(&python).args(["-c", "import ollama"])) {
        return skip(Need::Python, format_args!("{} has no ollama", python.display()));
    }
    let hub = Hub::new(&[("tiny-Q8_0.gguf", model())]);
    let server = with(&hub, "pull-client");
    let script = "
import ollama, sys
client = ollama.Client(host=sys.argv[1])
parts = list(client.pull('o/tiny-GGUF:Q8_0', stream=True))
assert parts[0].status == 'pulling manifest' and parts[-1].status == 'success', parts
assert any(part.digest and part.total for part in parts), parts
assert [model.model for model in client.list().models] == ['built-in', 'o/tiny-GGUF:Q8_0']
assert client.generate('o/tiny-GGUF:Q8_0', 'Hi', options={'num_predict': 1}).done
assert client.show('o/tiny-GGUF:Q8_0').details.format == 'gguf'
try:
    list(client.pull('o/none', stream=True))
    sys.exit('there is no such model')
except ollama.ResponseError as error:
    assert '404' in str(error), error
assert client.delete('o/tiny-GGUF:Q8_0').status == 'success'
assert [model.model for model in client.list().models] == ['built-in']
print('ok')
";
    let output = Command::new(python)
        .args(["-c", script, &format!("http://{}", server.address)])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{output:?}");
}
