//! Changes of requests: of the path, of a header, and of values in the body's JSON.

use fastrand::Rng;
use serde_json::{Map, Value, json};

const NAME_OF_SCHEMAS: &str = "#/components/schemas/";
const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];
const HEADERS: [&str; 12] = [
    "accept: text/event-stream",
    "accept-encoding: gzip",
    "anthropic-version: 2023-06-01",
    "authorization: Bearer x",
    "content-type: text/plain",
    "content-type: application/json; charset=utf-16",
    "host: example.com",
    "host: localhost",
    "origin: http://example.com",
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "x-api-key: x",
    "x-request-id: a b",
];
const TEXTS: [&str; 40] = [
    "",
    "a",
    "Once upon a time",
    "user",
    "assistant",
    "system",
    "tool",
    "text",
    "image_url",
    "input_text",
    "function",
    "function_call_output",
    "tool_use",
    "tool_result",
    "json_schema",
    "json_object",
    "auto",
    "none",
    "required",
    "string",
    "object",
    "<think>",
    "</think>",
    "<tool_call>{\"name\": \"f\", \"arguments\": {",
    "<|im_end|>",
    "{{ messages }}",
    "{% for a in b %}",
    "\u{0}",
    "\u{feff}\u{202e}abc",
    "😀👩‍👩‍👧‍👦",
    "\r\n\r\n",
    "data:image/png;base64,AAAA",
    "[DONE]",
    "1e999",
    "{\"a\": 1}",
    "start: /[a-z]{1,8}/",
    "root ::= \"a\"? [b-d]*",
    "(a|b)*c{2,40}",
    "#/$defs/a",
    "built-in",
];

/// The contents of requests, by the OpenAPI document.
pub(crate) struct Mutator {
    /// Methods and paths, with the names of the fields of their bodies.
    operations: Vec<(String, Vec<String>)>,
    /// Bodies that are answered, with their methods and paths.
    examples: Vec<Vec<u8>>,
}

impl Mutator {
    pub(crate) fn new(document: &Value) -> Self {
        let (mut operations, mut examples) = (Vec::new(), Vec::new());
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let line = format!("{} {path}", method.to_uppercase());
                let body = &operation["requestBody"]["content"]["application/json"];
                let schema = match body["schema"]["$ref"].as_str() {
                    Some(name) => {
                        let name = name.trim_start_matches(NAME_OF_SCHEMAS);
                        &document["components"]["schemas"][name]
                    }
                    None => &body["schema"],
                };
                let fields = schema["properties"].as_object().into_iter().flat_map(Map::keys);
                if !body["example"].is_null() {
                    examples.push(format!("{line}\n\n{}", body["example"]).into_bytes());
                }
                operations.push((line, fields.cloned().collect()));
            }
        }
        assert!(operations.len() > 20, "{document}");
        Self { operations, examples }
    }

    /// A changed request.
    pub(crate) fn mutate(&self, case: &[u8], rng: &mut Rng) -> Vec<u8> {
        if rng.u32(..200) == 0 && !self.examples.is_empty() {
            return self.examples[rng.usize(..self.examples.len())].clone();
        }
        let (head, body) = match case.windows(2).position(|pair| pair == b"\n\n") {
            Some(at) => (&case[..at], &case[at + 2..]),
            None => (case, &b""[..]),
        };
        let mut head = String::from_utf8_lossy(head).into_owned();
        let mut body = body.to_vec();
        match rng.u32(..20) {
            0 => head = self.other_path(&head, rng),
            1 => head = other_header(&head, rng),
            _ => {
                let line = head.lines().next().unwrap_or_default();
                let known = self.operations.iter().find(|(other, _)| other == line);
                let fields = known.map_or(&[][..], |(_, fields)| fields.as_slice());
                body = change_body(&body, fields, rng);
            }
        }
        [head.as_bytes(), b"\n\n", &body].concat()
    }

    fn other_path(&self, head: &str, rng: &mut Rng) -> String {
        let (line, headers) = head.split_once('\n').unwrap_or((head, ""));
        let line = match rng.u32(..10) {
            0 => {
                let path = line.split_once(' ').map_or("/", |(_, path)| path);
                format!("{} {path}", METHODS[rng.usize(..METHODS.len())])
            }
            1 => format!("{line}{}", ["?a=b", "/", "//x", "%00", "/../x", "?=&&"][rng.usize(..6)]),
            2 => "GET /v1/models/built-in".to_owned(),
            _ => self.operations[rng.usize(..self.operations.len())].0.clone(),
        };
        format!("{line}\n{headers}").trim_end().to_owned()
    }
}

fn other_header(head: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<&str> = head.lines().collect();
    match rng.u32(..4) {
        0 if lines.len() > 1 => {
            lines.remove(rng.usize(1..lines.len()));
        }
        _ => lines.push(HEADERS[rng.usize(..HEADERS.len())]),
    }
    lines.truncate(20);
    lines.join("\n")
}

fn change_body(body: &[u8], fields: &[String], rng: &mut Rng) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(body) else {
        return json!({ field(fields, rng): any(rng, 0) }).to_string().into_bytes();
    };
    for _ in 0..rng.u32(1..4) {
        let mut places = Vec::new();
        walk(&value, &mut Vec::new(), &mut places);
        let place = places[rng.usize(..places.len())].clone();
        let other = places[rng.usize(..places.len())].clone();
        let other = at(&mut value, &other).map_or(Value::Null, |other| other.clone());
        // the fields at the top are those that the document names
        let names = if place.is_empty() { fields } else { &[] };
        if let Some(place) = at(&mut value, &place) {
            change(place, other, names, rng);
        }
    }
    let mut bytes = value.to_string().into_bytes();
    if rng.u32(..50) == 0 {
        bytes.truncate(rng.usize(..=bytes.len()));
    }
    bytes
}

/// The paths of all values within a value, its own first.
fn walk(value: &Value, path: &mut Vec<usize>, paths: &mut Vec<Vec<usize>>) {
    paths.push(path.clone());
    let children: Vec<&Value> = match value {
        Value::Array(all) => all.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => return,
    };
    for (i, child) in children.into_iter().enumerate() {
        path.push(i);
        walk(child, path, paths);
        path.pop();
    }
}

fn at<'a>(value: &'a mut Value, path: &[usize]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, &i| match value {
        Value::Array(all) => all.get_mut(i),
        Value::Object(map) => map.values_mut().nth(i),
        _ => None,
    })
}

fn change(value: &mut Value, other: Value, fields: &[String], rng: &mut Rng) {
    let draw = rng.u32(..10);
    match value {
        Value::Object(map) if draw < 8 || !fields.is_empty() => match draw {
            0 | 1 if !map.is_empty() => {
                let name = map.keys().nth(rng.usize(..map.len())).cloned().unwrap_or_default();
                let taken = map.remove(&name).unwrap_or_default();
                if draw == 1 {
                    map.insert(field(fields, rng), taken);
                }
            }
            2 => {
                map.insert(field(fields, rng), other);
            }
            _ => {
                map.insert(field(fields, rng), any(rng, 0));
            }
        },
        Value::Array(all) if draw < 8 => match draw {
            0 | 1 if !all.is_empty() => {
                all.remove(rng.usize(..all.len()));
            }
            2..5 if !all.is_empty() && all.len() < 200 => {
                let copy = all[rng.usize(..all.len())].clone();
                all.insert(rng.usize(..=all.len()), copy);
            }
            5 => rng.shuffle(all),
            _ => all.push(if draw == 6 { other } else { any(rng, 0) }),
        },
        Value::String(text) if draw < 7 => {
            let more = TEXTS[rng.usize(..TEXTS.len())];
            match draw {
                0 => *text = text.chars().take(rng.usize(..=text.len())).collect(),
                1 if text.len() < 500 => *text = text.repeat(rng.usize(1..5)),
                2 => text.extend((0..rng.usize(..4)).map(|_| rng.char(..))),
                3 => text.insert_str(0, more),
                _ => text.push_str(more),
            }
        }
        Value::Number(number) if draw < 5 => {
            let changed = number.as_f64().unwrap_or(0.0);
            *value = match draw {
                0 => json!(changed + 1.0),
                1 => json!(changed as i64 - 1),
                2 => json!(-changed),
                3 => json!(changed * 1e3),
                _ => json!(changed as i64),
            };
        }
        value if draw == 8 => *value = other,
        value => *value = any(rng, 0),
    }
}

/// The name of a field: one that the operation has, or one of objects within bodies.
fn field(fields: &[String], rng: &mut Rng) -> String {
    const WITHIN: [&str; 28] = [
        "$defs",
        "$ref",
        "additionalProperties",
        "anyOf",
        "arguments",
        "const",
        "content",
        "description",
        "enum",
        "format",
        "function",
        "id",
        "items",
        "json_schema",
        "maxItems",
        "minimum",
        "name",
        "num_predict",
        "parameters",
        "pattern",
        "properties",
        "required",
        "role",
        "schema",
        "text",
        "tool_call_id",
        "tool_calls",
        "type",
    ];
    match fields.len() {
        count @ 1.. if rng.u32(..8) > 0 => fields[rng.usize(..count)].clone(),
        _ => WITHIN[rng.usize(..WITHIN.len())].to_owned(),
    }
}

/// Any JSON, small mostly.
fn any(rng: &mut Rng, depth: usize) -> Value {
    match rng.u32(..if depth > 3 { 10 } else { 14 }) {
        0 => Value::Null,
        1 | 2 => rng.bool().into(),
        3 | 4 => json!(rng.i32(-2..20)),
        5 => [json!(i64::MIN), json!(u64::MAX), json!(1u64 << 53), json!(u32::MAX)][rng.usize(..4)]
            .clone(),
        6 => json!((rng.f64() - 0.5) * [1.0, 2.0, 1e9, 1e308][rng.usize(..4)]),
        7..10 => TEXTS[rng.usize(..TEXTS.len())].into(),
        10 => (0..rng.usize(..40)).fold(json!(1), |inner, _| json!([inner])),
        11 | 12 => (0..rng.usize(..4)).map(|_| any(rng, depth + 1)).collect(),
        _ => {
            (0..rng.usize(..4)).map(|_| (field(&[], rng), any(rng, depth + 1))).collect()
        }
    }
}
