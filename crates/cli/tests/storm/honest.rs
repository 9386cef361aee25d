//! Clients that transcribe and download, and that must get what they get alone.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{PATIENCE, client::Connection, hub};

pub(crate) const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
pub(crate) const SAMPLES: [&[u8]; 3] = [
    include_bytes!("../../../../models/speech/samples/call.wav"),
    include_bytes!("../../../../models/speech/samples/tomorrow.wav"),
    include_bytes!("../../../../models/speech/samples/times.wav"),
];
/// The media type of a form.
pub(crate) const FORM: &str = "multipart/form-data; boundary=--pelton-soak";
/// The pause before a request that was answered 429 or 503 is sent again.
pub(crate) const AGAIN: Duration = Duration::from_millis(200);

/// The responses of a kind.
#[derive(Debug, Default)]
pub(crate) struct Times {
    seconds: Vec<f64>,
    /// Requests that were sent again, as the server was busy.
    repeated: usize,
    pub(crate) wrong: Vec<String>,
}

impl Times {
    pub(crate) fn report(&self) -> Value {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        let at =
            |percent: usize| seconds.get(seconds.len() * percent / 100).map(|s| (s * 1e3).round());
        json!({"responses": seconds.len(), "sent_again": self.repeated, "wrong": self.wrong.len(),
               "median_ms": at(50), "95th_percentile_ms": at(95), "99th_percentile_ms": at(99)})
    }

    fn note(&mut self, begun: Instant, outcome: Result<(), String>) {
        self.seconds.push(begun.elapsed().as_secs_f64());
        self.wrong.extend(outcome.err());
    }
}

/// A form with a file and texts.
pub(crate) fn form(file: &[u8], texts: &[(&str, &str)]) -> Vec<u8> {
    const LINE: &str = "----pelton-soak\r\nContent-Disposition: form-data; name=";
    let mut body = Vec::new();
    for (name, text) in texts {
        body.extend(format!("{LINE}\"{name}\"\r\n\r\n{text}\r\n").into_bytes());
    }
    body.extend(format!("{LINE}\"file\"; filename=\"talk.wav\"\r\n\r\n").into_bytes());
    body.extend(file);
    body.extend(b"\r\n----pelton-soak--\r\n");
    body
}

/// The honest clients, and the transcripts that a server without other clients gives.
pub(crate) struct Honest {
    address: String,
    home: PathBuf,
    transcripts: Vec<String>,
}

impl Honest {
    pub(crate) fn alone(address: &str, home: &Path) -> Self {
        let mut honest =
            Self { address: address.to_owned(), home: home.to_owned(), transcripts: Vec::new() };
        let of = |file| honest.transcript(file, &mut Times::default()).unwrap();
        honest.transcripts = SAMPLES.map(of).to_vec();
        assert!(honest.transcripts.iter().all(|text| text.len() > 10), "{:?}", honest.transcripts);
        honest.pull("good-alone", &mut Times::default()).unwrap();
        honest
    }

    /// Transcribes the samples in turn until the end.
    pub(crate) fn listen(&self, is_over: &dyn Fn() -> bool) -> Times {
        let mut times = Times::default();
        for i in (0..SAMPLES.len()).cycle() {
            if is_over() || !times.wrong.is_empty() {
                break;
            }
            let begun = Instant::now();
            let found = self.transcript(SAMPLES[i], &mut times);
            let outcome = match found {
                Ok(text) if text == self.transcripts[i] => Ok(()),
                other => Err(format!("sample {i}: {other:?}, alone {:?}", self.transcripts[i])),
            };
            times.note(begun, outcome);
        }
        times
    }

    /// Downloads and deletes models until the end.
    pub(crate) fn download(&self, is_over: &dyn Fn() -> bool) -> Times {
        let mut times = Times::default();
        for i in 0.. {
            if is_over() || !times.wrong.is_empty() {
                break;
            }
            let begun = Instant::now();
            let outcome = self.pull(&format!("good-{}", i % 4), &mut times);
            times.note(begun, outcome);
        }
        times
    }

    fn transcript(&self, file: &[u8], times: &mut Times) -> Result<String, String> {
        let body = form(file, &[("model", "built-in-speech"), ("temperature", "0")]);
        let answer = self.send(TRANSCRIPTIONS, FORM, &body, times)?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        answer["text"].as_str().map(str::to_owned).ok_or_else(|| format!("no text in {answer}"))
    }

    /// Downloads a model, compares the hash of its file, and deletes it.
    fn pull(&self, repository: &str, times: &mut Times) -> Result<(), String> {
        let body = json!({"model": format!("o/{repository}"), "stream": false}).to_string();
        let answer = self.send("/api/pull", "application/json", body.as_bytes(), times)?;
        if serde_json::from_slice::<Value>(&answer).ok() != Some(json!({"status": "success"})) {
            return Err(format!("{repository}: {}", String::from_utf8_lossy(&answer)));
        }
        let place = self.home.join(hub::place(repository));
        let bytes = fs::read(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let (found, expected) = (hub::hex(&bytes), hub::hash(repository));
        if found != expected {
            return Err(format!("{repository} has the SHA-256 {found}, expected {expected}"));
        }
        let body = json!({"model": format!("o/{repository}")}).to_string();
        let deleted = Connection::open(&self.address).and_then(|mut connection| {
            connection.request("DELETE", "/api/delete", body.as_bytes())
        });
        match deleted {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{repository} is not deleted: {other:?}")),
        }
    }

    /// The body of a response with status 200. A busy server gets the request again.
    fn send(
        &self,
        path: &str,
        kind: &str,
        body: &[u8],
        times: &mut Times,
    ) -> Result<Vec<u8>, String> {
        let begun = Instant::now();
        loop {
            let answer = Connection::open(&self.address).and_then(|mut connection| {
                connection.send_as("POST", path, kind, body)?;
                connection.response()
            });
            match answer {
                Ok((200, answer)) => return Ok(answer),
                Ok((429 | 503, _)) if begun.elapsed() < PATIENCE => times.repeated += 1,
                Ok((status, answer)) => {
                    return Err(format!("{path}: {status} {}", String::from_utf8_lossy(&answer)));
                }
                Err(error) => return Err(format!("{path}: {error}")),
            }
            thread::sleep(AGAIN);
        }
    }
}
