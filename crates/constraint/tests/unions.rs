//! Unions of models as Pydantic 2 and others write them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

use pelton_constraint::{Compiler, Constraint};
use serde_json::{Value, json};

#[track_caller]
fn check(schema: Value, good: &[&str], bad: &[&str]) {
    let compiler = Compiler::of_bytes().unwrap();
    let matcher = compiler.compile(&Constraint::JsonSchema(schema.clone()));
    let matcher = matcher.unwrap_or_else(|error| panic!("{schema}: {error}"));
    let accepts = |text: &str| matcher.copy().accepts(text.as_bytes()).unwrap_or(false);
    for text in good {
        assert!(accepts(text), "{schema}: {text} is refused");
    }
    for text in bad {
        assert!(!accepts(text), "{schema}: {text} is accepted");
    }
}

/// A model with a tag: `Literal[…] = …` has a default, and so is not required.
fn model(tags: Value, has_default: bool, more: &str) -> Value {
    let mut tag = match &tags {
        Value::Array(_) => json!({ "enum": tags, "title": "Kind", "type": "string" }),
        one => json!({ "const": one, "title": "Kind", "type": "string" }),
    };
    let mut required = vec![more];
    match has_default {
        true => tag["default"] = tags.get(0).unwrap_or(&tags).clone(),
        false => required.insert(0, "kind"),
    }
    json!({ "properties": { "kind": tag, more: { "title": "More", "type": "integer" } },
        "required": required, "title": "Model", "type": "object" })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// `Annotated[Cat | Dog, Field(discriminator="kind")]`, as `TypeAdapter(…).json_schema()` writes
/// it.
fn union(names: &[&str]) -> Value {
    let mapping: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.to_lowercase(), format!("#/$defs/{name}").into())).collect();
    json!({ "discriminator": { "mapping": mapping, "propertyName": "kind" },
        "oneOf": names.iter().map(|name| reference(name)).collect::<Vec<_>>() })
}

#[test]
fn models_with_tags_are_unions() {
    let cat = "{\"kind\": \"cat\", \"lives\": 9}";
    let dog = "{\"kind\": \"dog\", \"age\": 3}";
    let bad = [
        "{\"kind\": \"cat\", \"age\": 3}",
        "{\"kind\": \"dog\", \"lives\": 9}",
        "{\"kind\": \"cow\", \"age\": 3}",
        "{\"kind\": \"cat\"}",
        "null",
    ];
    for (a, b) in [(true, true), (true, false), (false, true), (false, false)] {
        let definitions = json!({ "Cat": model("cat".into(), a, "lives"),
            "Dog": model("dog".into(), b, "age") });
        let mut schema = union(&["Cat", "Dog"]);
        schema["$defs"] = definitions.clone();
        check(schema, &[cat, dog], &bad);
        let pet = json!({ "$defs": definitions, "type": "object", "required": ["pet"],
            "additionalProperties": false,
            "properties": { "pet": union(&["Cat", "Dog"]), "all": { "type": "array",
                "items": union(&["Cat", "Dog"]) } } });
        let good = format!("{{\"pet\": {cat}, \"all\": [{dog}, {cat}]}}");
        check(
            pet,
            &[&good, &format!("{{\"pet\": {dog}}}")],
            &[&format!("{{\"pet\": {}}}", bad[0])],
        );
        // Optional[Union]
        let optional = json!({ "$defs": definitions, "type": "object", "additionalProperties": false,
            "properties": { "pet": { "anyOf": [union(&["Cat", "Dog"]), { "type": "null" }],
                "default": null, "title": "Pet" } } });
        let good = format!("{{\"pet\": {dog}}}");
        check(optional, &["{\"pet\": null}", "{}", &good], &["{\"pet\": 1}"]);
    }
    // where both lack the tag, it is required; where one does, an object without it is that one
    let both = json!({ "$defs": { "Cat": model("cat".into(), true, "lives"),
        "Dog": model("dog".into(), true, "age") }, "anyOf": [union(&["Cat", "Dog"])] });
    check(both, &[cat], &["{\"lives\": 9}", "{\"age\": 3}"]);
    let one = json!({ "$defs": { "Cat": model("cat".into(), true, "lives"),
        "Dog": model("dog".into(), false, "age") }, "anyOf": [union(&["Cat", "Dog"])] });
    check(one, &["{\"lives\": 9}", cat, dog], &["{\"age\": 3}"]);
    // a model beside the union is as it was
    let beside = json!({ "$defs": { "Cat": model("cat".into(), true, "lives"),
        "Dog": model("dog".into(), true, "age") }, "type": "object",
        "properties": { "a": union(&["Cat", "Dog"]), "b": reference("Cat") } });
    check(beside, &["{\"b\": {\"lives\": 9}}"], &["{\"a\": {\"lives\": 9}}"]);
}

#[test]
fn unions_of_other_shapes() {
    // Literal of several values, and unions within a union
    let definitions = json!({ "Cat": model(json!(["cat", "lion"]), true, "lives"),
        "Dog": model(json!(["dog", "wolf"]), true, "age"), "Cow": model("cow".into(), true, "milk") });
    let nested = json!({ "$defs": definitions,
        "oneOf": [union(&["Cat", "Dog"]), reference("Cow")] });
    check(
        nested,
        &["{\"kind\": \"lion\", \"lives\": 9}", "{\"kind\": \"cow\", \"milk\": 1}"],
        &["{\"kind\": \"lion\", \"age\": 9}", "{\"milk\": 1}", "{\"kind\": \"cow\", \"age\": 1}"],
    );
    // a tree
    let node = json!({ "type": "object", "required": ["all"], "properties": {
        "kind": { "const": "node", "default": "node", "type": "string" },
        "all": { "type": "array", "items": union(&["Node", "Leaf"]) } } });
    let mut tree = union(&["Node", "Leaf"]);
    tree["$defs"] = json!({ "Node": node, "Leaf": model("leaf".into(), true, "value") });
    let good = "{\"kind\": \"node\", \"all\": [{\"kind\": \"leaf\", \"value\": 1}, \
                {\"kind\": \"node\", \"all\": []}]}";
    check(tree, &[good], &[&good.replace("leaf", "tree"), "{\"all\": []}"]);
    // written in place, an enum behind a reference, other types
    let inline = json!({ "$defs": { "Kind": { "enum": ["a"], "type": "string" } }, "oneOf": [
        { "type": "object", "properties": { "kind": { "$ref": "#/$defs/Kind" } } },
        { "type": "object", "properties": { "kind": { "const": "b" } } },
        { "type": "array", "items": { "type": "null" } }, { "type": "null" }] });
    check(
        inline,
        &["{\"kind\":\"a\"}", "{\"kind\":\"b\"}", "[]", "null"],
        &["{}", "{\"kind\":\"c\"}", "1"],
    );
    let numbers = json!({ "oneOf": [{ "type": "object", "required": ["v"], "properties": {
        "v": { "const": 9_007_199_254_740_993_u64 } } }, { "type": "object", "required": ["v"],
        "properties": { "v": { "const": 9_007_199_254_740_992_u64 } } }] });
    check(
        numbers,
        &["{\"v\":9007199254740993}", "{\"v\":9007199254740992}"],
        &["{\"v\":9007199254740994}"],
    );
    // unions that are not disjoint stay refused
    let compiler = Compiler::of_bytes().unwrap();
    for schema in [
        json!({ "oneOf": [model("cat".into(), true, "lives"), model("cat".into(), true, "age")] }),
        json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] }),
        json!({ "oneOf": [{}, { "type": "object" }] }),
        json!({ "oneOf": [{ "properties": { "kind": { "const": 1 } } },
            { "properties": { "kind": { "const": 2 } } }] }),
    ] {
        let error = compiler.compile(&Constraint::JsonSchema(schema)).unwrap_err().to_string();
        assert!(error.contains("'oneOf' are not provably disjoint"), "{error}");
    }
}
