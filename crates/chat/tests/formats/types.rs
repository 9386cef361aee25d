//! The types of arguments that are written without quotation marks: the schema decides them.

use pelton_chat::{Format, Reply, Rule};
use serde_json::{Value, json};

use crate::{parse, parser};

/// Formats with one element for each argument, and a call of `f` with the argument `x`.
const CALLS: [(&str, &str); 3] = [
    (
        "qwen3-coder",
        "<tool_call>\n<function=f>\n<parameter=x>\nTEXT\n</parameter>\n</function>\n</tool_call>",
    ),
    ("glm4", "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>TEXT</arg_value>\n</tool_call>"),
    ("glm4.7", "<tool_call>f<arg_key>x</arg_key><arg_value>TEXT</arg_value></tool_call>"),
];

/// Definitions that the schemas refer to.
fn definitions() -> Value {
    json!({
        "text": {"type": "string", "format": "date"},
        "maybe": {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "null"}]},
        "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"$ref": "#/$defs/maybe"}]},
        "point": {"type": "object", "properties": {"next": {"$ref": "#/$defs/point"}}},
        "mode": {"enum": ["1", "on"]},
    })
}

fn tool(schema: &Value) -> [Value; 1] {
    let parameters = json!({"type": "object", "properties": {"x": schema}, "required": ["x"],
        "$defs": definitions()});
    [json!({"type": "function", "function": {"name": "f", "parameters": parameters}})]
}

#[test]
fn schemas_decide_types() {
    for (schema, cases) in [
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            vec![
                ("12345", json!("12345")),
                ("true", json!("true")),
                ("[1]", json!("[1]")),
                ("null", json!(null)),
                ("nullable", json!("nullable")),
            ],
        ),
        (json!({"oneOf": [{"type": "null"}, {"type": "string"}]}), vec![("007", json!("007"))]),
        (json!({"type": ["string", "null"]}), vec![("1e5", json!("1e5")), ("null", json!(null))]),
        (json!({"type": "string"}), vec![("null", json!("null")), ("{}", json!("{}"))]),
        (json!({"enum": ["1", "2", null]}), vec![("1", json!("1")), ("null", json!(null))]),
        (json!({"type": ["string", "null"], "enum": ["5", null]}), vec![("5", json!("5"))]),
        (json!({"enum": [1, "auto"]}), vec![("1", json!(1)), ("auto", json!("auto"))]),
        (json!({"const": "12"}), vec![("12", json!("12"))]),
        (json!({"const": 12}), vec![("12", json!(12))]),
        (json!({"const": true}), vec![("true", json!(true))]),
        (json!({"format": "uuid"}), vec![("12", json!("12"))]),
        (json!({"type": "string", "format": "date-time"}), vec![("2026", json!("2026"))]),
        (json!({"$ref": "#/$defs/text"}), vec![("12", json!("12"))]),
        (json!({"$ref": "#/$defs/maybe"}), vec![("12", json!("12")), ("null", json!(null))]),
        (json!({"$ref": "#/$defs/loop"}), vec![("12", json!("12")), ("null", json!(null))]),
        (json!({"$ref": "#/$defs/mode"}), vec![("1", json!("1"))]),
        (json!({"$ref": "#/$defs/point"}), vec![("{\"next\": {}}", json!({"next": {}}))]),
        (
            json!({"allOf": [{"$ref": "#/$defs/maybe"}, {"type": "string"}]}),
            vec![("null", json!("null")), ("3", json!("3"))],
        ),
        (json!({"allOf": [{"type": "integer"}]}), vec![("3", json!(3))]),
        (json!({"type": "integer"}), vec![("3", json!(3))]),
        (json!({"type": ["integer", "null"]}), vec![("3", json!(3)), ("null", json!(null))]),
        (json!({"type": "boolean"}), vec![("true", json!(true)), ("False", json!(false))]),
        (json!({"anyOf": [{"type": "number"}, {"type": "boolean"}]}), vec![("1.5", json!(1.5))]),
        (json!({"type": "string", "nullable": true}), vec![("1", json!("1"))]),
        (json!({"description": "anything"}), vec![("1", json!("1")), ("null", json!(null))]),
        (json!({"type": "array", "items": {"type": "string"}}), vec![("[\"1\"]", json!(["1"]))]),
    ] {
        let tools = tool(&schema);
        for (format, call) in CALLS {
            for (text, expected) in &cases {
                let output = call.replace("TEXT", text);
                let reply = Reply::from_events(parse(parser(format, &tools), [output.as_bytes()]));
                let arguments: Value =
                    serde_json::from_str(&reply.tool_calls[0].arguments).unwrap();
                assert_eq!(arguments["x"], *expected, "{format}: {schema} {text}");
            }
        }
    }
}

/// The rules of an argument, without the texts around it.
fn rules(format: &str, schema: &Value) -> String {
    let grammar = Format::named(format).unwrap().grammar(&tool(schema), false).unwrap().unwrap();
    let Rule::Sequence(rules) = grammar.calls else { panic!("{:?}", grammar.calls) };
    format!("{rules:?}")
}

#[test]
fn grammars_write_what_parsers_read() {
    for format in ["qwen3-coder", "glm4", "deepseek-v3.2"] {
        // a string, and null
        let both = rules(
            format,
            &json!({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}),
        );
        assert!(both.contains("Raw {") && both.contains("\"maxLength\": Number(3)"), "{both}");
        assert!(both.contains("null") && !both.contains("Json("), "{both}");
        let referred = rules(format, &json!({"$ref": "#/$defs/maybe"}));
        assert!(referred.contains("Raw {") && referred.contains("null"), "{referred}");
        let listed = rules(format, &json!({"enum": ["1", 2, null]}));
        assert!(!listed.contains("Raw {") && !listed.contains("Json("), "{listed}");
        let number = rules(format, &json!({"const": 12}));
        assert!(number.contains("12") && !number.contains("Json("), "{number}");
        let point = rules(format, &json!({"$ref": "#/$defs/point"}));
        assert!(point.contains("Json(") && point.contains("$defs"), "{point}");
    }
}
