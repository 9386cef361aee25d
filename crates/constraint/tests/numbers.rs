//! Numbers of JSON schemas, compared with integers of 128 bits and with decimals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

use std::process::Command;

use pelton_constraint::{Compiler, Constraint, Error, Matcher};
use pelton_testing::{Need, skip};
use serde_json::{Value, json};

fn compile(schema: &Value) -> Result<Matcher, Error> {
    Compiler::of_bytes().unwrap().compile(&Constraint::JsonSchema(schema.clone()))
}

#[track_caller]
fn check(schema: Value, good: &[&str], bad: &[&str]) {
    let matcher = compile(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    let accepts = |text: &str| matcher.copy().accepts(text.as_bytes()).unwrap_or(false);
    for text in good {
        assert!(accepts(text), "{schema}: {text} is refused");
    }
    for text in bad {
        assert!(!accepts(text), "{schema}: {text} is accepted");
    }
}

/// The first ended the process by a stack overflow; all but the last two were rounded.
#[test]
fn constants_are_exact() {
    for constant in [
        i64::MIN.into(),
        (i64::MIN + 1).into(),
        i64::MAX.into(),
        json!(u64::MAX),
        json!((1_u64 << 53) + 1),
        json!(-(1_i64 << 53) - 1),
        json!((1_u64 << 53) - 1),
        json!(0),
    ] {
        let value: i128 = constant.to_string().parse().unwrap();
        let beside = [value - 1, value + 1, -value - 1].map(|other| other.to_string());
        let beside: Vec<&str> = beside.iter().map(String::as_str).collect();
        let text = value.to_string();
        check(json!({ "const": constant }), &[&text], &beside);
        check(json!({ "enum": [constant, "a", [constant]] }), &[&text, "\"a\""], &beside);
        let list = format!("[{text}]");
        check(
            json!({ "enum": [constant, "a", [constant]] }),
            &[&list],
            &["[0, 1]", "[]", "[\"a\"]"],
        );
        let object = format!("{{\"a\": {text}}}");
        check(json!({ "const": { "a": constant } }), &[&object], &["{}", "{\"a\": 5}"]);
        check(json!({ "type": "integer", "enum": [constant, 7] }), &[&text, "7"], &["8"]);
        let within = json!({ "type": "object", "additionalProperties": false, "required": ["a"],
            "properties": { "a": { "const": constant, "title": "A" } } });
        check(within, &[&object], &["{}", "{\"a\":true}"]);
    }
    check(json!({ "const": -0.0 }), &["0"], &["1", "-1"]);
    check(json!({ "const": 1.0 }), &["1"], &["2"]);
    check(json!({ "const": 1e300 }), &["1e300"], &["1e299", "1"]);
    check(json!({ "const": 1e-300 }), &["1e-300"], &["0", "1e-299"]);
    check(json!({ "const": -1.5e-7 }), &["-0.00000015"], &["-1.5e-8", "-0.0000001"]);
    check(
        json!({ "const": 1_u64 << 60, "type": ["integer", "null"] }),
        &["1152921504606846976"],
        &["null"],
    );
    check(
        json!({ "enum": [u64::MAX, 5, null], "maximum": 10 }),
        &["5", "null"],
        &["18446744073709551615"],
    );
    assert!(compile(&json!({ "const": u64::MAX, "maximum": 10 })).is_err());
    assert!(compile(&json!({ "const": u64::MAX, "type": "string" })).is_err());
}

#[test]
fn bounds_are_exact() {
    let marks: Vec<i128> =
        [0, 1 << 53, 1 << 60, 1 << 62, i128::from(i64::MAX), i128::from(u64::MAX)]
            .into_iter()
            .flat_map(|mark: i128| [-mark - 2, -mark - 1, -mark, mark - 1, mark, mark + 1])
            .filter(|mark| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(mark))
            .collect();
    let compiler = Compiler::of_bytes().unwrap();
    let number = |value: i128| serde_json::from_str::<Value>(&value.to_string()).unwrap();
    for &least in &marks {
        for keywords in [["minimum", "maximum"], ["exclusiveMinimum", "exclusiveMaximum"]] {
            let open = i128::from(keywords[0] != "minimum");
            for most in
                [Some(least + 5), marks.iter().copied().find(|mark| *mark > least + 5), None]
            {
                let most = most.filter(|most| *most <= i128::from(u64::MAX));
                for kind in ["integer", "number"] {
                    let mut schema = json!({ "type": kind, keywords[0]: number(least) });
                    if let Some(most) = most {
                        schema[keywords[1]] = number(most);
                    }
                    let matcher = compiler.compile(&Constraint::JsonSchema(schema.clone()));
                    let matcher = matcher.unwrap_or_else(|error| panic!("{schema}: {error}"));
                    let first = least + open;
                    let last = most.map_or(i128::MAX, |most| most - open);
                    let ends = [least - 1, least, least + 1, least + 2, least + 7];
                    let others =
                        most.into_iter().flat_map(|most| [most - 2, most - 1, most, most + 1]);
                    for value in
                        ends.into_iter().chain(others).chain([-5, 0, 5, i128::MAX, i128::MIN])
                    {
                        let accepts = matcher.copy().accepts(value.to_string().as_bytes()).unwrap();
                        assert_eq!(accepts, (first..=last).contains(&value), "{schema}: {value}");
                    }
                }
            }
        }
    }
}

#[test]
fn bounds_of_other_shapes() {
    let least =
        json!({ "minimum": i64::MIN, "maximum": i64::MAX, "format": "int64", "type": "integer" });
    let (inside, outside) = ("-9223372036854775808", "-9223372036854775809");
    check(least.clone(), &[inside, "0", "9223372036854775807"], &[outside, "9223372036854775808"]);
    let optional = json!({ "anyOf": [least, { "type": "null" }], "default": null, "title": "Id" });
    check(optional.clone(), &[inside, "null"], &[outside, "\"a\""]);
    let typed = json!({ "type": ["integer", "string"], "minimum": i64::MIN, "maxLength": 1 });
    check(typed, &[inside, "\"a\""], &[outside, "\"ab\"", "null"]);
    check(
        json!({ "minimum": i64::MIN }),
        &[inside, "1.5", "\"a\"", "[]", "{}", "true"],
        &[outside],
    );
    let object = json!({ "$defs": { "id": { "type": "integer", "minimum": i64::MIN }, "user": {
            "type": "object", "required": ["id"], "properties": { "id": { "$ref": "#/$defs/id" },
            "parent": { "$ref": "#/$defs/user" }, "other": optional } } }, "$ref": "#/$defs/user" });
    let good = format!("{{\"id\": 5, \"parent\": {{\"id\": {inside}}}, \"other\": null}}");
    let bad = good.replace(inside, outside);
    check(object, &[&good], &[&bad, "{}"]);
    let items = json!({ "type": "array", "items": { "type": "integer", "maximum": u64::MAX } });
    check(items, &["[1, 18446744073709551615]", "[]"], &["[18446744073709551616]"]);
    // draft 4
    let old = json!({ "type": "integer", "minimum": i64::MIN, "exclusiveMinimum": true });
    check(old, &["-9223372036854775807"], &[inside]);
    let multiple = json!({ "type": "integer", "minimum": 1_u64 << 60, "multipleOf": 7 });
    check(multiple, &["1152921504606846982"], &["1152921504606846976", "1152921504606846978", "7"]);
    check(
        json!({ "type": "number", "multipleOf": 0.07 }),
        &["0.14", "7", "-0.07"],
        &["0.1", "0.08"],
    );
    let tenth = json!({ "type": "number", "multipleOf": 0.1, "minimum": 0.3, "maximum": 0.3 });
    check(tenth, &["0.3"], &["0.2", "0.4"]);
    // no bound is left out
    check(json!({ "type": "number", "minimum": 1e30 }), &[&format!("1{}", "0".repeat(30))], &["5"]);
    let greatest = json!({ "type": "number", "minimum": -1.797e308, "maximum": 1.797e308 });
    check(greatest, &["-1.5", "0"], &[&"9".repeat(310), "\"a\""]);
    for empty in [
        json!({ "type": "integer", "minimum": u64::MAX, "exclusiveMaximum": u64::MAX }),
        json!({ "type": "integer", "minimum": 1_u64 << 60, "maximum": (1_u64 << 60) + 1, "multipleOf": 7 }),
    ] {
        assert!(compile(&empty).is_err(), "{empty}");
    }
}

/// Python's `decimal` tells which constants are multiples:
/// `Decimal(value) % Decimal(multiple) == 0`.
#[test]
fn constants_are_multiples_in_decimals() {
    const VALUES: [&str; 20] = [
        "0.07",
        "0.7",
        "0.3",
        "0.1",
        "0.0000001",
        "0.00000015",
        "1.1",
        "2.2",
        "4.35",
        "19.99",
        "0.29",
        "1.005",
        "33.33",
        "-0.07",
        "-4.35",
        "0",
        "7",
        "-3",
        "123456.7",
        "8.7",
    ];
    const MULTIPLES: [&str; 14] = [
        "1e-7",
        "0.0000003",
        "0.01",
        "0.1",
        "0.07",
        "0.05",
        "0.001",
        "0.3",
        "1.1",
        "0.29",
        "0.025",
        "1",
        "3",
        "0.005",
    ];
    let script = "from decimal import Decimal as D; import sys; v, m = map(str.split, sys.argv[1:]); \
                  print(*(int(D(a) % D(b) == 0) for b in m for a in v))";
    let python = std::env::var("PELTON_PYTHON").unwrap_or_else(|_| "python3".into());
    let run =
        Command::new(python).args(["-c", script, &VALUES.join(" "), &MULTIPLES.join(" ")]).output();
    let Some(output) = run.ok().filter(|output| output.status.success()) else {
        return skip(Need::Python, "no python");
    };
    let answers = String::from_utf8(output.stdout).unwrap();
    let mut answers = answers.split_whitespace().map(|answer| answer == "1");
    let mut multiples = 0;
    for multiple in MULTIPLES {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for value in VALUES {
            if answers.next().unwrap() {
                good.push(value)
            } else {
                bad.push(value)
            };
        }
        multiples += good.len();
        let numbers: Vec<Value> =
            VALUES.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let of: Value = serde_json::from_str(multiple).unwrap();
        check(json!({ "multipleOf": of, "enum": numbers }), &good, &bad);
        for value in good {
            let constant: Value = serde_json::from_str(value).unwrap();
            check(json!({ "type": "number", "multipleOf": of, "const": constant }), &[value], &bad);
        }
    }
    assert!(multiples > 60, "{multiples}");
}

/// A number that is not exact where schemas are merged is refused, and not dropped.
#[test]
fn what_is_not_exact_is_named() {
    for schema in [
        json!({ "minimum": i64::MIN, "anyOf": [{ "maximum": 5 }, { "minimum": 7 }] }),
        json!({ "allOf": [{ "minimum": i64::MIN }, { "type": "integer", "maximum": 5 }] }),
        json!({ "allOf": [{ "properties": { "a": { "minimum": i64::MIN } } },
            { "properties": { "a": { "type": "integer" } } }] }),
        json!({ "allOf": [{ "multipleOf": 99_999 }, { "multipleOf": 100_000 }] }),
        json!({ "multipleOf": 18_446_744_073_709_551_615_u64 }),
        json!({ "type": "string", "minLength": u64::MAX }),
    ] {
        let error = compile(&schema).unwrap_err().to_string();
        assert!(error.contains("digits") || error.contains("'minLength'"), "{schema}: {error}");
    }
    // a property that one schema alone restricts stays exact
    let merged = json!({ "allOf": [{ "type": "object", "properties": { "a": { "minimum": i64::MIN } } },
        { "type": "object", "required": ["a"] }] });
    check(merged, &["{\"a\": -9223372036854775808}"], &["{\"a\": -9223372036854775809}", "{}"]);
    for key in ["maxLength", "maxItems", "maxProperties"] {
        check(json!({ key: u64::MAX }), &["\"abc\"", "[1]", "{\"a\":1}"], &[]);
    }
}

/// The same within a grammar.
#[test]
fn numbers_in_grammars_are_exact() {
    let schema =
        r#"%json {"const": -9223372036854775808} "!" %json {"maximum": 18446744073709551615}"#;
    let lark = Constraint::Lark(format!("start: {schema}\n"));
    let matcher = Compiler::of_bytes().unwrap().compile(&lark).unwrap();
    let accepts = |text: &str| matcher.copy().accepts(text.as_bytes()).unwrap();
    assert!(accepts("-9223372036854775808!18446744073709551615"));
    assert!(
        !accepts("-9223372036854775807!1") && !accepts("-9223372036854775808!18446744073709551616")
    );
    let lark = Constraint::Lark("start: %json {\"const\": 100000000000000000000001}".to_owned());
    let error = Compiler::of_bytes().unwrap().compile(&lark).unwrap_err().to_string();
    assert!(error.contains("100000000000000000000001"), "{error}");
}
