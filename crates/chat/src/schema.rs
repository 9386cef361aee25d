//! The JSON types that a tool's schema allows for an argument.
//!
//! Formats that write arguments without quotation marks leave the type of a value to the schema.
//! The parser and the grammar of such formats ask the same function, [`Schema::types`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{BitAnd, BitOr};

use serde_json::{Map, Value, json};

/// The most schemas within each other that are read. Deeper ones allow anything.
const DEPTH: usize = 64;

/// The most schemas that are read for one argument. Those after them allow anything.
const SCHEMAS: usize = 10_000;

/// Keywords that allow nothing less.
pub(crate) const ANNOTATIONS: [&str; 11] = [
    "$comment",
    "$id",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "strict",
    "title",
    "writeOnly",
];

/// Keywords whose schemas others refer to.
pub(crate) const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Keywords that a walk follows.
const FOLLOWED: [&str; 8] =
    ["$ref", "allOf", "anyOf", "const", "enum", "nullable", "oneOf", "type"];

const STRING: [&str; 6] =
    ["contentEncoding", "contentMediaType", "format", "maxLength", "minLength", "pattern"];
const OBJECT: [&str; 7] = [
    "additionalProperties",
    "maxProperties",
    "minProperties",
    "patternProperties",
    "properties",
    "propertyNames",
    "required",
];
const ARRAY: [&str; 6] =
    ["contains", "items", "maxItems", "minItems", "prefixItems", "uniqueItems"];
const NUMBER: [&str; 5] =
    ["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"];

/// A set of JSON types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    const NONE: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(2);
    /// Numbers without a fraction.
    const INTEGER: Self = Self(4);
    const FRACTION: Self = Self(8);
    pub(crate) const STRING: Self = Self(16);
    const ARRAY: Self = Self(32);
    const OBJECT: Self = Self(64);
    pub(crate) const ALL: Self = Self(127);

    /// The types of a name; all for an unknown one.
    fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::INTEGER | Self::FRACTION,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::ALL,
        }
    }

    /// The type of a value.
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) => match number.as_f64().is_some_and(|n| n.fract() != 0.0) {
                true => Self::FRACTION,
                false => Self::INTEGER,
            },
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// Whether all types of another set are in this one.
    pub(crate) fn has(self, other: Self) -> bool {
        self & other == other
    }
}

impl BitOr for Types {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Types {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// The schema of an argument, within that of all arguments of a tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema<'s> {
    root: &'s Value,
    own: &'s Value,
}

impl<'s> Schema<'s> {
    /// The schema of a parameter; `None` if that of all parameters says nothing about it.
    pub(crate) fn of_parameter(root: &'s Value, name: &str) -> Option<Self> {
        let own = parameter(root, root, name, &mut Vec::new())?;
        Some(Self { root, own })
    }

    /// A schema whose references are to `root`.
    pub(crate) fn new(root: &'s Value, own: &'s Value) -> Self {
        Self { root, own }
    }

    /// The JSON types of the values that the schema may allow.
    ///
    /// References, `anyOf`, `oneOf`, `allOf`, `enum` and `const` are followed. A schema without any
    /// of these and without a type allows all types, unless it has keywords of one type alone.
    pub(crate) fn types(self) -> Types {
        Walk::new(self.root).types(self.own, 0).unwrap_or(Types::ALL)
    }

    /// The values of `enum` and `const`, if the schema lists all that it allows.
    pub(crate) fn values(self) -> Option<Vec<&'s Value>> {
        Walk::new(self.root).values(self.own, 0)
    }

    /// The schemas of the strings that the schema allows, without annotations and references.
    pub(crate) fn strings(self) -> Vec<Value> {
        let mut all = Walk::new(self.root).strings(self.own, 0);
        all.dedup();
        // one that allows every string allows those of the others
        match all.iter().find(|map| map.len() == 1) {
            Some(any) => vec![Value::Object(any.clone())],
            None => all.into_iter().map(Value::Object).collect(),
        }
    }
}

/// The schema of a parameter in a schema of objects or in those that it refers to.
fn parameter<'s>(
    root: &'s Value,
    schema: &'s Value,
    name: &str,
    seen: &mut Vec<&'s Value>,
) -> Option<&'s Value> {
    if seen.len() > DEPTH || seen.iter().any(|one| std::ptr::eq(*one, schema)) {
        return None;
    }
    seen.push(schema);
    if let Some(found) = schema.get("properties").and_then(|all| all.get(name)) {
        return Some(found);
    }
    let referred = schema.get("$ref").and_then(|reference| target(root, reference));
    let lists = ["allOf", "anyOf", "oneOf"].into_iter();
    let below = lists.filter_map(|key| schema.get(key)?.as_array()).flatten();
    let mut below = referred.into_iter().chain(below);
    let found = below.find_map(|schema| parameter(root, schema, name, seen));
    found.or_else(|| schema.get("additionalProperties").filter(|schema| schema.is_object()))
}

/// The target of a reference: a pointer within the schema, or the schema itself.
fn target<'s>(root: &'s Value, reference: &Value) -> Option<&'s Value> {
    root.pointer(reference.as_str()?.strip_prefix('#')?)
}

/// One reading of a schema.
struct Walk<'s> {
    root: &'s Value,
    /// The types of the targets of references; `None` while a target is read.
    types: RefCell<BTreeMap<&'s str, Option<Types>>>,
    left: RefCell<usize>,
}

impl<'s> Walk<'s> {
    fn new(root: &'s Value) -> Self {
        Self { root, types: RefCell::default(), left: RefCell::new(SCHEMAS) }
    }

    /// Whether one more schema may be read.
    fn may_read(&self, depth: usize) -> bool {
        let mut left = self.left.borrow_mut();
        *left = left.saturating_sub(1);
        depth <= DEPTH && *left > 0
    }

    /// The types that a schema allows; `None` if it refers to itself and says nothing more.
    fn types(&self, schema: &'s Value, depth: usize) -> Option<Types> {
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(false) => return Some(Types::NONE),
            _ => return Some(Types::ALL),
        };
        if !self.may_read(depth) {
            return Some(Types::ALL);
        }
        let mut all: Vec<Option<Types>> = Vec::new();
        match map.get("type") {
            Some(Value::String(name)) => all.push(Some(Types::named(name))),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str).map(Types::named);
                all.push(Some(names.fold(Types::NONE, Types::bitor)));
            }
            _ => {}
        }
        if let Some(value) = map.get("const") {
            all.push(Some(Types::of(value)));
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            all.push(Some(values.iter().map(Types::of).fold(Types::NONE, Types::bitor)));
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(schemas)) = map.get(key) {
                let known = schemas.iter().filter_map(|schema| self.types(schema, depth + 1));
                all.push(known.reduce(Types::bitor));
            }
        }
        for schema in map.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            all.push(self.types(schema, depth + 1));
        }
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            all.push(self.reference(reference, depth));
        }
        if all.is_empty() {
            all.push(Some(keywords(map)));
        }
        let types = all.into_iter().flatten().reduce(Types::bitand)?;
        // OpenAPI 3.0
        let nullable = map.get("nullable").and_then(Value::as_bool).unwrap_or(false);
        Some(if nullable { types | Types::NULL } else { types })
    }

    fn reference(&self, reference: &'s str, depth: usize) -> Option<Types> {
        if let Some(known) = self.types.borrow().get(reference) {
            return *known;
        }
        let Some(target) = reference.strip_prefix('#').and_then(|at| self.root.pointer(at)) else {
            return Some(Types::ALL);
        };
        self.types.borrow_mut().insert(reference, None);
        let types = self.types(target, depth + 1);
        self.types.borrow_mut().insert(reference, types);
        types
    }

    /// The schemas that a schema is one of, if it is nothing but a choice or a reference.
    fn choice(&self, map: &'s Map<String, Value>) -> Option<Vec<&'s Value>> {
        if let Some(reference) = map.get("$ref") {
            return Some(target(self.root, reference).into_iter().collect());
        }
        let list = ["anyOf", "oneOf"].into_iter().find_map(|key| map.get(key)?.as_array());
        list.or_else(|| map.get("allOf")?.as_array().filter(|all| all.len() == 1))
            .map(|all| all.iter().collect())
    }

    fn values(&self, schema: &'s Value, depth: usize) -> Option<Vec<&'s Value>> {
        let map = schema.as_object()?;
        if !self.may_read(depth) {
            return None;
        }
        if let Some(value) = map.get("const") {
            return Some(vec![value]);
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            return Some(values.iter().collect());
        }
        if map.get("type").is_some_and(|name| name == "null") {
            return Some(vec![&Value::Null]);
        }
        let choice = self.choice(map).filter(|all| !all.is_empty())?;
        let lists = choice.into_iter().map(|schema| self.values(schema, depth + 1));
        Some(lists.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn strings(&self, schema: &'s Value, depth: usize) -> Vec<Map<String, Value>> {
        let any = || vec![Map::from_iter([("type".to_owned(), json!("string"))])];
        let Value::Object(map) = schema else { return any() };
        if !self.may_read(depth) {
            return any();
        }
        let types = self.types(schema, depth).unwrap_or(Types::ALL);
        if !types.has(Types::STRING) {
            return Vec::new();
        }
        // keywords of other types say nothing about strings
        let has_others = types != types & (Types::STRING | Types::NULL);
        let is_kept = |key: &str| {
            let of_others = OBJECT.contains(&key) || ARRAY.contains(&key) || NUMBER.contains(&key);
            let is_text = ["contentEncoding", "contentMediaType", "format"].contains(&key);
            let is_known = [&FOLLOWED[..], &ANNOTATIONS, &DEFINITIONS].concat().contains(&key);
            !(is_known || is_text || of_others && has_others)
        };
        let mut own = Map::from_iter([("type".to_owned(), json!("string"))]);
        own.extend(map.iter().filter(|(key, _)| is_kept(key)).map(|(k, v)| (k.clone(), v.clone())));
        // the strings of all schemas of a conjunction, and of one of each choice
        let mut all = vec![own];
        let conjunction = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let referred = map.get("$ref").and_then(|reference| target(self.root, reference));
        for schema in conjunction.chain(referred) {
            all = product(&all, &self.strings(schema, depth + 1));
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(schemas)) = map.get(key) {
                let one: Vec<_> =
                    schemas.iter().flat_map(|schema| self.strings(schema, depth + 1)).collect();
                all = product(&all, &one);
            }
        }
        all
    }
}

/// The most schemas of strings of one argument.
const STRINGS: usize = 64;

/// The schemas of the strings that one of each list allows.
fn product(left: &[Map<String, Value>], right: &[Map<String, Value>]) -> Vec<Map<String, Value>> {
    let pairs = left.iter().flat_map(|left| right.iter().map(move |right| (left, right)));
    pairs.take(STRINGS).map(|(left, right)| both(left, right)).collect()
}

/// A schema of strings that two allow. No grammar joins two patterns: the second one is under a key
/// that the grammar refuses by name.
fn both(left: &Map<String, Value>, right: &Map<String, Value>) -> Map<String, Value> {
    let mut all = left.clone();
    for (key, value) in right {
        let bound = |a: &Value, b: &Value| match (a.as_u64(), b.as_u64(), key.as_str()) {
            (Some(a), Some(b), "minLength") => Some(json!(a.max(b))),
            (Some(a), Some(b), "maxLength") => Some(json!(a.min(b))),
            _ => None,
        };
        match all.get(key) {
            Some(own) if own == value => {}
            Some(own) => match bound(own, value) {
                Some(bound) => drop(all.insert(key.clone(), bound)),
                None => drop(all.insert(format!("allOf {key}"), value.clone())),
            },
            None => drop(all.insert(key.clone(), value.clone())),
        }
    }
    all
}

/// The types of a schema without a type: those of its keywords, if they are all of one.
fn keywords(map: &Map<String, Value>) -> Types {
    let has = |keys: &[&str]| keys.iter().any(|key| map.contains_key(*key));
    let found = [
        (has(&OBJECT), Types::OBJECT),
        (has(&ARRAY), Types::ARRAY),
        (has(&NUMBER), Types::INTEGER | Types::FRACTION),
        (has(&STRING), Types::STRING),
    ];
    let found = found.into_iter().filter(|(is_there, _)| *is_there).map(|(_, types)| types);
    found.reduce(Types::bitor).unwrap_or(Types::ALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(schema: &Value) -> Types {
        Schema::new(schema, schema).types()
    }

    #[test]
    fn types_of_schemas() {
        let number = Types::INTEGER | Types::FRACTION;
        let nullable = Types::STRING | Types::NULL;
        for (schema, expected) in [
            (json!({"type": "string"}), Types::STRING),
            (json!({"type": ["string", "null"]}), nullable),
            (json!({"type": "number"}), number),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), nullable),
            (json!({"oneOf": [{"const": "a"}, {"enum": ["b", null]}]}), nullable),
            (json!({"enum": ["a", 1, 1.5]}), Types::STRING | number),
            (json!({"const": 5}), Types::INTEGER),
            (json!({"const": null}), Types::NULL),
            (json!({"type": ["string", "integer"], "enum": [1, 2]}), Types::INTEGER),
            (json!({"allOf": [{"type": ["string", "null"]}, {"minLength": 2}]}), Types::STRING),
            (json!({"type": "string", "nullable": true}), nullable),
            (json!({"format": "date"}), Types::STRING),
            (json!({"properties": {}}), Types::OBJECT),
            (json!({"items": {}}), Types::ARRAY),
            (json!({"minimum": 1}), number),
            (json!({"description": "any"}), Types::ALL),
            (json!({}), Types::ALL),
            (json!(true), Types::ALL),
            (json!({"$ref": "elsewhere"}), Types::ALL),
            (json!({"$ref": "#"}), Types::ALL),
            (
                json!({"$ref": "#/$defs/a", "$defs": {
                    "a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}]},
                    "b": {"allOf": [{"$ref": "#/$defs/c"}]}, "c": {"enum": ["x"]}}}),
                nullable,
            ),
            // one that refers to itself is what else it says
            (
                json!({"$ref": "#/$defs/a", "$defs": {
                    "a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "string"}]}}}),
                Types::STRING,
            ),
            (
                json!({"$ref": "#/$defs/a", "$defs": {
                    "a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "boolean"}]}}}),
                Types::BOOLEAN,
            ),
        ] {
            assert_eq!(types(&schema), expected, "{schema}");
        }
    }

    /// References that double with each level are read once.
    #[test]
    fn schemas_are_read_within_bounds() {
        let mut definitions = Map::new();
        for i in 0..200 {
            let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
            definitions.insert(format!("d{i}"), json!({"anyOf": [next, next], "allOf": [next]}));
        }
        definitions.insert("d200".into(), json!({"type": "string"}));
        let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
        let begun = std::time::Instant::now();
        let own = Schema::new(&schema, &schema);
        let _ = (own.types(), own.values(), own.strings());
        assert!(begun.elapsed().as_secs() < 2);
        let wide = json!({"anyOf": vec![json!({"type": "string"}); 50_000]});
        assert!(types(&wide).has(Types::STRING));
    }

    #[test]
    fn strings_of_schemas() {
        let strings = |schema: &Value| Schema::new(schema, schema).strings();
        let schema = json!({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/s"}],
            "$defs": {"s": {"type": "string", "maxLength": 5, "title": "S"}}});
        assert_eq!(strings(&schema), [json!({"type": "string", "maxLength": 5})]);
        let schema = json!({"maxLength": 9, "allOf": [{"type": "string", "maxLength": 5}]});
        assert_eq!(strings(&schema), [json!({"type": "string", "maxLength": 5})]);
        let schema = json!({"anyOf": [{"type": "string", "maxLength": 5}, {"type": "string"}]});
        assert_eq!(strings(&schema), [json!({"type": "string"})]);
        assert!(strings(&json!({"type": "integer"})).is_empty());
    }

    #[test]
    fn schemas_of_parameters() {
        let root = json!({"$ref": "#/$defs/All", "$defs": {
            "All": {"allOf": [{"properties": {"a": {"type": "string"}}}, {"$ref": "#/$defs/More"}]},
            "More": {"properties": {"b": {"type": "null"}}, "additionalProperties": {"type": "number"}},
        }});
        let types = |name| Schema::of_parameter(&root, name).map(Schema::types);
        assert_eq!(types("a"), Some(Types::STRING));
        assert_eq!(types("b"), Some(Types::NULL));
        assert_eq!(types("c"), Some(Types::INTEGER | Types::FRACTION));
        assert!(Schema::of_parameter(&json!({}), "a").is_none());
    }
}
