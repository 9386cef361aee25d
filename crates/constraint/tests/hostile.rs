//! Constraints that a stranger sends to stop, stall or fill the process. They are compiled in a
//! child process, so that its death is a failed test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use pelton_constraint::{Compiler, Constraint, Error, gbnf_to_lark};
use serde_json::{Map, Value, json};

/// Set in the child process.
const CHILD: &str = "PELTON_CONSTRAINT_CHILD";
/// Limit of MiB by which one constraint lets the process grow: twice what the limits aim at, since
/// memory of earlier ones is not returned to the system.
const GROWTH_MAX: u64 = 512;
/// The same of a constraint that is refused before it is compiled.
const REFUSED_GROWTH_MAX: u64 = 64;

/// Runs a test of this file again, in a child process that has to end well.
fn in_child(test: &str, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = format!("{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}: {said}", output.status);
}

/// MiB of memory that the process has had at most; 0 where the system does not say.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// Compiles a constraint and follows it for some tokens.
fn follow(compiler: &Compiler, constraint: &Constraint) -> Result<(), Error> {
    let mut matcher = compiler.compile(constraint)?;
    for i in 0..20 {
        let Ok(mask) = matcher.mask() else { break };
        let allowed: Vec<u32> = (0..mask.len() as u32 * 32)
            .filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1)
            .collect();
        if matcher.consume(allowed[i * 7 % allowed.len()]).is_err() || matcher.is_stopped() {
            break;
        }
    }
    Ok(())
}

fn chain(count: usize, link: &dyn Fn(Value) -> Value) -> Constraint {
    let mut all = Map::new();
    for i in 0..count {
        let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
        all.insert(format!("d{i}"), link(next));
    }
    all.insert(format!("d{count}"), json!({ "type": "null" }));
    Constraint::JsonSchema(json!({ "$ref": "#/$defs/d0", "$defs": all }))
}

fn members(keyword: &str, count: usize, name: &dyn Fn(usize) -> String) -> Value {
    let all: Map<String, Value> =
        (0..count).map(|i| (name(i), json!({"type": "string"}))).collect();
    json!({ "type": "object", keyword: all })
}

fn lark_chain(count: usize, name: &str) -> Constraint {
    let rules: String = (0..count).map(|i| format!("{name}{i}: {name}{}\n", i + 1)).collect();
    Constraint::Lark(format!("start: {name}0\n{rules}{name}{count}: \"a\"\n"))
}

fn gbnf_chain(count: usize) -> Constraint {
    let rules: String = (0..count).map(|i| format!("r{i} ::= r{}\n", i + 1)).collect();
    Constraint::Gbnf(format!("root ::= r0\n{rules}r{count} ::= \"a\"\n"))
}

/// Inputs that killed, stalled or filled the process once, at the size that did and far above it,
/// with whether it has to be refused.
fn vectors() -> Vec<(&'static str, Constraint, bool)> {
    let property = |next| json!({ "type": "object", "properties": { "a": next } });
    let any = |next| json!({ "anyOf": [next, { "type": "null" }] });
    let all = |next| json!({ "allOf": [next] });
    let alias = |next| next;
    let name = |i: usize| format!("p{i}");
    let pattern = |i: usize| format!("^p{i}$");
    let schema = Constraint::JsonSchema;
    let mut counted = members("properties", 300, &name);
    counted["minProperties"] = 1.into();
    counted["additionalProperties"] = false.into();
    let doubling: String = (1..15).map(|i| format!("r{i} ::= r{} r{}\n", i - 1, i - 1)).collect();
    let pairs: String = (1..60).map(|i| format!("r{i} ::= r{} r{}\n", i - 1, i - 1)).collect();
    let required: Vec<String> = (0..20_000).map(name).collect();
    let suffixes = |count: usize| Constraint::Gbnf(format!("root ::= \"a\"{}", "?".repeat(count)));
    vec![
        ("Lark rules", lark_chain(700, "r"), false),
        ("Lark rules, many", lark_chain(20_000, "r"), false),
        ("Lark rules, more", lark_chain(40_000, "r"), true),
        ("Lark terminals", lark_chain(1000, "R"), false),
        ("Lark terminals, many", lark_chain(20_000, "R"), false),
        ("Lark terminals, more", lark_chain(40_000, "R"), true),
        ("GBNF rules", gbnf_chain(1000), false),
        ("GBNF rules, more", gbnf_chain(40_000), true),
        ("GBNF suffixes", suffixes(12_000), true),
        ("GBNF suffixes, more", suffixes(1_000_000), true),
        ("properties", chain(300, &property), false),
        ("properties, more", chain(10_000, &property), true),
        ("anyOf", chain(300, &any), false),
        ("anyOf, more", chain(10_000, &any), true),
        ("allOf", chain(350, &all), false),
        ("allOf, more", chain(10_000, &all), true),
        ("aliases", chain(1000, &alias), false),
        ("aliases, more", chain(20_000, &alias), true),
        ("an object", schema(members("properties", 4375, &name)), true),
        ("an object, more", schema(members("properties", 20_000, &name)), true),
        ("patterns", schema(members("patternProperties", 400, &pattern)), true),
        ("patterns, more", schema(members("patternProperties", 5000, &pattern)), true),
        ("required names", schema(json!({ "type": "object", "required": required })), true),
        ("counted properties", schema(counted), true),
        ("a constant", schema(json!({ "const": "x".repeat(900_000) })), true),
        ("repetitions", Constraint::Regex("a?".repeat(20_000)), true),
        ("repetitions, more", Constraint::Regex("a?".repeat(500_000)), true),
        ("a pattern", schema(json!({ "type": "string", "pattern": "a?".repeat(40_000) })), true),
        ("a pattern of Lark", Constraint::Lark(format!("start: /{}/", "a?".repeat(40_000))), true),
        ("parts", Constraint::Gbnf(format!("root ::= {}", "\"a\"? ".repeat(20_000))), true),
        ("optional parts", Constraint::Lark(format!("start: {}", "\"a\"? ".repeat(40_000))), true),
        ("doubling", Constraint::Gbnf(format!("root ::= r14\nr0 ::= \"a\"?\n{doubling}")), true),
        ("doubling, more", Constraint::Gbnf(format!("root ::= r59\nr0 ::= \"a\"\n{pairs}")), true),
    ]
}

#[test]
fn nothing_kills_stalls_or_fills_the_process() {
    in_child("nothing_kills_stalls_or_fills_the_process", || {
        let compiler = Compiler::of_bytes().unwrap();
        for (name, constraint, is_refused) in vectors() {
            let (before, begun) = (peak(), Instant::now());
            // a caller's thread, as small as those of a server
            let outcome = std::thread::scope(|scope| {
                let compile = || follow(&compiler, &constraint);
                let thread = std::thread::Builder::new().stack_size(1 << 20);
                thread.spawn_scoped(scope, compile).unwrap().join().unwrap()
            });
            let (grown, taken) = (peak().saturating_sub(before), begun.elapsed());
            println!("{name}: {taken:?}, {grown} MiB, {outcome:?}");
            let is_early = matches!(outcome, Err(Error::TooLarge { .. } | Error::Gbnf { .. }));
            assert!(!is_refused || is_early, "{name}: {outcome:?}");
            assert!(is_refused || outcome.is_ok(), "{name}: {outcome:?}");
            let most = if is_refused { REFUSED_GROWTH_MAX } else { GROWTH_MAX };
            assert!(grown <= most, "{name}: {grown} MiB");
            assert!(taken < Duration::from_secs(20), "{name}: {taken:?}");
        }
    });
}

/// Grammars that force a text without an end, or are ambiguous in many ways: a step took seconds or
/// never ended. Where the work depends on the build, both outcomes are right.
#[test]
fn a_step_has_a_bound_of_work() {
    let many = |part: &str, count: usize| part.repeat(count);
    let gbnf = |text: String| Constraint::Gbnf(text);
    let compiler = Compiler::of_bytes().unwrap();
    for (constraint, text, is_too_much) in [
        // a terminal takes as many characters as it can, and nothing but itself may follow
        (gbnf("root ::= root{0,40} \"ab\"?+\"aa\"".to_owned()), many("ab", 1), Some(true)),
        (Constraint::Lark("start: \"a\" start\n".to_owned()), many("a", 1), Some(true)),
        // the same in GBNF is followed without being forced, as llama.cpp follows it
        (gbnf("root ::= \"a\" root".to_owned()), many("a", 200), Some(false)),
        (
            gbnf(format!("root ::= {}", many("\"a\"? \"a]\"? \"a\"?*\"a\"? ", 60))),
            many("a", 12),
            None,
        ),
        (gbnf(format!("root ::= ({})+ root?", many("root? \"a\"? ", 80))), many("a", 12), None),
        (gbnf(format!("root ::= \"b\" | {} \"a\"", many("root? ", 200))), many("a", 12), None),
    ] {
        let mut matcher = compiler.compile(&constraint).unwrap();
        let mut ended = None;
        for byte in text.bytes().map(Some).chain([None]) {
            let begun = Instant::now();
            let next = matcher.mask().and_then(|_| {
                let token = byte.map(u32::from);
                token.map_or(Ok(()), |token| matcher.consume(token))
            });
            let taken = begun.elapsed();
            assert!(taken < Duration::from_secs(5), "{constraint:?}: {taken:?}");
            if let Err(error) = next {
                ended = Some(error);
                break;
            }
        }
        assert!(matches!(ended, None | Some(Error::Work)), "{constraint:?}: {ended:?}");
        assert!(is_too_much.is_none_or(|expected| expected == ended.is_some()), "{constraint:?}");
    }
}

/// Inputs that fuzzing found, or begins with.
#[test]
fn corpora_are_replayed() {
    in_child("corpora_are_replayed", || {
        let compiler = Compiler::of_bytes().unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
        let mut count = 0;
        for kind in ["json_schema", "lark", "gbnf", "regex"] {
            for entry in fs::read_dir(folder.join(kind)).unwrap() {
                let path = entry.unwrap().path();
                let text = fs::read_to_string(&path).unwrap();
                let constraint = match kind {
                    "json_schema" => Constraint::JsonSchema(serde_json::from_str(&text).unwrap()),
                    "lark" => Constraint::Lark(text),
                    "gbnf" => Constraint::Gbnf(text),
                    _ => Constraint::Regex(text),
                };
                let begun = Instant::now();
                let outcome = follow(&compiler, &constraint);
                println!("{}: {:?}, {outcome:?}", path.display(), begun.elapsed());
                assert!(!matches!(outcome, Err(Error::Slow)), "{}", path.display());
                count += 1;
            }
        }
        assert!(count >= 20, "{count} files in {}", folder.display());
    });
}

/// Large schemas as programs write them.
#[test]
fn large_schemas_of_programs_are_accepted() {
    in_child("large_schemas_of_programs_are_accepted", || {
        let compiler = Compiler::of_bytes().unwrap();
        let name = |i: usize| format!("p{i}");
        let record = |i: usize| {
            let other = json!({ "$ref": format!("#/$defs/d{}", i * 7 % 1000) });
            json!({"type": "object", "additionalProperties": false, "required": ["id"],
                "properties": {"id": {"type": "string"}, "name": {"type": ["string", "null"]},
                    "count": {"type": "integer"}, "next": {"anyOf": [other, {"type": "null"}]}}})
        };
        let records: Map<String, Value> = (0..1000).map(|i| (format!("d{i}"), record(i))).collect();
        let any: Vec<Value> =
            (0..1000).map(|i| json!({ "$ref": format!("#/$defs/d{i}") })).collect();
        let optional = members("properties", 2000, &name);
        let mut required = optional.clone();
        required["required"] = (0..2000).map(name).collect();
        for (name, schema) in [
            (
                "definitions",
                json!({ "type": "object", "properties": {"any": {"anyOf": any}},
                "required": ["any"], "$defs": records }),
            ),
            ("optional", optional),
            ("required", required),
            (
                "words",
                json!({ "enum": (0..20_000).map(|i| format!("word {i}")).collect::<Vec<_>>() }),
            ),
        ] {
            let begun = Instant::now();
            let mut matcher = compiler.compile(&Constraint::JsonSchema(schema)).unwrap();
            println!("{name}: {:?}", begun.elapsed());
            if name == "optional" {
                assert!(matcher.accepts(b"{\"p0\": \"a\", \"p1999\": \"b\"}").unwrap());
            } else {
                assert!(matcher.mask().is_ok(), "{name}");
            }
        }
    });
}

/// 1 MiB of names that are not defined took a minute, and rules in a chain as long.
#[test]
fn gbnf_is_read_in_linear_time() {
    let names: String = (0..90_000).map(|i| format!("name-{i}\n")).collect();
    let chain: String = (0..50_000).map(|i| format!("r{i} ::= r{}\n", i + 1)).collect();
    for text in [format!("root ::= ({names})"), format!("root ::= r0\n{chain}r50000 ::= \"a\"")] {
        let begun = Instant::now();
        let _ = gbnf_to_lark(&text);
        let taken = begun.elapsed();
        println!("{} bytes: {taken:?}", text.len());
        assert!(taken < Duration::from_secs(10), "{taken:?}");
    }
}

/// Schemas of pydantic, zod, the AI SDK and OpenAPI.
#[test]
fn schemas_that_people_use_are_accepted() {
    let compiler = Compiler::of_bytes().unwrap();
    let string = |format: &str| json!({"type": "string", "format": format});
    let draft7 = "http://json-schema.org/draft-07/schema#";
    for (schema, good, bad) in [
        (string("path"), "\"/a/b\"", "5"),
        (string("binary"), "\"x\"", "{}"),
        (string("byte"), "\"eA==\"", "1"),
        (string("password"), "\"***\"", "1"),
        (string("uri-reference"), "\"../a\"", "1"),
        (
            string("uuid4"),
            "\"9b2c4c1e-5c1a-4f0e-8f77-7d9c5b9f2d31\"",
            "\"9b2c4c1e-5c1a-1f0e-8f77-7d9c5b9f2d31\"",
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true}),
            "[1,2]",
            "[\"a\"]",
        ),
        (json!({"type": "number", "minimum": -1.797e308, "maximum": 1.797e308}), "-1.5", "\"a\""),
        (
            json!({"$schema": draft7, "type": "object", "properties": {"a": {"type": "string"}},
            "required": ["a"], "additionalProperties": false}),
            "{\"a\":\"b\"}",
            "{}",
        ),
        (json!({"$schema": "https://example.com/mine", "type": "null"}), "null", "1"),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"},
            "propertyNames": {"enum": ["a", "b"]}}),
            "{\"a\":1,\"b\":2}",
            "{\"c\":1}",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"},
            "propertyNames": {"pattern": "^x"}}),
            "{\"xa\":1}",
            "{\"a\":1}",
        ),
        (
            json!({"type": "object", "propertyNames": {"type": "string"},
            "additionalProperties": {"type": "string"}}),
            "{\"k\":\"v\"}",
            "{\"k\":1}",
        ),
        (
            json!({"type": "string", "contentMediaType": "application/json",
            "contentSchema": {"type": "object"}}),
            "\"{}\"",
            "{}",
        ),
    ] {
        let matcher = compiler.compile(&Constraint::JsonSchema(schema.clone()));
        let matcher = matcher.unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert!(matcher.copy().accepts(good.as_bytes()).unwrap(), "{schema}: {good}");
        assert!(!matcher.copy().accepts(bad.as_bytes()).unwrap_or(false), "{schema}: {bad}");
    }
    for (schema, keyword) in [
        (json!({"type": "object", "propertyNames": {"minLength": 3}}), "propertyNames"),
        (json!({"type": "number", "multipleOf": 1e-9}), "multipleOf"),
        (json!({"type": "object", "dependentRequired": {}}), "dependentRequired"),
    ] {
        let sentence = compiler.compile(&Constraint::JsonSchema(schema)).unwrap_err().to_string();
        assert!(sentence.contains(&format!("'{keyword}'")), "{sentence}");
    }
}

/// A step looked for all the text that has to follow it: 60 kB took 7 ms for each token of each
/// hypothesis.
#[test]
fn steps_of_a_long_text_are_short() {
    let compiler = Compiler::of_bytes().unwrap();
    let text = "abcdefghjkxy".repeat(5000);
    for constraint in [
        Constraint::Gbnf(format!("root ::= \"{text}\"")),
        Constraint::Lark(format!("start: \"{text}\"\n")),
        Constraint::Regex(text.clone()),
    ] {
        let mut matcher = compiler.compile(&constraint).unwrap();
        let begun = Instant::now();
        for byte in text.bytes().take(1000) {
            let mask = matcher.mask().unwrap();
            assert_eq!(mask.iter().map(|word| word.count_ones()).sum::<u32>(), 1);
            assert!(mask[usize::from(byte) / 32] >> (byte % 32) & 1 == 1);
            matcher.copy().consume(byte.into()).unwrap();
            matcher.consume(byte.into()).unwrap();
        }
        let taken = begun.elapsed();
        assert!(taken < Duration::from_secs(2), "{taken:?}");
        assert!(!matcher.copy().accepts(b"xx").unwrap());
    }
}
