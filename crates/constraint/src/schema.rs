//! Checks of JSON schemas, before they are compiled.
//!
//! The compiler ignores words that the draft named in a schema does not know, and has options inside
//! of the schema (`x-guidance`) that make it lenient. So every place of a schema is looked at here.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::Error;

/// Levels of a schema's nesting, at most.
const DEPTH_MAX: usize = 100;
/// What may be between two symbols: nothing, a space, or a line break with indentation.
const WHITESPACE: &str = r"\x20|\n\x20{0,40}";
/// A label of a host name without hyphens at its third and fourth character, where those of
/// internationalized names have them.
const LABEL: &str = "(?:[A-Za-z0-9]{1,2}|[A-Za-z0-9][A-Za-z0-9-][A-Za-z0-9](?:[A-Za-z0-9-]{0,59}[A-Za-z0-9])?\
     |[A-Za-z0-9][A-Za-z0-9-]-[A-Za-z0-9](?:[A-Za-z0-9-]{0,58}[A-Za-z0-9])?)";
/// Dates without the 29th of February of common years and without the year 0, which Python and
/// others do not read.
const DATE: &str = "(?:(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})\
     -(?:02-(?:[01][0-9]|2[0-8])|(?:0[13-9]|1[0-2])-[0-9]{2})\
     |(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)";
/// Times without leap seconds.
const TIME: &str = "[0-9]{2}:[0-9]{2}:[0-5]";
/// The compiler's own options.
const OPTIONS: &str = "x-guidance";

/// Keywords of any draft that cannot be enforced.
const UNSUPPORTED: [&str; 24] = [
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "contains",
    "contentSchema",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "disallow",
    "divisibleBy",
    "else",
    "extends",
    "if",
    "maxContains",
    "minContains",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    OPTIONS,
];

/// Keywords whose value is a schema, or an array of schemas.
const NESTED: [&str; 7] =
    ["additionalItems", "additionalProperties", "allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas.
const NAMED: [&str; 4] = ["$defs", "definitions", "patternProperties", "properties"];

/// The schema of any object.
pub(crate) fn object() -> Value {
    with_options(Map::from_iter([("type".to_owned(), json!("object"))]))
}

/// The schema with bounded whitespace, if all of it can be enforced.
pub(crate) fn checked(schema: &Value) -> Result<Value, Error> {
    let mut walk =
        Walk { root: schema, seen: BTreeSet::new(), left: Vec::new(), stricter: Vec::new() };
    walk.left.push((String::new(), schema));
    while let Some((path, schema)) = walk.left.pop() {
        walk.visit(&path, schema)?;
    }
    let stricter = walk.stricter;
    let mut schema = schema.clone();
    for (path, addition) in stricter {
        if let Some(Value::Object(map)) = schema.pointer_mut(&path)
            && let Value::Array(all) = map.entry("allOf").or_insert_with(|| json!([]))
        {
            all.push(addition);
        }
    }
    match schema {
        Value::Object(map) => Ok(with_options(map)),
        Value::Bool(true) => Ok(with_options(Map::new())),
        Value::Bool(false) => Err(Error::Schema("it is false, which allows no value".into())),
        _ => Err(Error::Schema("it is no object, expected an object or true".into())),
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
    /// Places, as JSON pointers, that get another schema in their `allOf`.
    stricter: Vec<(String, Value)>,
}

/// What the compiler's expression of a format lacks, as a schema.
fn addition(format: &str) -> Option<Value> {
    Some(match format {
        "date" => json!({ "pattern": format!("^{DATE}$") }),
        "time" => json!({ "pattern": format!("^{TIME}") }),
        "date-time" => json!({ "pattern": format!("^{DATE}[tT]{TIME}") }),
        "hostname" => {
            json!({ "pattern": format!("^{LABEL}(?:\\.{LABEL})*$"), "maxLength": 253 })
        }
        _ => return None,
    })
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
                ("format", Value::String(format)) => {
                    self.stricter.extend(addition(format).map(|all| (path.to_owned(), all)));
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
            if NAMED.contains(&name)
                && let Value::Object(all) = value
            {
                self.left.extend(all.iter().map(|(name, schema)| (place(name), schema)));
            }
        }
        Ok(())
    }
}

/// The first sentence of the compiler's error, in a bounded length.
pub(crate) fn reworded(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
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
