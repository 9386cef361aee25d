//! Texts made from the grammars are parsed as the calls that they are.

use pelton_chat::{FORMATS, Format, Reply, Rule};
use pelton_testing::Random;
use serde_json::{Value, json};

use crate::{check, parse};

fn tools() -> Vec<Value> {
    vec![
        json!({"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "required": ["city"], "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["C", "F"]},
                "days": {"type": "integer"},
                "hours": {"type": "array", "items": {"type": "integer"}},
                "exact": {"type": "boolean"}}}}}),
        json!({"type": "function", "function": {"name": "get_time"}}),
    ]
}

/// A value that a schema allows.
fn value(schema: &Value, random: &mut Random) -> Value {
    if let Some(all) = schema["enum"].as_array() {
        return all[random.below(all.len())].clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!(["Paris", "", "12", "a\"b\\c\nd", "é]})"][random.below(5)]),
        Some("integer") => json!(random.below(100)),
        Some("boolean") => json!(random.below(2) == 0),
        Some("array") => {
            (0..random.below(3)).map(|_| value(&schema["items"], random)).collect::<Vec<_>>().into()
        }
        _ => {
            let mut object = serde_json::Map::new();
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let required = schema["required"].as_array().unwrap().iter().any(|n| n == name);
                if required || random.below(2) == 0 {
                    object.insert(name.clone(), value(property, random));
                }
            }
            object.into()
        }
    }
}

fn gemma(value: &Value) -> String {
    match value {
        Value::String(text) => format!("<|\"|>{text}<|\"|>"),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(gemma).collect::<Vec<_>>().join(","))
        }
        Value::Object(map) => {
            let entries: Vec<_> = map.iter().map(|(k, v)| format!("{k}:{}", gemma(v))).collect();
            format!("{{{}}}", entries.join(","))
        }
        other => other.to_string(),
    }
}

/// A text that a rule allows.
fn sample(rule: &Rule, random: &mut Random) -> String {
    match rule {
        Rule::Text(text) => text.clone(),
        Rule::Json(schema) => value(schema, random).to_string(),
        Rule::Raw { end, .. } => {
            format!("{}{end}", ["Paris", "", "12", "a\nb", "<x>"][random.below(5)])
        }
        Rule::Alphanumeric(n) => "a1B2c3D4e5".chars().cycle().take(*n).collect(),
        Rule::Gemma(schema) => gemma(&value(schema, random)),
        Rule::Python(schema) => match value(schema, random) {
            Value::Bool(true) => "True".into(),
            Value::Bool(false) => "False".into(),
            other => other.to_string(),
        },
        Rule::Sequence(rules) => rules.iter().map(|rule| sample(rule, random)).collect(),
        Rule::Choice(rules) => sample(&rules[random.below(rules.len())], random),
        Rule::Optional(rule) => match random.below(2) {
            0 => String::new(),
            _ => sample(rule, random),
        },
        Rule::Repeat { rule, between, min, max } => {
            assert_eq!((*min, *max), (1, None));
            let texts: Vec<_> = (0..min + random.below(3)).map(|_| sample(rule, random)).collect();
            texts.join(&sample(between, random))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_of_the_grammars_are_calls() {
    let mut random = Random::new(5);
    let tools = tools();
    for format in FORMATS.iter().filter(|format| format.calls.is_some()) {
        for parallel in [false, true] {
            let grammar = format.grammar(&tools, parallel).unwrap().unwrap();
            for _ in 0..200 {
                let text = sample(&grammar.calls, &mut random);
                assert!(
                    grammar.triggers.iter().any(|trigger| text.starts_with(trigger)),
                    "{}: {text:?} begins with none of {:?}",
                    format.name,
                    grammar.triggers
                );
                let parser = pelton_chat::Parser::new(format, &tools);
                let events = parse(parser, [text.as_bytes()]);
                check(&events);
                let reply = Reply::from_events(events);
                assert_eq!(reply.content, "", "{}: {text:?}", format.name);
                assert!(!reply.tool_calls.is_empty(), "{}: {text:?}", format.name);
                for call in reply.tool_calls {
                    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
                    match call.name.as_str() {
                        "get_weather" => {
                            assert!(arguments["city"].is_string(), "{}: {text:?}", format.name);
                            let days = &arguments["days"];
                            assert!(days.is_null() || days.is_u64(), "{}: {text:?}", format.name);
                            let hours = &arguments["hours"];
                            assert!(hours.is_null() || hours.is_array(), "{text:?}");
                            let exact = &arguments["exact"];
                            assert!(exact.is_null() || exact.is_boolean(), "{text:?}");
                        }
                        name => assert_eq!((name, &arguments), ("get_time", &json!({}))),
                    }
                }
            }
        }
    }
}

#[test]
fn no_grammar_without_tools() {
    assert_eq!(Format::named("hermes").unwrap().grammar(&[], true), Ok(None));
    assert_eq!(Format::named("think").unwrap().grammar(&tools(), true), Ok(None));
}

#[test]
fn arguments_that_stand_alone_have_schemas_that_do() {
    let coder = Format::named("qwen3-coder").unwrap();
    let grammar =
        |parameters: Value| coder.grammar(&[json!({"name": "f", "parameters": parameters})], true);
    for (bad, words) in [
        (json!({"anyOf": []}), "\"anyOf\""),
        (json!({"type": "object", "minProperties": 1}), "\"minProperties\""),
        (json!({"type": "array"}), "\"array\""),
        (json!({"required": ["x"], "properties": {"y": {}}}), "\"x\""),
    ] {
        let said = grammar(bad).unwrap_err().to_string();
        assert!(said.contains(words) && said.contains("\"f\""), "{said}");
    }
    // a reference keeps what it refers to
    let point = json!({"type": "object", "properties": {"x": {"type": "number"}}});
    let parameters = json!({"title": "F", "additionalProperties": false, "$defs": {"P": point},
        "properties": {"at": {"$ref": "#/$defs/P"}, "n": {"type": "integer"}}});
    let text = format!("{:?}", grammar(parameters).unwrap());
    assert_eq!(text.matches("$defs\": Object").count(), 1, "{text}");
}
