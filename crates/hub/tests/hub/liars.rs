//! Downloads from hubs that fail and lie. None of them leaves a file that looks complete.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use pelton_hub::{Cancel, Error, Hub, Token};

use crate::{
    noise, pull, reference,
    server::{Answer, COMMIT, Request, Server},
    settings, tree,
};

const SIZE: usize = 3_000_000;

fn server() -> Server {
    Server::new(&[("m-Q8_0.gguf", noise(1, SIZE))])
}

/// The sentence with which a download fails; the cache has no model after it.
fn refusal(server: &Server) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut settings = settings(home.path(), &server.endpoint);
    settings.stall = Duration::from_secs(2);
    let error = pull(&settings, "o/n:Q8_0").unwrap_err();
    let left = tree(&settings.cache);
    assert!(
        !left.iter().any(|path| path.contains("/snapshots/") || path.contains("/refs/")),
        "{left:?}"
    );
    assert!(Hub::new(settings).unwrap().list().is_empty());
    let error = error.to_string();
    assert!(!error.contains('\n') && !error.contains("signature"), "{error}");
    error
}

fn is_bytes(request: &Request) -> bool {
    request.is("GET", "signature=")
}

/// Hugging Face's refusal of a gated file.
fn gated(status: u16) -> Answer {
    Answer::status(status).header("X-Error-Code", "GatedRepo").header(
        "X-Error-Message",
        "Access to model o/n is restricted. You must have access to it and be authenticated to access it.",
    )
}

type Lie = fn(&Request, Answer) -> Answer;

/// Each lie, and words of the sentence that answers it.
const LIES: &[(Lie, &str)] = &[
    (|_, _| Answer::status(401), "HF_TOKEN"),
    // the codes and messages of Hugging Face
    (
        |r, a| match r.method == "HEAD" {
            true => gated(401),
            false => a,
        },
        "the model is gated: accept its conditions at http://",
    ),
    (|r, a| if r.method == "HEAD" { gated(403) } else { a }, "it says: Access to model o/n is"),
    (
        |_, _| Answer::status(401).header("X-Error-Code", "RepoNotFound"),
        "no such model, or it is private",
    ),
    (|_, _| Answer::status(404).header("X-Error-Code", "RevisionNotFound"), "no such revision"),
    (|_, _| Answer::status(403), "accept its conditions"),
    (|_, _| Answer::status(404), "no such model"),
    (|_, _| Answer::status(500), "the host has a fault"),
    (|_, _| Answer::status(429), "too many requests"),
    (|_, _| Answer::status(429).header("Retry-After", 3600), "a pause of 3600 seconds"),
    (|_, _| Answer::status(418), "expected the status 200"),
    (|_, _| Answer::status(302), "without an address"),
    (|_, _| Answer::status(302).header("Location", "file:///etc/passwd"), "expected an address"),
    (|r, _| Answer::status(302).header("Location", &r.path), "more than 10 redirects"),
    (|_, a| Answer { body: b"<html>".to_vec(), ..a }, "not the JSON"),
    (|_, a| Answer { body: br#"{"sha": "../../x"}"#.to_vec(), ..a }, "40 hexadecimal digits"),
    (|_, a| Answer { body: vec![b' '; 17 << 20], ..a }, "more than 16777216 bytes"),
    (|_, a| Answer { body: vec![b' '; 17 << 20], without_length: true, ..a }, "more than 16777216"),
    // lists
    (
        |r, a| match r.path.contains("/tree/") {
            true => Answer::json(&serde_json::json!([
                { "type": "file", "path": "../../m-Q8_0.gguf", "size": 9 },
                { "type": "file", "path": "C:\\m-Q8_0.gguf", "size": 9 },
                { "type": "file", "path": "/etc/m-Q8_0.gguf", "size": 9 },
            ])),
            false => a,
        },
        "3 names of files were refused",
    ),
    (
        |r, a| match r.path.contains("/tree/") {
            true => a.header("Link", "<http://127.0.0.1:1/more>; rel=\"next\""),
            false => a,
        },
        "goes on at another host",
    ),
    (
        |r, a| match r.path.contains("/tree/") {
            true => a.header("Link", "<http://no such address>; rel=\"next\""),
            false => a,
        },
        "goes on at another host",
    ),
    (
        |r, a| match r.path.contains("/tree/") {
            true => {
                let mut list: serde_json::Value = serde_json::from_slice(&a.body).unwrap();
                list[0]["lfs"]["oid"] = "0".repeat(64).into();
                Answer { body: list.to_string().into_bytes(), ..a }
            }
            false => a,
        },
        "as the list says",
    ),
    // heads
    (
        |r, a| if r.method == "HEAD" { a.header("X-Linked-ETag", "../../x") } else { a },
        "no name of a file",
    ),
    (|r, a| if r.method == "HEAD" { a.header("X-Linked-Size", 7) } else { a }, "it has 7 bytes"),
    (|r, a| if r.method == "HEAD" { a.header("X-Repo-Commit", "f") } else { a }, "another commit"),
    (
        |r, a| match r.method == "HEAD" {
            true => a.header("X-Linked-ETag", "0".repeat(64)),
            false => a,
        },
        "as the list says",
    ),
    // bytes
    (|r, a| if is_bytes(r) { Answer::status(416) } else { a }, "shorter than announced"),
    (|r, a| if is_bytes(r) { Answer { cut: Some(0), ..a } } else { a }, "within the body"),
    (|r, a| if is_bytes(r) { Answer { cut: Some(99), ..a } } else { a }, "within the body"),
    (|r, a| if is_bytes(r) { Answer { hang: Some(99), ..a } } else { a }, "nothing more came"),
    (
        |r, mut a| {
            if is_bytes(r) {
                a.body[0] ^= 1;
            }
            a
        },
        "has the SHA-256",
    ),
    (
        |r, a| match is_bytes(r) {
            true => a.header("Content-Range", format!("bytes 0-1048575/{}", SIZE + 1)),
            false => a,
        },
        "the file has changed",
    ),
    (
        |r, a| match is_bytes(r) {
            true => Answer { status: 200, body: noise(1, SIZE + 1), ..Answer::default() },
            false => a,
        },
        "the file has changed",
    ),
    (
        |r, a| match is_bytes(r) {
            true => Answer {
                status: 200,
                body: noise(1, SIZE + 1),
                without_length: true,
                ..Answer::default()
            },
            false => a,
        },
        "longer than the announced 3000000 bytes",
    ),
];

#[test]
fn every_lie_is_refused_with_a_sentence() {
    let mut wrong = Vec::new();
    for (index, (lie, words)) in LIES.iter().enumerate() {
        let server = server();
        server.lie(lie);
        let error = refusal(&server);
        if !error.contains(words) {
            wrong.push(format!("lie {index}: expected {words:?}, found {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_hub_that_is_not_there() {
    let home = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let error = pull(&settings(home.path(), "http://127.0.0.1:1"), "o/n").unwrap_err();
    assert!(matches!(error, Error::Network { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

/// Faults that pass: the download succeeds, and the file is right.
#[test]
fn passing_faults_are_overcome() {
    /// Answers the request of this number.
    type Fault = fn(usize, &Request, Answer) -> Answer;
    let faults: [(&str, Fault); 6] = [
        (
            "429",
            |n, _, a| if n % 7 == 0 { Answer::status(429).header("Retry-After", 0) } else { a },
        ),
        ("503", |n, _, a| if n % 5 == 0 { Answer::status(503) } else { a }),
        ("resets", |_, r, a| match is_bytes(r) {
            true => Answer { cut: Some(a.body.len().min(300_000)), ..a },
            false => a,
        }),
        ("stalls", |n, r, a| match is_bytes(r) && n % 5 == 0 {
            true => Answer { hang: Some(1000), ..a },
            false => a,
        }),
        ("ranges are ignored", |_, r, a| match is_bytes(r) {
            true => Answer { status: 200, body: noise(1, SIZE), ..Answer::default() },
            false => a,
        }),
        ("ranges are ignored, and resets", |n, r, a| match is_bytes(r) {
            true => {
                let cut = (n % 3 == 0).then_some(2_000_000);
                Answer { status: 200, body: noise(1, SIZE), cut, ..Answer::default() }
            }
            false => a,
        }),
    ];
    for (name, fault) in faults {
        let server = server();
        let count = AtomicUsize::new(0);
        server.lie(move |request, answer| {
            fault(count.fetch_add(1, Ordering::Relaxed), request, answer)
        });
        let home = tempfile::tempdir().unwrap();
        let mut settings = settings(home.path(), &server.endpoint);
        (settings.attempts, settings.stall) = (8, Duration::from_secs(3));
        let model = pull(&settings, "o/n").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(fs::read(model.path).unwrap(), noise(1, SIZE), "{name}");
    }
}

/// The token is for the hub: neither its storage nor any other host gets it.
#[test]
fn the_token_stays_with_the_hub() {
    let (server, other) = (server(), server());
    let home = tempfile::tempdir().unwrap();
    let mut settings = settings(home.path(), &server.endpoint);
    settings.token = Some(Token::new("hf_secret").unwrap());
    pull(&settings, "o/n").unwrap();
    let requests = server.requests();
    let (of_storage, of_hub): (Vec<_>, Vec<_>) =
        requests.iter().partition(|request| request.path.contains("signature="));
    assert!(!of_storage.is_empty() && !of_hub.is_empty());
    let bearer = Some("Bearer hf_secret".to_owned());
    assert!(of_hub.iter().all(|request| request.headers.get("authorization") == bearer.as_ref()));
    assert!(of_storage.iter().all(|request| !request.headers.contains_key("authorization")));

    // a file of another server, and a hub that redirects its lists
    pull(&settings, &format!("{}/m-Q8_0.gguf", other.storage)).unwrap();
    let place = other.endpoint.clone();
    server.lie(move |request, _| {
        Answer::status(307).header("Location", format!("{place}{}", request.path))
    });
    assert!(pull(&settings, "o/n@dev").is_err());
    assert!(other.requests().iter().all(|request| !request.headers.contains_key("authorization")));
}

/// A repository that was renamed answers by a redirect within the hub.
#[test]
fn renamed_repositories_are_followed() {
    let server = server();
    server.lie(|request, answer| match request.path.contains("/old/name") {
        true => {
            let location = request.path.replace("/old/name", "/o/n");
            Answer::status(307).header("Location", location)
        }
        false => answer,
    });
    let home = tempfile::tempdir().unwrap();
    let model = pull(&settings(home.path(), &server.endpoint), "old/name").unwrap();
    assert_eq!(fs::read(model.path).unwrap(), noise(1, SIZE));
}

#[test]
fn a_disk_without_room_is_refused_before_any_byte() {
    let server = server();
    let huge = 1_u64 << 60;
    server.lie(move |request, answer| match (&*request.method, request.path.contains("/tree/")) {
        ("GET", true) => Answer::json(&serde_json::json!([
            { "type": "file", "path": "m.gguf", "size": huge },
        ])),
        ("HEAD", _) => Answer::status(200)
            .header("Content-Length", huge)
            .header("ETag", "\"x\"")
            .header("X-Repo-Commit", COMMIT),
        _ => answer,
    });
    let home = tempfile::tempdir().unwrap();
    let error = pull(&settings(home.path(), &server.endpoint), "o/n").unwrap_err();
    assert!(matches!(error, Error::Disk { needed, .. } if needed == huge), "{error}");
    assert!(!server.requests().iter().any(|request| request.is("GET", "resolve")));
}

#[test]
fn a_cancelled_download_ends_soon_and_goes_on_later() {
    let server = Server::new(&[("m.gguf", noise(1, 20 << 20))]);
    server.lie(|_, answer| Answer { pause: Duration::from_millis(10), ..answer });
    let home = tempfile::tempdir().unwrap();
    let settings = settings(home.path(), &server.endpoint);
    let hub = Hub::new(settings.clone()).unwrap();
    let plan = hub.plan(&reference("o/n"), None, &Cancel::default()).unwrap();
    let cancel = Cancel::default();
    let mut cancelled = None;
    let error = hub.fetch(
        &plan,
        &mut |progress| {
            if progress.done > 9 << 20 {
                cancel.cancel();
                cancelled.get_or_insert_with(Instant::now);
            }
        },
        &cancel,
    );
    assert!(matches!(error, Err(Error::Cancelled)), "{error:?}");
    assert!(cancelled.unwrap().elapsed() < Duration::from_secs(1));
    server.repent();
    server.requests();
    let mut first = None;
    hub.fetch(&plan, &mut |progress| _ = first.get_or_insert(progress.clone()), &Cancel::default())
        .unwrap();
    // at most a piece of a mebibyte for each of four connections comes twice
    let again: usize = server
        .requests()
        .iter()
        .filter(|r| r.is("GET", "resolve"))
        .filter_map(Request::range)
        .map(|(first, last)| last + 1 - first)
        .sum();
    assert!(again <= 16 << 20, "{again} bytes");
}

/// The size of a file of any server is known by its entity tag: a new one begins anew.
#[test]
fn a_file_that_changes_between_two_attempts_begins_anew() {
    let server = Server::new(&[("m.gguf", noise(1, 6 << 20))]);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(home.path(), "http://127.0.0.1:1");
    let url = format!("{}/m.gguf", server.storage);
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    server.lie(move |request, answer| match request.method == "GET" {
        true if count.fetch_add(1, Ordering::Relaxed) > 2 => Answer::status(404),
        _ => answer,
    });
    pull(&settings, &url).unwrap_err();
    assert!(!tree(&settings.downloads).iter().any(|path| path.ends_with(".gguf")));
    server.set("m.gguf", noise(2, 6 << 20));
    server.repent();
    let model = pull(&settings, &url).unwrap();
    assert_eq!(fs::read(model.path).unwrap(), noise(2, 6 << 20));

    // and within one download it is refused
    server.set("m.gguf", noise(3, 6 << 20));
    let count = AtomicUsize::new(0);
    server.lie(move |request, answer| match request.method == "GET" {
        true if count.fetch_add(1, Ordering::Relaxed) > 2 => answer.header("ETag", "\"new\""),
        _ => answer,
    });
    let other = format!("{url}?2");
    let error = pull(&settings, &other).unwrap_err().to_string();
    assert!(error.contains("the file has changed"), "{error}");
}

/// A hub whose storage is its own host, as many mirrors are: the hash comes with the redirect and
/// with the list, and the bytes have an entity tag of another kind.
fn on_one_host(server: &Server, redirect: fn(&Request) -> String, wrong: bool) {
    server.lie(move |request, answer| {
        let is_file = request.path.contains("/resolve/") && !request.path.contains("stored=");
        if is_file && answer.status == 302 {
            return answer.header("Location", redirect(request));
        }
        if !request.path.contains("stored=") {
            return answer;
        }
        let mut bytes = noise(1, SIZE);
        if wrong {
            bytes[SIZE / 2] ^= 1;
        }
        let opaque = |answer: Answer| answer.header("ETag", "\"stored\"");
        match request.range() {
            Some((first, last)) => {
                let range = format!("bytes {first}-{last}/{SIZE}");
                let body = bytes[first..=last].to_vec();
                opaque(Answer { status: 206, body, ..Answer::default() })
                    .header("Content-Range", range)
            }
            None => opaque(Answer { status: 200, body: bytes, ..Answer::default() }),
        }
    });
}

/// Relative redirects lead on, by RFC 3986, and the hash of the first answer holds to the end.
#[test]
fn hashes_hold_behind_redirects_within_a_host() {
    let redirects: [fn(&Request) -> String; 4] = [
        |request| format!("{}?stored=1", request.path),
        |_| "?stored=1".to_owned(),
        |_| "../main/m-Q8_0.gguf?stored=1".to_owned(),
        |_| "./m-Q8_0.gguf?stored=1#x".to_owned(),
    ];
    for redirect in redirects {
        let server = server();
        on_one_host(&server, redirect, true);
        let error = refusal(&server);
        assert!(error.contains("has the SHA-256"), "{error}");
        on_one_host(&server, redirect, false);
        let home = tempfile::tempdir().unwrap();
        let model = pull(&settings(home.path(), &server.endpoint), "o/n").unwrap();
        assert_eq!(fs::read(model.path).unwrap(), noise(1, SIZE));
        assert!(model.unverified.is_empty());
    }
}

/// The list alone has the hash, or nobody has one: then that is said.
#[test]
fn a_hub_without_entity_tags_of_hashes() {
    let opaque = |request: &Request, answer: Answer| match request.path.contains("/resolve/") {
        true if request.method == "HEAD" => {
            Answer::status(200).header("ETag", "\"v1\"").header("Content-Length", SIZE)
        }
        _ => answer,
    };
    let server = server();
    server.lie(opaque);
    let home = tempfile::tempdir().unwrap();
    let model = pull(&settings(home.path(), &server.endpoint), "o/n").unwrap();
    assert!(model.unverified.is_empty() && model.path.is_file());
    server.lie(move |request, answer| match request.path.contains("signature=") {
        true => {
            let mut answer = answer;
            answer.body[0] ^= 1;
            answer
        }
        false => opaque(request, answer),
    });
    assert!(refusal(&server).contains("has the SHA-256"));

    server.lie(move |request, answer| match request.path.contains("/tree/") {
        true => Answer::json(&serde_json::json!([
            { "type": "file", "path": "m-Q8_0.gguf", "size": SIZE, "lfs": { "size": SIZE } },
        ])),
        false => opaque(request, answer),
    });
    let home = tempfile::tempdir().unwrap();
    let model = pull(&settings(home.path(), &server.endpoint), "o/n").unwrap();
    assert_eq!(model.unverified, ["m-Q8_0.gguf"]);
}

/// A host that sends a byte now and then holds a download for a bounded time.
#[test]
fn a_trickle_ends() {
    for part in ["signature=", "/tree/"] {
        let server = server();
        server.lie(move |request, answer| match request.is("GET", part) {
            true => Answer { trickle: true, ..answer },
            false => answer,
        });
        let home = tempfile::tempdir().unwrap();
        let mut settings = settings(home.path(), &server.endpoint);
        (settings.stall, settings.attempts) = (Duration::from_millis(400), 2);
        let start = Instant::now();
        let error = pull(&settings, "o/n").unwrap_err().to_string();
        assert!(error.contains("bytes a second, expected 1024 or more"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

/// Files that are no models are refused with their beginnings, and leave nothing.
#[test]
fn what_is_no_model_is_refused() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n".to_vec();
    for (bytes, words) in [
        (b"<!DOCTYPE html><html>!".to_vec(), "its 22 bytes begin with \"<!DOCTYPE html><\""),
        (b"GGUF\x03\0\0\0abcdefghijklmn".to_vec(), "its 22 bytes begin with \"GGUF"),
        (pointer, "a pointer of Git LFS"),
        (Vec::new(), "begin with nothing, expected a GGUF file"),
    ] {
        let server = Server::new(&[("m-Q8_0.gguf", bytes)]);
        let error = refusal(&server);
        assert!(error.starts_with("m-Q8_0.gguf is no model: ") && error.contains(words), "{error}");
        let home = tempfile::tempdir().unwrap();
        let settings = settings(home.path(), "http://127.0.0.1:1");
        pull(&settings, &format!("{}/m-Q8_0.gguf", server.storage)).unwrap_err();
        assert!(Hub::new(settings).unwrap().list().is_empty());
    }
}

/// The list goes on at an address relative to it, and ends at its bound.
#[test]
fn pages_of_a_list() {
    let server = server();
    server.lie(|request, answer| match request.path.contains("/tree/") {
        true if request.path.contains("cursor") => answer,
        true => Answer::json(&serde_json::json!([]))
            .header("Link", "<?recursive=true&cursor=2>; rel=\"next\""),
        false => answer,
    });
    let home = tempfile::tempdir().unwrap();
    pull(&settings(home.path(), &server.endpoint), "o/n").unwrap();
    server.lie(|request, answer| match request.path.contains("/tree/") {
        true => {
            let files: Vec<_> = (0..60_000)
                .map(|i| serde_json::json!({ "type": "file", "path": format!("{i}"), "size": 1 }))
                .collect();
            Answer::json(&files.into()).header("Link", "<?again>; rel=\"next\"")
        }
        false => answer,
    });
    assert!(refusal(&server).contains("more than 100000 files"));
}
