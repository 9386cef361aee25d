//! Spans, as a collector of OpenTelemetry receives them.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    thread,
};

use pelton_server::{Error, Server};
use serde_json::{Value, json};

use crate::harness::{config, start};

/// The path and the body of one message to a collector, which then refuses connections.
fn collect(listener: &TcpListener) -> (String, Value) {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let (mut first, mut len) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.strip_prefix("content-length: ") {
            len = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).unwrap();
    reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
    (first, serde_json::from_slice(&body).unwrap())
}

#[test]
fn spans_of_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let collector = thread::spawn(move || {
        let mut spans = Vec::new();
        while spans.len() < 2 {
            let (first, body) = collect(&listener);
            assert_eq!(first, "POST /v1/traces HTTP/1.1\r\n");
            let resource = &body["resourceSpans"][0];
            let name = json!({"key": "service.name", "value": {"stringValue": "pelton"}});
            assert_eq!(resource["resource"]["attributes"][0], name);
            spans.extend(resource["scopeSpans"][0]["spans"].as_array().unwrap().clone());
        }
        spans
    });
    let server = start(|config| config.otlp = Some(url));
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let body = json!({"prompt": "Once", "max_tokens": 3, "ignore_eos": true}).to_string();
    let send = |flags: &str| {
        let parent = format!("00-{trace}-00f067aa0ba902b7-{flags}");
        let headers = [("traceparent", parent.as_str()), ("x-request-id", "mine")];
        server.send("POST", "/v1/completions", &headers, body.as_bytes()).ok();
    };
    // the second is not to be recorded
    send("01");
    send("00");
    assert_eq!(server.get("/nothing").status, 404);
    // spans that wait are sent at the end
    drop(server);
    let spans = collector.join().unwrap();
    assert_eq!(spans.len(), 2);
    let span = &spans[0];
    assert_eq!(span["traceId"], trace);
    assert_eq!(span["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(span["name"], "POST /v1/completions");
    assert_eq!((&span["kind"], &span["status"]["code"]), (&json!(2), &json!(0)));
    let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time("endTimeUnixNano") > time("startTimeUnixNano"));
    let attribute = |key: &str| {
        let all = span["attributes"].as_array().unwrap();
        all.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("{key}"))["value"].clone()
    };
    assert_eq!(attribute("http.response.status_code")["intValue"], "200");
    assert_eq!(attribute("gen_ai.usage.output_tokens")["intValue"], "3");
    assert_eq!(attribute("gen_ai.response.model")["stringValue"], "built-in");
    assert_eq!(attribute("pelton.request_id")["stringValue"], "mine");
    assert_ne!(spans[1]["traceId"], trace);
    assert_eq!(spans[1]["name"], "GET other");
}

#[test]
fn a_collector_that_is_not_there_and_one_of_another_form() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let server = start(|config| config.otlp = Some(url));
    server.get("/v1/models").ok();
    drop(server);
    let mut config = config();
    config.otlp = Some("https://collector".to_owned());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let refused = runtime.block_on(Server::bind(config)).map(|_| ());
    assert!(matches!(&refused, Err(Error::Config(text)) if text.contains("http://HOST:PORT")));
}
