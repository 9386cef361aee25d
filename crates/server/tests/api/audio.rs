//! Speech over HTTP: the built-in model of speech and its samples, whose texts are known.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use pelton_server::{ApiKey, Config, ModelConfig};
use pelton_testing::{Need, skip};
use serde_json::{Value, json};

use crate::{
    clients::{python, succeeds, tests},
    harness::{Answer, TestServer, read, start},
};

const PATH: &str = "/v1/audio/transcriptions";
const BOUNDARY: &str = "----pelton-test";

/// A server of both built-in models.
fn both(change: impl FnOnce(&mut Config)) -> TestServer {
    start(|config| {
        config.models = vec![ModelConfig::built_in(), ModelConfig::built_in_speech()];
        config.strict_models = false;
        change(config);
    })
}

fn shared() -> &'static TestServer {
    static SERVER: OnceLock<TestServer> = OnceLock::new();
    SERVER.get_or_init(|| both(|_| {}))
}

fn samples() -> PathBuf {
    tests().join("../../../models/speech/samples")
}

fn sample(name: &str) -> Vec<u8> {
    std::fs::read(samples().join(name)).unwrap()
}

/// Names and texts of the samples.
fn texts() -> Vec<(String, String)> {
    let texts = std::fs::read_to_string(samples().join("texts.json")).unwrap();
    let texts: Value = serde_json::from_str(&texts).unwrap();
    let text =
        |(name, of): (&String, &Value)| (name.clone(), of["text"].as_str().unwrap().to_owned());
    texts.as_object().unwrap().iter().map(text).collect()
}

/// 16-bit samples of one channel, 16,000 a second, as a wav file.
fn wav(samples: impl Iterator<Item = i16>) -> Vec<u8> {
    let data: Vec<u8> = samples.flat_map(i16::to_le_bytes).collect();
    let mut file = b"RIFF".to_vec();
    file.extend((36 + data.len() as u32).to_le_bytes());
    file.extend(b"WAVEfmt ");
    for (value, width) in [(16u32, 4), (1, 2), (1, 2), (16_000, 4), (32_000, 4), (2, 2), (16, 2)] {
        file.extend(&value.to_le_bytes()[..width]);
    }
    file.extend(b"data");
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file
}

/// The sample again and again, for as many seconds.
fn long(seconds: usize) -> Vec<u8> {
    let file = sample("greek.wav");
    let data = file.windows(4).position(|id| id == b"data").unwrap() + 8;
    // the samples have 8 bits without a sign
    let one: Vec<i16> = file[data..].iter().map(|&byte| (i16::from(byte) - 128) << 8).collect();
    wav(one.iter().copied().cycle().take(seconds * 16_000))
}

/// A form of a file and of texts.
fn form(file: Option<&[u8]>, texts: &[(&str, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, text) in texts {
        let head =
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend(head.as_bytes());
        body.extend(text.as_bytes());
        body.extend(b"\r\n");
    }
    if let Some(file) = file {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"talk.wav\"\r\n\
             Content-Type: audio/wav\r\n\r\n"
        );
        body.extend(head.as_bytes());
        body.extend(file);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{BOUNDARY}--\r\n").as_bytes());
    body
}

/// The head of a form's request.
fn head(server: &TestServer, path: &str, more: &str, len: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: multipart/form-data; \
         boundary={BOUNDARY}\r\ncontent-length: {len}\r\n{more}\r\n",
        server.address
    )
}

fn send(server: &TestServer, path: &str, body: &[u8]) -> Answer {
    send_as(server, path, "", body)
}

fn send_as(server: &TestServer, path: &str, more: &str, body: &[u8]) -> Answer {
    let mut stream = server.connect();
    stream.write_all(head(server, path, more, body.len()).as_bytes()).unwrap();
    // the server may answer and close before it has read everything
    let _ = stream.write_all(body);
    read(&mut stream)
}

#[test]
fn samples_have_their_texts_in_every_format() {
    let server = shared();
    for (name, text) in texts() {
        let of = |texts: &[(&str, &str)]| send(server, PATH, &form(Some(&sample(&name)), texts));
        let whole = of(&[("model", "built-in-speech")]).ok();
        assert_eq!(whole["text"], text.as_str(), "{name}");
        assert_eq!(whole["usage"]["type"], "duration");
        let answer = of(&[("model", "whisper-1"), ("response_format", "text")]);
        assert_eq!(answer.body, format!("{text}\n"), "{name}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
        // the greedy search, in parts with speech, finds the same
        let parts = of(&[("chunking_strategy", "auto"), ("beam_size", "1")]).ok();
        assert_eq!(parts["text"], text.as_str(), "{name}");
        let object =
            [("chunking_strategy[type]", "server_vad"), ("chunking_strategy[threshold]", "0.4")];
        assert_eq!(of(&object).ok()["text"], text.as_str(), "{name}");
    }
    let (name, text) = texts().swap_remove(0);
    let of = |texts: &[(&str, &str)]| send(server, PATH, &form(Some(&sample(&name)), texts));
    let srt = of(&[("response_format", "srt")]).body;
    assert!(srt.starts_with("1\n00:00:00,000 --> 00:00:0") && srt.contains(&text), "{srt}");
    let vtt = of(&[("response_format", "vtt")]).body;
    assert!(vtt.starts_with("WEBVTT\n\n00:00.000 --> 00:0") && vtt.contains(&text), "{vtt}");
    let seconds = (sample(&name).len() - 44) as f64 / 16_000.0;
    for texts in [
        &[("response_format", "verbose_json")][..],
        &[("response_format", "verbose_json"), ("timestamp_granularities[]", "segment")],
    ] {
        let verbose = of(texts).ok();
        assert_eq!(
            (&verbose["task"], &verbose["language"]),
            (&json!("transcribe"), &json!("english"))
        );
        assert_eq!(verbose["text"], text.as_str());
        assert!((verbose["duration"].as_f64().unwrap() - seconds).abs() < 0.02, "{verbose}");
        let segment = &verbose["segments"][0];
        assert_eq!((&segment["id"], &segment["seek"]), (&json!(0), &json!(0)));
        assert_eq!(segment["text"].as_str().unwrap().trim(), text);
        assert!(segment["end"].as_f64().unwrap() > segment["start"].as_f64().unwrap());
        for name in ["temperature", "avg_logprob", "compression_ratio", "no_speech_prob"] {
            assert!(segment[name].is_number(), "{name}: {verbose}");
        }
        assert!(segment["tokens"].as_array().unwrap().len() > 3);
        assert!(verbose.get("words").is_none());
    }
    // without /v1, and as English, which the sample is
    let body = form(Some(&sample(&name)), &[]);
    for path in ["/audio/transcriptions", "/v1/audio/translations", "/audio/translations"] {
        assert_eq!(send(server, path, &body).ok()["text"], text.as_str(), "{path}");
    }
}

#[test]
fn streams_of_segments() {
    let server = shared();
    let (name, text) = texts().swap_remove(1);
    let events = |texts: &[(&str, &str)]| -> Vec<Value> {
        let texts = [&[("stream", "true")], texts].concat();
        let answer = send(server, PATH, &form(Some(&sample(&name)), &texts));
        assert_eq!(answer.headers["content-type"], "text/event-stream");
        answer.events().iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    };
    let all = events(&[]);
    let (done, deltas) = all.split_last().unwrap();
    assert_eq!((&done["type"], &done["text"]), (&json!("transcript.text.done"), &json!(text)));
    // the only form that OpenAI's event has
    // (`openai.types.audio.transcription_text_done_event.Usage`)
    let usage = &done["usage"];
    let number = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(usage["type"], "tokens");
    assert!(number("input_tokens") > 25 && number("output_tokens") > 2, "{usage}");
    assert_eq!(number("total_tokens"), number("input_tokens") + number("output_tokens"));
    assert_eq!(usage["input_token_details"]["audio_tokens"], usage["input_tokens"]);
    assert!(deltas.iter().all(|delta| delta["type"] == "transcript.text.delta"));
    let joined: String = deltas.iter().map(|delta| delta["delta"].as_str().unwrap()).collect();
    assert_eq!(joined, text);
    let all = events(&[("response_format", "verbose_json")]);
    let segment = all.iter().find(|event| event["type"] == "transcript.text.segment").unwrap();
    assert!(segment["end"].is_number() && segment["text"].as_str().unwrap().trim() == text);
    // the first segments of a long file come before its end
    let mut stream = server.connect();
    let body = form(Some(&long(70)), &[("stream", "true"), ("beam_size", "1")]);
    stream.write_all(head(server, PATH, "", body.len()).as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    let text = read(&mut stream).body;
    assert!(text.matches("transcript.text.delta").count() > 2, "{text}");
}

#[test]
fn whisper_cpp() {
    let server = shared();
    let (name, text) = texts().swap_remove(2);
    let of =
        |texts: &[(&str, &str)]| send(server, "/inference", &form(Some(&sample(&name)), texts));
    assert_eq!(of(&[]).ok()["text"], format!(" {text}\n"));
    let more = [("temperature", "0.0"), ("temperature_inc", "0.2"), ("response_format", "json")];
    assert_eq!(of(&more).ok()["text"], format!(" {text}\n"));
    assert_eq!(of(&[("response_format", "text")]).body, format!(" {text}\n"));
    let srt = of(&[("response_format", "srt"), ("vad", "true")]);
    assert!(srt.body.contains(&text) && srt.body.contains(" --> "), "{}", srt.body);
    assert!(of(&[("response_format", "vtt")]).body.starts_with("WEBVTT"));
    let verbose = of(&[("response_format", "verbose_json")]).ok();
    assert_eq!(verbose["segments"][0]["text"], format!(" {text}"));
    assert!(verbose["segments"][0]["end"].is_number());
    let untimed = of(&[("response_format", "verbose_json"), ("no_timestamps", "true")]).ok();
    assert!(untimed["segments"][0].get("end").is_none());
    // nothing is left after the end of the file
    assert_eq!(of(&[("offset_t", "29000")]).ok()["text"], "");
    let error = send(server, "/inference", &form(None, &[])).json();
    assert!(error["error"].as_str().unwrap().contains("file is missing"), "{error}");
}

#[test]
fn a_grammar_decides() {
    let grammar = r#"root ::= " Robert learned " ("Greek" | "Dutch") " in Rome.""#;
    let body = form(Some(&sample("greek.wav")), &[("grammar", grammar)]);
    let text = send(shared(), PATH, &body).ok()["text"].clone();
    assert!(
        ["Robert learned Greek in Rome.", "Robert learned Dutch in Rome."]
            .contains(&text.as_str().unwrap())
    );
    let body = form(Some(&sample("greek.wav")), &[("grammar", "root ::= missing")]);
    let answer = send(shared(), PATH, &body);
    assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("grammar")));
}

/// Bodies that are no sound form, and the words of their errors.
#[test]
fn hostile_forms() {
    let server = shared();
    let file = sample("call.wav");
    let good = form(Some(&file), &[("model", "built-in-speech")]);
    let other = String::from_utf8_lossy(&form(None, &[("a", "b")])).replace(BOUNDARY, "another");
    let cut = &good[..good.len() / 2];
    let one = form(Some(&file), &[]);
    let end = format!("--{BOUNDARY}--\r\n").len();
    let two = [&one[..one.len() - end], &one].concat();
    let headers = format!("--{BOUNDARY}\r\nx: {}\r\n\r\n", "y".repeat(3 << 20));
    let many: String = (0..100).map(|i| format!("h{i}: 1\r\n")).collect();
    let many = format!("--{BOUNDARY}\r\n{many}\r\nx\r\n--{BOUNDARY}--\r\n");
    let parts: Vec<(String, String)> =
        (0..100).map(|i| (format!("f{i}"), "x".to_owned())).collect();
    let parts: Vec<(&str, &str)> = parts.iter().map(|(a, b)| (&**a, &**b)).collect();
    let text = "x".repeat(100 << 10);
    let cases: [(&str, &[u8], &str); 15] = [
        ("no file", &form(None, &[("model", "x")]), "file is missing"),
        ("a text", &form(None, &[("file", "x")]), "file is not an audio file"),
        ("two files", &two, "two parts named file"),
        (
            "a field twice",
            &form(Some(&file), &[("model", "a"), ("model", "b")]),
            "model is there twice",
        ),
        ("another boundary", other.as_bytes(), "is incomplete"),
        ("cut", cut, "is incomplete"),
        ("empty", b"", "is incomplete"),
        ("huge headers", headers.as_bytes(), "headers of a part"),
        ("many headers", many.as_bytes(), "headers of a part"),
        ("many parts", &form(Some(&file), &parts), "more than 64 parts"),
        ("a long text", &form(Some(&file), &[("prompt", &text)]), "prompt is too long"),
        ("no audio", &form(Some(b"hello, hello"), &[]), "talk.wav is not an audio file"),
        ("no bytes", &form(Some(b""), &[]), "file is empty"),
        ("a cut header", &form(Some(&file[..30]), &[]), "talk.wav"),
        ("bytes", &vec![0xAB; 1 << 20], ""),
    ];
    for (name, body, words) in cases {
        let begun = Instant::now();
        let answer = send(server, PATH, body);
        let message = answer.json()["error"]["message"].clone();
        assert_eq!(answer.status, 400, "{name}: {message}");
        assert!(message.as_str().unwrap().contains(words), "{name}: {message}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
    }
    for (kind, status) in [
        ("application/json", 415),
        ("multipart/form-data", 400),
        ("multipart/form-data; boundary=", 400),
    ] {
        let mut stream = server.connect();
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n",
            server.address,
            good.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let _ = stream.write_all(&good);
        assert_eq!(read(&mut stream).status, status, "{kind}");
    }
    // and the server goes on
    assert_eq!(send(server, PATH, &good).status, 200);
}

#[test]
fn wrong_fields_are_named() {
    let server = shared();
    let document = server.get("/openapi.json").ok();
    let file = sample("call.wav");
    for path in [PATH, "/v1/audio/translations", "/inference"] {
        let body =
            &document["paths"][path]["post"]["requestBody"]["content"]["multipart/form-data"];
        let fields = body["schema"]["properties"].as_object().unwrap();
        assert!(fields.len() > 15, "{path}");
        for (name, schema) in fields {
            // any text is right for some
            if schema["type"][0] == "string" || matches!(name.as_str(), "file" | "keywords") {
                continue;
            }
            let is_list = matches!(name.as_str(), "timestamp_granularities" | "include");
            let name = if is_list { format!("{name}[]") } else { name.clone() };
            let texts = [(&*name, "wrong"), ("vad", "true")];
            let texts = if name == "vad" { &texts[..1] } else { &texts[..] };
            let answer = send(server, path, &form(Some(&file), texts));
            assert_eq!(answer.status, 400, "{path} {name}: {}", answer.body);
            assert!(answer.body.contains(name.trim_end_matches("[]")), "{name}: {}", answer.body);
        }
    }
    for (texts, words) in [
        (&[("language", "klingon")][..], "klingon"),
        // the model knows English only
        (&[("language", "fr")], "language is french, expected english"),
        (&[("language", "de-CH"), ("chunking_strategy", "auto")], "language is german"),
        (&[("temperature", "2")], "expected a number from 0 to 1"),
        (&[("response_format", "diarized_json")], "expected one of json"),
        (&[("timestamp_granularities[]", "word")], "expected verbose_json"),
        (&[("stream", "true"), ("response_format", "srt")], "expected json"),
        (&[("include[]", "logprobs")], "include is"),
        // the model has no heads that follow the audio
        (
            &[("timestamp_granularities[]", "word"), ("response_format", "verbose_json")],
            "times of words",
        ),
    ] {
        let answer = send(server, PATH, &form(Some(&file), texts));
        assert_eq!(answer.status, 400, "{texts:?}");
        assert!(answer.body.contains(words), "{texts:?}: {}", answer.body);
    }
}

/// Each kind of model has its paths, and says so on those of the other.
#[test]
fn kinds_of_models() {
    let server = shared();
    let file = sample("call.wav");
    let answer = send(server, PATH, &form(Some(&file), &[("model", "built-in")]));
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("built-in does not recognize speech"), "{}", answer.body);
    let chat = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2});
    let with = |model: &str| {
        let mut body = chat.clone();
        body["model"] = model.into();
        server.post("/v1/chat/completions", &body)
    };
    let answer = with("built-in-speech");
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("built-in-speech recognizes speech"), "{}", answer.body);
    // a name that no model has means the one of the kind
    assert_eq!(with("gpt-4o").ok()["model"], "built-in");
    let list = server.get("/v1/models").ok();
    let kinds: Vec<&Value> =
        list["data"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, ["text", "speech"]);
    for path in ["/api/tags", "/api/ps", "/slots", "/props", "/health"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let unloaded = server.post("/models/unload", &json!({"model": "built-in-speech"})).ok();
    assert_eq!(unloaded["unloaded"], true);
    assert_eq!(send(server, PATH, &form(Some(&file), &[])).status, 200);
}

/// Requests wait for their turn, and the texts of the other model come meanwhile.
#[test]
fn eight_at_once() {
    let server = both(|config| config.load = config.load.clone().queue_requests(16));
    thread::scope(|scope| {
        let all: Vec<_> = texts()
            .into_iter()
            .cycle()
            .take(8)
            .map(|(name, text)| {
                let server = &server;
                scope.spawn(move || {
                    let answer = send(server, PATH, &form(Some(&sample(&name)), &[])).ok();
                    assert_eq!(answer["text"], text.as_str(), "{name}");
                })
            })
            .collect();
        let body = json!({"model": "built-in", "prompt": "Once", "max_tokens": 4});
        assert_eq!(server.post("/v1/completions", &body).status, 200);
        all.into_iter().for_each(|one| one.join().unwrap());
    });
    let metrics = server.get("/metrics").body;
    let value = |name: &str| -> f64 {
        let line = format!("{name}{{model=\"built-in-speech\"}} ");
        let found = metrics.lines().find_map(|text| text.strip_prefix(&line));
        found.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    };
    assert!(value("pelton_audio_seconds_total") > 8.0);
    assert!(value("pelton_audio_compute_seconds_total") > 0.0);
    assert!(
        metrics.contains("pelton_requests_total{model=\"built-in-speech\",outcome=\"stop\"} 8")
    );
}

/// A full queue answers 429, and a client that leaves gives its place up and ends its work.
#[test]
fn clients_that_leave() {
    let server = both(|config| config.load = config.load.clone().queue_requests(1));
    let body = form(Some(&long(1200)), &[("stream", "true")]);
    let begin = || {
        let mut stream = server.connect();
        stream.write_all(head(&server, PATH, "", body.len()).as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        stream
    };
    let metric = |name: &str| -> u64 {
        let line = format!("pelton_{name}{{model=\"built-in-speech\"");
        let metrics = server.get("/metrics").body;
        let of = |text: &str| text.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
        metrics.lines().filter(|text| text.starts_with(&line)).map(of).sum()
    };
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let first = begin();
    wait("the first runs", &|| metric("requests_running") == 1);
    let second = begin();
    wait("the second waits", &|| metric("requests_waiting") == 1);
    let answer = send(&server, PATH, &form(Some(&sample("call.wav")), &[]));
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert!(answer.headers.contains_key("retry-after"));
    drop(second);
    wait("the second has left", &|| metric("requests_waiting") == 0);
    drop(first);
    wait("the first has ended", &|| metric("requests_running") == 0);
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("outcome=\"abort\"} 1"), "{metrics}");
    assert_eq!(send(&server, PATH, &form(Some(&sample("call.wav")), &[])).status, 200);
}

/// Keys, their limits, and the greatest file.
#[test]
fn keys_and_limits() {
    let server = both(|config| {
        let key = |name: &str| ApiKey { name: name.into(), secret: name.into(), priority: 0 };
        config.keys = vec![key("alice"), key("bob")];
        config.limits.tokens_per_minute = Some(4);
        config.limits.audio_bytes = 100_000;
    });
    let body = form(Some(&sample("call.wav")), &[]);
    assert_eq!(send(&server, PATH, &body).status, 401);
    let of = |key: &str, body: &[u8]| {
        send_as(&server, PATH, &format!("authorization: Bearer {key}\r\n"), body).status
    };
    assert_eq!(of("alice", &body), 200);
    // the tokens of the text are charged
    assert_eq!(of("alice", &body), 429);
    assert_eq!(of("bob", &form(Some(&vec![0; 200_000]), &[])), 413);
    assert_eq!(of("bob", &form(Some(&vec![0; 3_000_000]), &[])), 413);
    let late = both(|config| config.limits.request_time = Some(Duration::from_millis(300)));
    assert_eq!(send(&late, PATH, &form(Some(&long(600)), &[])).status, 504);
}

/// The time of a request passes while it waits for its turn, so the last of many waits no longer.
#[test]
fn the_wait_for_a_turn_counts() {
    const TIME: f64 = 0.3;
    const COUNT: usize = 8;
    let server = both(|config| config.limits.request_time = Some(Duration::from_secs_f64(TIME)));
    let body = form(Some(&long(600)), &[]);
    thread::scope(|scope| {
        let all = (0..COUNT).map(|_| scope.spawn(|| send(&server, PATH, &body).status));
        for status in all.collect::<Vec<_>>() {
            assert_eq!(status.join().unwrap(), 504);
        }
    });
    // those that were heard had no longer a time each, with their wait
    let metrics = server.get("/metrics").body;
    let of = |name: &str| -> f64 {
        let name = format!("pelton_request_duration_seconds_{name}{{model=\"built-in-speech\"}}");
        let line = metrics.lines().find(|line| line.starts_with(&name));
        let line = line.unwrap_or_else(|| panic!("{name}: {metrics}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    let (sum, count) = (of("sum"), of("count"));
    assert!(count >= 1.0 && sum <= 3.5 * TIME * count, "{count} requests took {sum} s");
}

/// The client of OpenAI in Python.
#[test]
fn openai_client() {
    let python = python();
    let mut command = std::process::Command::new(&python);
    if !succeeds(command.args(["-c", "import openai"])) {
        skip(Need::Python, format_args!("{} has no package openai", Path::new(&python).display()));
        return;
    }
    let output = std::process::Command::new(&python)
        .arg(tests().join("clients/openai_audio_client.py"))
        .arg(format!("http://{}", shared().address))
        .arg(samples())
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("all checks passed"), "{text}");
}

/// Audio that is longer than the server allows, by its samples and by its statement.
#[test]
fn audio_has_a_greatest_length() {
    let server = both(|config| config.limits.audio_seconds = Some(5));
    assert_eq!(send(&server, PATH, &form(Some(&sample("call.wav")), &[])).status, 200);
    let mut unstated = long(8);
    // sizes that were never written
    unstated[4..8].fill(0);
    unstated[40..44].fill(0);
    for file in [long(8), unstated] {
        let answer = send(&server, PATH, &form(Some(&file), &[]));
        assert_eq!(answer.status, 413);
        let text = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(text.contains("longer than 5 seconds, the limit of the server"), "{text}");
    }
}
