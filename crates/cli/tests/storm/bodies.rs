//! Requests from the schemas of the OpenAPI document.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::{hostile, many};

/// Paths that stop what the streams run on.
const LEFT_OUT: [&str; 4] = ["/models/load", "/models/unload", "/sleep", "/wake_up"];
/// Fields whose values would make a request long, or end a model's stay in memory.
const TOKENS: [&str; 5] =
    ["max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "num_predict"];
const SCHEMAS_NAME: &str = "#/components/schemas/";

/// One request.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    /// Whether the client leaves before the response.
    pub(crate) is_abandoned: bool,
}

/// All operations, with the schemas of their bodies.
pub(crate) struct Bodies {
    operations: Vec<(String, String, Value)>,
    schemas: Value,
}

impl Bodies {
    pub(crate) fn new(document: &Value) -> Self {
        let mut operations = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                if !LEFT_OUT.contains(&path.as_str()) {
                    let body = &operation["requestBody"]["content"]["application/json"];
                    operations.push((method.to_uppercase(), path.clone(), body["schema"].clone()));
                }
            }
        }
        assert!(operations.len() > 20, "{operations:?}");
        Self { operations, schemas: document["components"]["schemas"].clone() }
    }

    /// The request of a seed.
    pub(crate) fn request(&self, seed: u64) -> Request {
        let mut rng = Rng::with_seed(seed);
        let (method, path, schema) = &self.operations[rng.usize(..self.operations.len())];
        let (method, path) = (method.clone(), path.clone());
        let is_abandoned = rng.u32(..100) < 3;
        if method == "GET" {
            return Request { method, path, body: Vec::new(), is_abandoned };
        }
        let mut body = self.value(schema, &mut rng, 0);
        if let Value::Object(map) = &mut body {
            self.tame(map, &mut rng);
            if rng.u32(..100) < 30 {
                hostile::constrain(map, &mut rng);
            }
            if rng.u32(..100) < 25 {
                let keys: Vec<String> = map.keys().cloned().collect();
                if !keys.is_empty() {
                    let key = rng.choice(keys).unwrap();
                    map.insert(key, hostile::value(&mut rng, 0));
                }
            }
            bound(map, schema, &mut rng);
        }
        let mut body = body.to_string().into_bytes();
        if rng.u32(..100) < 5 {
            hostile::break_bytes(&mut body, &mut rng);
        }
        Request { method, path, body, is_abandoned }
    }

    /// A path and a body of its schema, whose fields are sound but for one:
    /// `many::HOLE` stands there.
    pub(crate) fn with_hole(&self, rng: &mut Rng) -> (String, Value) {
        let own: Vec<_> = self
            .operations
            .iter()
            .filter(|(method, _, schema)| method == "POST" && !schema.is_null())
            .collect();
        let (_, path, schema) = own[rng.usize(..own.len())];
        let mut body = self.value(schema, rng, 0);
        if let Value::Object(map) = &mut body {
            self.tame(map, rng);
            bound(map, self.resolved(schema), rng);
        }
        let name = self.resolved(schema)["properties"].as_object().and_then(|fields| {
            let names: Vec<&String> = fields.keys().collect();
            rng.choice(names)
        });
        match name.filter(|_| rng.bool()) {
            Some(name) => body[name.as_str()] = many::HOLE.into(),
            None => dig(&mut body, rng),
        }
        (path.clone(), body)
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(name) => &self.schemas[name.strip_prefix(SCHEMAS_NAME).unwrap()],
            None => schema,
        }
    }

    /// Keeps most requests sound: what is drawn field by field rarely fits together.
    fn tame(&self, map: &mut Map<String, Value>, rng: &mut Rng) {
        if map.contains_key("model") {
            map.insert("model".into(), "built-in".into());
        }
        for name in ["lora", "n", "best_of", "keep_alive", "background", "suffix"] {
            if rng.u32(..10) > 0 {
                map.remove(name);
            }
        }
        if let Some(Value::Array(messages)) = map.get_mut("messages") {
            let roles = ["user", "assistant", "user", "system", "tool"];
            for message in messages {
                if let Value::Object(message) = message {
                    let role = rng.choice(roles).unwrap();
                    message.insert("role".into(), role.into());
                }
            }
        }
    }

    /// A value that a schema of the document allows, mostly.
    fn value(&self, schema: &Value, rng: &mut Rng, depth: usize) -> Value {
        let schema = self.resolved(schema);
        if let Some(all) = schema["anyOf"].as_array() {
            return self.value(&all[rng.usize(..all.len())], rng, depth);
        }
        if let Some(words) = schema["enum"].as_array() {
            return words[rng.usize(..words.len())].clone();
        }
        let kinds: Vec<&str> = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            Value::String(kind) => vec![kind],
            _ => return hostile::value(rng, depth),
        };
        let range = |name: &str, otherwise: f64| schema[name].as_f64().unwrap_or(otherwise);
        match rng.choice(kinds).unwrap() {
            "null" => Value::Null,
            "boolean" => rng.bool().into(),
            "string" => hostile::text(rng).into(),
            "integer" => {
                let (low, high) = (range("minimum", -9e15), range("maximum", 9e15));
                let near = low.max(0.0) + f64::from(rng.u32(..20));
                let drawn = if rng.u32(..4) > 0 { near } else { low + rng.f64() * (high - low) };
                json!(drawn.clamp(low, high) as i64)
            }
            "number" => {
                let (low, high) = (range("minimum", -1e3), range("maximum", 1e3));
                json!(low + rng.f64() * (high - low))
            }
            "array" => {
                let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
                let items = match &schema["items"] {
                    Value::Null => &json!({"type": "string"}),
                    items => items,
                };
                let len = least + rng.usize(..4);
                (0..len).map(|_| self.value(items, rng, depth + 1)).collect()
            }
            _ => {
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                let mut map = Map::new();
                for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                    let must = required.iter().any(|other| other == name);
                    if must || rng.u32(..6) == 0 {
                        map.insert(name.clone(), self.value(schema, rng, depth + 1));
                    }
                }
                Value::Object(map)
            }
        }
    }
}

/// Puts the hole in the place of a list or an object within a value, or of the value.
fn dig(value: &mut Value, rng: &mut Rng) {
    let inner: Vec<&mut Value> = match value {
        Value::Array(list) => list.iter_mut().collect(),
        Value::Object(map) => map.values_mut().collect(),
        _ => Vec::new(),
    };
    let inner = inner.into_iter().filter(|one| one.is_array() || one.is_object());
    match rng.choice(inner.collect::<Vec<_>>()) {
        Some(one) if rng.u32(..3) > 0 => dig(one, rng),
        Some(one) => *one = many::HOLE.into(),
        None => *value = many::HOLE.into(),
    }
}

/// Bounds the tokens of most requests, so that the storm is of requests and not of tokens.
fn bound(map: &mut Map<String, Value>, schema: &Value, rng: &mut Rng) {
    if rng.u32(..100) < 2 {
        return;
    }
    let few = Value::from(rng.u32(1..5));
    for name in TOKENS {
        if map.contains_key(name) {
            map.insert(name.into(), few.clone());
        }
    }
    // a path refuses the fields of others
    let has = |name: &str| !schema["properties"][name].is_null();
    for name in ["max_tokens", "max_output_tokens", "n_predict"] {
        if has(name) {
            map.insert(name.into(), few.clone());
        }
    }
    if has("options") {
        map.insert("options".into(), json!({"num_predict": few}));
    }
}
