//! Checks of JSON schemas, before they are compiled.
//!
//! The compiler ignores words that the draft named in a schema does not know, and has options inside
//! of the schema (`x-guidance`) that make it lenient. So every place of a schema is looked at here.

mod keywords;
mod size;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use self::keywords::{
    DEFINITIONS, Edit, NAMED, NESTED, OPTIONS, UNSUPPORTED, bound, format, is_draft, multiple,
    names, target,
};
pub(crate) use self::size::PARTS_MAX;
use crate::Error;

/// The most levels of a schema's nesting.
const DEPTH_MAX: usize = 100;
/// The text between two symbols: nothing, a space, or a line break with indentation.
const WHITESPACE: &str = r"\x20|\n\x20{0,40}";

/// The schema of any object.
pub(crate) fn object() -> Value {
    with_options(Map::from_iter([("type".to_owned(), json!("object"))]))
}

/// The schema with bounded whitespace, if all of it can be enforced, and its parts.
pub(crate) fn checked(schema: &Value) -> Result<(Value, usize), Error> {
    check_depth(schema)?;
    let parts = size::measure(schema)?;
    let mut walk =
        Walk { root: schema, seen: BTreeSet::new(), left: Vec::new(), edits: Vec::new() };
    walk.left.push((String::new(), schema));
    while let Some((path, schema)) = walk.left.pop() {
        walk.visit(&path, schema)?;
    }
    let edits = walk.edits;
    let mut schema = schema.clone();
    for (path, edit) in edits {
        if let Some(Value::Object(map)) = schema.pointer_mut(&path) {
            apply(map, edit);
        }
    }
    let schema = match schema {
        Value::Object(map) => with_options(map),
        Value::Bool(true) => with_options(Map::new()),
        Value::Bool(false) => {
            return Err(Error::Schema("it is false, which allows no value".into()));
        }
        _ => return Err(Error::Schema("it is no object, expected an object or true".into())),
    };
    Ok((schema, parts))
}

fn apply(map: &mut Map<String, Value>, edit: Edit) {
    match edit {
        Edit::Remove(keyword) => drop(map.shift_remove(keyword)),
        Edit::Set(keyword, value) => drop(map.insert(keyword.to_owned(), value)),
        Edit::And(schema) => {
            if let Value::Array(all) = map.entry("allOf").or_insert_with(|| json!([])) {
                all.push(schema);
            }
        }
    }
}

fn with_options(mut map: Map<String, Value>) -> Value {
    map.insert(OPTIONS.to_owned(), json!({ "whitespace_pattern": WHITESPACE }));
    Value::Object(map)
}

/// Refuses a value that is nested too deeply to be walked by recursion.
pub(crate) fn check_depth(value: &Value) -> Result<(), Error> {
    let mut left = vec![(value, 1)];
    while let Some((value, depth)) = left.pop() {
        if depth > DEPTH_MAX {
            return Err(Error::TooLarge { what: "levels", found: depth, limit: DEPTH_MAX });
        }
        match value {
            Value::Array(all) => left.extend(all.iter().map(|value| (value, depth + 1))),
            Value::Object(map) => left.extend(map.values().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

/// The places of a schema that are schemas themselves.
struct Walk<'a> {
    root: &'a Value,
    seen: BTreeSet<String>,
    left: Vec<(String, &'a Value)>,
    /// Changes, with the places that they change as JSON pointers.
    edits: Vec<(String, Edit)>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, path: &str, schema: &'a Value) -> Result<(), Error> {
        let Value::Object(map) = schema else { return Ok(()) };
        if !self.seen.insert(path.to_owned()) {
            return Ok(());
        }
        let refuse = |keyword: &str, reason| {
            Err(Error::Keyword { keyword: keyword.to_owned(), path: format!("#{path}"), reason })
        };
        let mut edits = Vec::new();
        for (keyword, value) in map {
            let name = keyword.as_str();
            if UNSUPPORTED.contains(&name) {
                return refuse(name, "");
            }
            match (name, value) {
                ("$id" | "id", Value::String(_)) if !path.is_empty() => {
                    return refuse(name, " below the top");
                }
                ("$ref", Value::String(reference)) => match reference.strip_prefix('#') {
                    Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                        if pointer.contains(['~', '%']) {
                            return refuse(name, " with escapes in its pointer");
                        }
                        if let Some(target) = self.root.pointer(pointer) {
                            self.left.push((pointer.to_owned(), target));
                        }
                    }
                    _ => {
                        return refuse(name, " with a target that is no pointer within the schema");
                    }
                },
                ("$ref", _) => return refuse(name, ": its value is no string"),
                ("$schema", Value::String(uri)) if !is_draft(uri) => {
                    edits.push(Edit::Remove("$schema"));
                }
                ("contentSchema", _) => edits.push(Edit::Remove("contentSchema")),
                ("uniqueItems", _) => edits.push(Edit::Remove("uniqueItems")),
                ("format", Value::String(name)) => edits.extend(format(name)),
                ("minimum", value) => edits.extend(bound("minimum", value)),
                ("maximum", value) => edits.extend(bound("maximum", value)),
                ("exclusiveMinimum", value) => edits.extend(bound("exclusiveMinimum", value)),
                ("exclusiveMaximum", value) => edits.extend(bound("exclusiveMaximum", value)),
                ("multipleOf", value) if multiple(value) == usize::MAX => {
                    return refuse(name, " with so many digits");
                }
                ("propertyNames", value) => {
                    let reference = value.get("$ref").and_then(Value::as_str);
                    let value = reference.and_then(|to| target(self.root, to)).unwrap_or(value);
                    match names(map, value) {
                        Ok(all) => edits.extend(all),
                        Err(reason) => return refuse(name, reason),
                    }
                }
                ("required", value) if !value.is_array() => {
                    return refuse(name, ": its value is no array");
                }
                _ => {}
            }
            let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
            let place = |name: &str| format!("{path}/{keyword}/{}", escaped(name));
            if NESTED.contains(&name) {
                match value {
                    Value::Array(all) => self
                        .left
                        .extend(all.iter().enumerate().map(|(i, s)| (place(&i.to_string()), s))),
                    one => self.left.push((format!("{path}/{keyword}"), one)),
                }
            }
            if (NAMED.contains(&name) || DEFINITIONS.contains(&name))
                && let Value::Object(all) = value
            {
                self.left.extend(all.iter().map(|(name, schema)| (place(name), schema)));
            }
        }
        self.edits.extend(edits.into_iter().map(|edit| (path.to_owned(), edit)));
        Ok(())
    }
}

/// The first sentence of the compiler's error, in a bounded length. One that ends in a colon, before a drawing
/// of the place, goes on with the reason that follows the drawing.
pub(crate) fn reworded(error: &str) -> String {
    let mut lines = error.lines();
    let first = lines.next().unwrap_or_default();
    let reason = lines.find_map(|line| line.trim_start().strip_prefix("error: "));
    let line = match reason.filter(|_| first.ends_with(':')) {
        Some(reason) => format!("{first} {reason}"),
        None => first.to_owned(),
    };
    // an option that users do not have
    let line = line.replace(
        "oneOf constraints are not supported. Enable 'coerce_one_of' option to approximate oneOf \
         with anyOf",
        "the schemas of 'oneOf' are not provably disjoint",
    );
    line.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_keywords_are_named_with_their_places() {
        for keyword in UNSUPPORTED {
            let schema = json!({"properties": {"a": {"items": [{ keyword: {} }]}}});
            let sentence = checked(&schema).unwrap_err().to_string();
            assert!(sentence.contains(&format!("'{keyword}'")), "{sentence}");
            assert!(sentence.contains("#/properties/a/items/0"), "{sentence}");
            // a property of that name is none, and neither is a constant
            let schema = json!({"properties": { keyword: {"const": { keyword: 1 }}}});
            assert!(checked(&schema).is_ok(), "{keyword}");
        }
    }

    #[test]
    fn places_behind_references_are_looked_at() {
        let schema = json!({"$ref": "#/elsewhere/here", "elsewhere": {"here": {"not": {}}}});
        let sentence = checked(&schema).unwrap_err().to_string();
        assert!(sentence.contains("'not' at #/elsewhere/here"), "{sentence}");
        let endless = json!({"$ref": "#", "properties": {"a": {"$ref": "#/properties/a"}}});
        assert!(checked(&endless).is_ok());
        for reference in ["http://x/y", "other", "#anchor", "#/a~1b", "#/a%25"] {
            assert!(checked(&json!({"$ref": reference})).is_err());
        }
        assert!(checked(&json!({"$id": "a"})).is_ok());
        assert!(checked(&json!({"items": {"$id": "a"}})).is_err());
    }

    #[test]
    fn what_programs_write_is_put_for_the_compiler() {
        let changed = |schema: Value| {
            let mut schema = checked(&schema).unwrap().0;
            schema.as_object_mut().unwrap().shift_remove(OPTIONS);
            schema
        };
        for format in ["path", "binary", "password", "uri-reference", "colour", "unknown"] {
            let schema = json!({"type": "string", "format": format});
            assert_eq!(changed(schema), json!({"type": "string"}), "{format}");
        }
        assert_eq!(changed(json!({"uniqueItems": true, "items": {}})), json!({"items": {}}));
        let bounds = json!({"type": "number", "minimum": -1.7e308, "exclusiveMaximum": 1.7e308});
        assert_eq!(changed(bounds), json!({"type": "number"}));
        let v4 = changed(json!({"type": "string", "format": "uuid4"}));
        assert_eq!(v4["format"], "uuid");
        let names = json!({"$defs": {"e": {"enum": ["a", "b"], "title": "E", "type": "string"}},
            "type": "object", "additionalProperties": {"type": "null"},
            "propertyNames": {"$ref": "#/$defs/e"}});
        let named = changed(names);
        assert_eq!(named["properties"], json!({"a": {"type": "null"}, "b": {"type": "null"}}));
        assert_eq!(named["additionalProperties"], false);
        let record = json!({"type": "object", "propertyNames": {"type": "string"}});
        assert_eq!(changed(record), json!({"type": "object"}));
        assert!(checked(&json!({"propertyNames": {"minLength": 3}})).is_err());
        assert!(checked(&json!({"multipleOf": 1e-9})).is_err());
        assert!(checked(&json!({"multipleOf": 0.01})).is_ok());
        assert!(checked(&json!({"multipleOf": 4_000_000_000u64})).is_err());
    }

    #[test]
    fn options_are_set_by_nobody_else() {
        let sentence = checked(&json!({"x-guidance": {"lenient": true}})).unwrap_err().to_string();
        assert!(sentence.contains("x-guidance"), "{sentence}");
        assert!(checked(&json!(false)).is_err());
        assert!(checked(&json!([])).is_err());
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"items": deep});
        }
        assert!(matches!(check_depth(&deep), Err(Error::TooLarge { what: "levels", .. })));
    }
}
