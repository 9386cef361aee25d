//! The OpenAPI document, and a page of it, from the list of routes.

use std::fmt::Write;

use pelton::{Sampling, SamplingOption};
use serde_json::{Map, Value, json};

use super::{
    routes::{ROUTES, Route},
    types::{reference, types},
};
use crate::generate::option_schema;

/// The schema of a field, and whether it must be there.
fn field(text: &str) -> (&str, Value, bool) {
    let (text, required) = match text.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    if let Some((name, words)) = text.split_once('=') {
        let mut words: Vec<Value> = words.split(',').map(Value::from).collect();
        words.push(Value::Null);
        return (name, json!({"enum": words}), required);
    }
    let (name, rest) = text.split_once(':').unwrap_or((text, "object"));
    if let Some(named) = rest.strip_prefix('@') {
        return (name, reference(named), required);
    }
    let (types, range) = rest.split_once('[').unwrap_or((rest, ""));
    let mut types: Vec<Value> = types.split('|').map(Value::from).collect();
    if !required {
        types.push("null".into());
    }
    let mut schema = json!({"type": types});
    let mut ends = range.trim_end_matches(']').split(',');
    for key in ["minimum", "maximum"] {
        if let Some(number) = ends.next().and_then(|end| end.parse::<f64>().ok()) {
            schema[key] = number.into();
        }
    }
    if required && rest.contains("array") {
        schema["minItems"] = 1.into();
    }
    (name, schema, required)
}

/// The fields of a route.
fn fields(route: &Route) -> impl Iterator<Item = (&'static str, Value, bool)> {
    let words = route.fields.iter().flat_map(|list| list.split_whitespace());
    words.flat_map(|word| match word {
        "*" => sampling_fields(),
        word => vec![field(word)],
    })
}

/// The fields of the options of sampling, by all of their names.
fn sampling_fields() -> Vec<(&'static str, Value, bool)> {
    let of = |option: &'static SamplingOption| {
        option.keys().map(move |key| (key, option_schema(option), false))
    };
    Sampling::OPTIONS.iter().flat_map(of).collect()
}

/// The name of the part of a path that is written `{NAME}`.
fn parameter(path: &str) -> Option<&str> {
    path.split_once('{')?.1.split_once('}').map(|(name, _)| name)
}

fn operation(route: &Route) -> Value {
    let shape = match route.path {
        path if path.starts_with("/v1/messages") => "anthropic_error",
        path if path.starts_with("/api/") || path == "/inference" => "ollama_error",
        _ => "openai_error",
    };
    let error = json!({
        "description": "An error that names the field",
        "content": {"application/json": {"schema": reference(shape)}},
    });
    let streams = fields(route).any(|(name, ..)| name == "stream");
    let mut answers = Map::new();
    if route.is_form {
        answers.extend(
            ["text/plain", "text/vtt", "application/x-subrip"]
                .map(|kind| (kind.to_owned(), json!({"schema": {"type": "string"}}))),
        );
    }
    match route.path {
        "/api/delete" | "/sleep" | "/wake_up" | "/reset_prefix_cache" => None,
        "/metrics" => answers.insert("text/plain".to_owned(), json!({})),
        "/slots" | "/lora-adapters" | "/embedding" => {
            answers.insert("application/json".to_owned(), json!({"schema": {"type": "array"}}))
        }
        _ => answers.insert("application/json".to_owned(), json!({"schema": {"type": "object"}})),
    };
    if streams {
        let lines = route.path.starts_with("/api/");
        let kind = if lines { "application/x-ndjson" } else { "text/event-stream" };
        answers.insert(kind.to_owned(), json!({}));
    }
    let mut operation = json!({
        "summary": route.about,
        "operationId": format!("{}{}", route.method, route.path.replace(['/', '-', '{', '}'], "_")),
        "responses": {"200": {"description": "The answer", "content": answers}, "default": error},
    });
    if let Some(name) = parameter(route.path) {
        let schema = json!({"type": "string"});
        let parameter = json!({"name": name, "in": "path", "required": true, "schema": schema});
        operation["parameters"] = json!([parameter]);
    }
    if !route.fields.is_empty() {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, schema, must) in fields(route) {
            properties.insert(name.to_owned(), schema);
            required.extend(must.then_some(name));
        }
        let example: Value = serde_json::from_str(route.example).unwrap_or_default();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let content = match route.is_form {
            true => json!({"multipart/form-data": {"schema": schema}}),
            false => json!({"application/json": {"schema": schema, "example": example}}),
        };
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    operation
}

/// The OpenAPI document.
pub(super) fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[route.method] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pelton", "version": env!("CARGO_PKG_VERSION"),
            "description": "Language models over HTTP, in the APIs of OpenAI, Anthropic, Ollama \
                            and llama.cpp.",
        },
        "paths": paths,
        "components": {
            "schemas": types(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    })
}

/// A page of all routes.
pub(super) fn html() -> String {
    let mut page = "<!doctype html><html lang=en><meta charset=utf-8><title>Pelton: API</title>\
        <meta name=viewport content='width=device-width'><meta name=color-scheme content='light dark'>\
        <style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
        h2{font-size:1.1rem;margin-top:2rem}code,pre{font:14px/1.4 ui-monospace,monospace}\
        pre{overflow:auto;padding:.5rem;border:1px solid #8886}table{border-collapse:collapse}\
        td{padding:.1rem 1rem .1rem 0;vertical-align:top}a{color:inherit}</style>\
        <main><h1>API of Pelton</h1><p><a href=openapi.json>openapi.json</a> is this page for programs.</p>"
        .to_owned();
    for route in ROUTES {
        let (method, path) = (route.method.to_uppercase(), route.path);
        // writing to a string does not fail
        let _ = write!(page, "<h2><code>{method} {path}</code></h2><p>{}.</p>", route.about);
        if !route.example.is_empty() {
            let _ = write!(page, "<pre tabindex=0>{}</pre>", route.example);
        }
        page.push_str("<table>");
        for (name, schema, required) in fields(route) {
            let kind = schema["type"].as_array().or(schema["enum"].as_array());
            let kinds: Vec<_> = kind.into_iter().flatten().filter_map(Value::as_str).collect();
            let kinds: Vec<_> = kinds.into_iter().filter(|&kind| kind != "null").collect();
            let must = if required { "required" } else { "" };
            let mut kinds = kinds.join(", ");
            if let Some(named) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
                let _ = write!(kinds, "<a href=#{named}>{named}</a>");
            }
            let _ = write!(page, "<tr><td><code>{name}</code><td>{kinds}<td>{must}</tr>");
        }
        page.push_str("</table>");
    }
    page.push_str("<h2>Nested values</h2>");
    for (name, schema) in types() {
        let _ =
            write!(page, "<h3 id={name}><code>{name}</code></h3><pre tabindex=0>{schema:#}</pre>");
    }
    page.push_str("</main></html>");
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_schemas() {
        let (document, types) = (document().to_string(), types());
        assert!(types.len() > 10);
        for rest in document.split("#/components/schemas/").skip(1) {
            let name = rest.split('"').next().unwrap();
            assert!(types.contains_key(name), "{name}");
        }
    }

    #[test]
    fn fields_of_text() {
        let (name, schema, required) = field("!input:string|array");
        assert_eq!((name, required), ("input", true));
        assert_eq!(schema, json!({"type": ["string", "array"], "minItems": 1}));
        let (_, schema, _) = field("top_p:number[0,1]");
        assert_eq!(schema, json!({"type": ["number", "null"], "minimum": 0.0, "maximum": 1.0}));
        let (_, schema, _) = field("a=x,y");
        assert_eq!(schema, json!({"enum": ["x", "y", null]}));
    }
}
