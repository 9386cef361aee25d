//! Checks of JSON schemas, before they are compiled.
//!
//! The compiler ignores words that the draft named in a schema does not know, and has options
//! inside of the schema (`x-guidance`) that make it lenient. So every place of a schema is looked
//! at here.
//!
//! Each part that drives recursion, loops or memory of the compiler, llguidance 1.9.1, has a rule
//! that bounds it before the compiler sees it:
//!
//! | in a constraint | in the compiler | rule here |
//! |---|---|---|
//! | bounds and constants | floats, recursion by digits, 64-bit overflow (`json/numeric.rs`) | numbers below 2^53 with 15 digits behind the point; all others are expressions of `interval.rs` |
//! | `multipleOf` | a state for each remainder; products of 32 bits where schemas merge | 100,000 with its digits; the product of all of a schema that merges has 32 bits |
//! | `minLength`, `maxLength` | repetitions of 32 bits | a count up to 2^30; above it `max…` is no bound, `min…` is refused |
//! | `minItems`, `minProperties` and their maxima | rules by the logarithm of the count | the same |
//! | nested schemas, references, merged copies | recursion, copies of copies | `DEPTH_MAX`, `PATH_MAX`, `PARTS_MAX` |
//! | constants, names, `enum` | a trie, recursion by 31 bytes | `TEXT_MAX`, `PARTS_MAX` |
//! | `pattern`, `format` | automata | 1,000 repetitions and classes, 64 KiB; products of patterns are squared |
//! | whitespace | a lexeme between any two symbols | 40 spaces |

mod decimal;
mod interval;
mod keywords;
mod numbers;
mod size;
mod text;
mod union;

use std::{cmp::Reverse, collections::BTreeSet};

use serde_json::{Map, Value, json};

pub(crate) use self::size::PARTS_MAX;
pub(crate) use self::text::check_numbers;
use self::{
    keywords::{
        ANNOTATIONS, COUNTS, DEFINITIONS, Edit, NAMED, NESTED, OPTIONS, UNSUPPORTED, can_merge,
        count, format, is_draft, multiple, names, target,
    },
    numbers::{NUMERIC, replaced, without_negative_zero},
    size::is_structural,
    union::{Copies, Union},
};
use crate::{Error, numbers::Numbers};

/// The most levels of a schema's nesting.
const DEPTH_MAX: usize = 100;
/// The text between two symbols: nothing, a space, or a line break with indentation.
const WHITESPACE: &str = r"\x20|\n\x20{0,40}";

/// The schema of any object.
pub(crate) fn object() -> Value {
    with_options(Map::from_iter([("type".to_owned(), json!("object"))]))
}

/// The schema with bounded whitespace, if all of it can be enforced, and its parts. Numbers that
/// the compiler would round are references to `numbers`.
pub(crate) fn checked(schema: &Value, numbers: &mut Numbers) -> Result<(Value, usize), Error> {
    check_depth(schema)?;
    size::measure(schema)?;
    let mut walk = Walk {
        root: schema,
        references: references(schema),
        seen: BTreeSet::new(),
        left: Vec::new(),
        edits: Vec::new(),
        unions: Vec::new(),
        multiples: BTreeSet::new(),
        merges: false,
    };
    walk.left.push((String::new(), schema));
    while let Some((path, schema)) = walk.left.pop() {
        walk.visit(&path, schema)?;
    }
    if walk.merges && !can_merge(&walk.multiples) {
        let reason = " of so many digits in schemas that apply together";
        let (keyword, path) = ("multipleOf".to_owned(), "#".to_owned());
        return Err(Error::Keyword { keyword, path, reason });
    }
    let Walk { edits, mut unions, seen: places, .. } = walk;
    let mut schema = schema.clone();
    for (path, edit) in edits {
        if let Some(Value::Object(map)) = schema.pointer_mut(&path) {
            apply(map, edit);
        }
    }
    // places within a place come before it, since it moves them
    let mut places: Vec<String> = places.into_iter().collect();
    places.sort_by_key(|path| Reverse(path.len()));
    for path in places {
        if let Some(Value::Object(map)) = schema.pointer_mut(&path) {
            let keys = NUMERIC.into_iter().chain(["const", "enum"]);
            keys.for_each(|key| map.get_mut(key).into_iter().for_each(without_negative_zero));
            *map = replaced(std::mem::take(map), &path, numbers)?;
        }
    }
    // unions within a union are part of it
    unions.sort_by_key(|(path, _)| path.len());
    let mut copies = Copies::new();
    for (path, union) in unions {
        union.put(&mut schema, &path, &mut copies, numbers.prefix());
    }
    let mut definitions = union::definitions(&schema, copies);
    definitions.extend(numbers.definitions());
    let parts = define(&mut schema, definitions)?;
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

/// Adds definitions to a schema, and measures what it has become.
fn define(schema: &mut Value, definitions: Map<String, Value>) -> Result<usize, Error> {
    if !definitions.is_empty()
        && let Value::Object(map) = schema
    {
        match map.entry("$defs").or_insert_with(|| json!({})) {
            Value::Object(all) => all.extend(definitions),
            _ => return Err(Error::Schema("its '$defs' is no object".into())),
        }
    }
    size::measure(schema)
}

/// All references within a value.
fn references(value: &Value) -> Vec<&str> {
    let (mut found, mut left) = (Vec::new(), vec![value]);
    while let Some(value) = left.pop() {
        match value {
            Value::Array(all) => left.extend(all),
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                left.extend(map.values());
            }
            _ => {}
        }
    }
    found
}

fn apply(map: &mut Map<String, Value>, edit: Edit) {
    match edit {
        Edit::Drop(word) => drop(map.shift_remove(&word)),
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
    references: Vec<&'a str>,
    seen: BTreeSet<String>,
    left: Vec<(String, &'a Value)>,
    /// Changes, with the places that they change as JSON pointers.
    edits: Vec<(String, Edit)>,
    /// Unions, with their places.
    unions: Vec<(String, Union)>,
    multiples: BTreeSet<(u32, u32)>,
    /// Whether a schema has others that apply to the same value.
    merges: bool,
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
        let has_others =
            ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|key| map.contains_key(*key));
        let others = map.keys().filter(|key| is_structural(key) || *key == "$ref").count();
        self.merges |= has_others && others > 1 || map.contains_key("allOf");
        if let Some(union) = Union::of(self.root, path, map) {
            self.unions.push((path.to_owned(), union));
        }
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
                ("multipleOf", value) => match multiple(value) {
                    Some(multiple) => drop(self.multiples.insert(multiple)),
                    None => return refuse(name, " of so many digits, or not above zero"),
                },
                ("propertyNames", value) => {
                    let reference = value.get("$ref").and_then(Value::as_str);
                    let value = reference.and_then(|to| target(self.root, to)).unwrap_or(value);
                    match names(map, value) {
                        Ok(all) => edits.extend(all),
                        Err(reason) => return refuse(name, reason),
                    }
                }
                (word, value)
                    if let Some(word) = COUNTS.into_iter().find(|count| *count == word) =>
                {
                    match count(word, value) {
                        Ok(all) => edits.extend(all),
                        Err(reason) => return refuse(name, reason),
                    }
                }
                // beside a reference the compiler takes it for a schema of all types
                (word, _) if has_others && ANNOTATIONS.contains(&word) => {
                    let place = format!("/{word}");
                    if !self.references.iter().any(|reference| reference.contains(&place)) {
                        edits.push(Edit::Drop(word.to_owned()));
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

/// The first sentence of the compiler's error, in a bounded length. One that ends in a colon,
/// before a drawing of the place, goes on with the reason that follows the drawing.
pub(crate) fn reworded(error: &str) -> String {
    let mut lines = error.lines();
    let first = lines.next().unwrap_or_default();
    let reason = lines.find_map(|line| line.trim_start().strip_prefix("error: "));
    let line = match reason.filter(|_| first.ends_with(':')) {
        Some(reason) => format!("{first} {reason}"),
        None => first.to_owned(),
    };
    // numbers behind references
    if line.contains("Schema intersection stack level exceeded") {
        return "schemas that apply to the same value nest too deeply, or one of them has numbers of more \
                than 15 digits, which are exact only in a schema of their own"
            .to_owned();
    }
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

    fn check(schema: &Value) -> Result<(Value, usize), Error> {
        checked(schema, &mut Numbers::new(""))
    }

    #[test]
    fn unsupported_keywords_are_named_with_their_places() {
        for keyword in UNSUPPORTED {
            let schema = json!({"properties": {"a": {"items": [{ keyword: {} }]}}});
            let sentence = check(&schema).unwrap_err().to_string();
            assert!(sentence.contains(&format!("'{keyword}'")), "{sentence}");
            assert!(sentence.contains("#/properties/a/items/0"), "{sentence}");
            // a property of that name is none, and neither is a constant
            let schema = json!({"properties": { keyword: {"const": { keyword: 1 }}}});
            assert!(check(&schema).is_ok(), "{keyword}");
        }
    }

    #[test]
    fn places_behind_references_are_looked_at() {
        let schema = json!({"$ref": "#/elsewhere/here", "elsewhere": {"here": {"not": {}}}});
        let sentence = check(&schema).unwrap_err().to_string();
        assert!(sentence.contains("'not' at #/elsewhere/here"), "{sentence}");
        let endless = json!({"$ref": "#", "properties": {"a": {"$ref": "#/properties/a"}}});
        assert!(check(&endless).is_ok());
        for reference in ["http://x/y", "other", "#anchor", "#/a~1b", "#/a%25"] {
            assert!(check(&json!({"$ref": reference})).is_err());
        }
        assert!(check(&json!({"$id": "a"})).is_ok());
        assert!(check(&json!({"items": {"$id": "a"}})).is_err());
    }

    #[test]
    fn what_programs_write_is_put_for_the_compiler() {
        let changed = |schema: Value| {
            let mut schema = check(&schema).unwrap().0;
            schema.as_object_mut().unwrap().shift_remove(OPTIONS);
            schema
        };
        for format in ["path", "binary", "password", "uri-reference", "colour", "unknown"] {
            let schema = json!({"type": "string", "format": format});
            assert_eq!(changed(schema), json!({"type": "string"}), "{format}");
        }
        assert_eq!(changed(json!({"uniqueItems": true, "items": {}})), json!({"items": {}}));
        let counts = json!({"maxLength": 18_446_744_073_709_551_615_u64, "minItems": 2.0});
        assert_eq!(changed(counts), json!({"minItems": 2}));
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
        assert!(check(&json!({"propertyNames": {"minLength": 3}})).is_err());
        assert!(check(&json!({"multipleOf": 1e-9})).is_err());
        assert!(check(&json!({"multipleOf": 0.01})).is_ok());
        assert!(check(&json!({"multipleOf": 4_000_000_000u64})).is_err());
        assert!(check(&json!({"multipleOf": 0})).is_err());
        assert!(check(&json!({"minLength": 1u64 << 40})).is_err());
        assert!(check(&json!({"minLength": -1})).is_err());
    }

    #[test]
    fn options_are_set_by_nobody_else() {
        let sentence = check(&json!({"x-guidance": {"lenient": true}})).unwrap_err().to_string();
        assert!(sentence.contains("x-guidance"), "{sentence}");
        assert!(check(&json!(false)).is_err());
        assert!(check(&json!([])).is_err());
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"items": deep});
        }
        assert!(matches!(check_depth(&deep), Err(Error::TooLarge { what: "levels", .. })));
    }
}
