//! The size of a schema: what it expands to, and how deep the compiler recurses in it.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::keywords::{NAMED, NESTED, multiple, target};
use crate::{Error, size};

/// Limit of parts of a schema: schemas within it, weighted by what their keywords take.
pub(crate) const PARTS_MAX: usize = 20_000;
/// Limit of schemas on a path through a schema and its references.
const PATH_MAX: usize = 4000;
/// Limit of properties of one object.
const PROPERTIES_MAX: usize = 2000;
/// Limit of bytes of a constant, or of the name of a property.
const TEXT_MAX: usize = 16 << 10;

/// Facts about a schema.
#[derive(Clone, Copy, Debug, Default)]
struct Measure {
    /// Schemas on the longest path that begins here.
    path: usize,
    /// Its parts with those of the schemas within it, without those that it refers to.
    parts: usize,
    /// The parts of what is merged with others where it is in `allOf`, or beside a reference.
    merged: usize,
    /// Patterns that a string has to match at once.
    patterns: usize,
    /// The alternatives that it becomes where it is merged with others: a merge of alternatives has
    /// one for each combination.
    alternatives: usize,
}

/// How a schema applies with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// To a part of the value, or instead of it.
    Within,
    /// To the same value.
    Merged,
    /// By reference.
    Target,
}

/// The parts of a schema, if there are not too many.
pub(super) fn measure(root: &Value) -> Result<usize, Error> {
    // places by their addresses; those that are sought yet have no measure
    let mut known: HashMap<*const Value, Measure> = HashMap::new();
    let mut targets = vec![root];
    let mut left = vec![(root, false)];
    while let Some((schema, is_begun)) = left.pop() {
        let place = std::ptr::from_ref(schema);
        if !is_begun && known.contains_key(&place) {
            // it was looked at, or refers to itself
            continue;
        }
        let others = others(root, schema);
        if is_begun {
            let measure = combined(schema, &others, &known)?;
            size::check("schemas on one path of references", measure.path, PATH_MAX)?;
            known.insert(place, measure);
            continue;
        }
        known.insert(place, Measure::default());
        left.push((schema, true));
        for &(relation, other) in others.iter().rev() {
            left.push((other, false));
            if relation == Relation::Target {
                targets.push(other);
            }
        }
    }
    let mut counted = HashSet::new();
    let mut parts = 0usize;
    for target in targets.into_iter().map(std::ptr::from_ref) {
        if counted.insert(target) {
            parts = parts.saturating_add(known.get(&target).map_or(0, |measure| measure.parts));
        }
    }
    size::check("parts of schemas", parts, PARTS_MAX)?;
    Ok(parts)
}

/// The measure of a schema from those of others.
fn combined(
    schema: &Value,
    others: &[(Relation, &Value)],
    known: &HashMap<*const Value, Measure>,
) -> Result<Measure, Error> {
    let Value::Object(map) = schema else {
        return Ok(Measure { path: 1, parts: 1, merged: 1, patterns: 0, alternatives: 1 });
    };
    // nothing is merged with what stands alone
    let restricting = map.keys().filter(|key| is_structural(key)).count();
    let is_alias = match map.contains_key("$ref") {
        true => restricting == 0,
        false => restricting == 1 && map.get("allOf").is_some_and(|all| all.get(1).is_none()),
    };
    let mut all = Measure { parts: weight(map)?, alternatives: 1, ..Measure::default() };
    // the parts of one merged alternative
    let mut combination = 0usize;
    all.patterns = ["pattern", "format"].into_iter().filter(|key| map.contains_key(*key)).count();
    for (relation, other) in others {
        let other = known.get(&std::ptr::from_ref(*other)).copied().unwrap_or_default();
        all.path = all.path.max(other.path);
        match relation {
            Relation::Within => all.parts = all.parts.saturating_add(other.parts),
            Relation::Target if is_alias => all.merged = other.merged,
            Relation::Merged if is_alias => {
                all.parts = all.parts.saturating_add(other.parts);
                all.merged = other.merged;
            }
            Relation::Merged | Relation::Target => {
                all.parts = all.parts.saturating_add(other.merged);
            }
        }
        if *relation != Relation::Within {
            all.patterns = all.patterns.saturating_add(other.patterns);
            let alternatives = other.alternatives.max(1);
            all.alternatives = all.alternatives.saturating_mul(alternatives);
            combination = combination.saturating_add(1 + other.parts / alternatives);
        }
    }
    all.path += 1;
    // each alternative is merged with what is beside it, and with each of other lists
    let measure = |schema: &Value| known.get(&std::ptr::from_ref(schema)).copied();
    let lists = ["anyOf", "oneOf"].into_iter().filter_map(|key| map.get(key)?.as_array());
    let (mut options, mut inner) = (0usize, 0usize);
    for list in lists {
        let all_of_list: Vec<Measure> =
            list.iter().map(|option| measure(option).unwrap_or_default()).collect();
        let sum = |value: fn(&Measure) -> usize| {
            all_of_list.iter().fold(0usize, |sum, measure| sum.saturating_add(value(measure)))
        };
        let alternatives = sum(|measure| measure.alternatives.max(1)).max(1);
        all.alternatives = all.alternatives.saturating_mul(alternatives);
        combination = combination.saturating_add(1 + sum(|measure| measure.parts) / alternatives);
        options += list.len();
        inner = inner.saturating_add(sum(|measure| measure.parts));
    }
    if restricting > 1 || map.contains_key("$ref") {
        let beside = all.parts.saturating_sub(inner);
        all.parts = all.parts.saturating_add(beside.saturating_mul(options));
    }
    // a single list with nothing beside it is merged with nothing
    let merges = restricting > 1 || map.contains_key("$ref") || map.contains_key("allOf");
    if merges && !is_alias && all.alternatives > options {
        all.parts = all.parts.saturating_add(all.alternatives.saturating_mul(combination));
    }
    if all.patterns > 2 {
        let squared = all.patterns.saturating_mul(all.patterns);
        all.parts = all.parts.saturating_add(squared.saturating_mul(100));
    }
    all.merged = all.merged.saturating_add(all.parts);
    Ok(all)
}

/// Whether a keyword restricts values.
pub(super) fn is_structural(keyword: &str) -> bool {
    const ANNOTATIONS: [&str; 15] = [
        "$comment",
        "$defs",
        "$id",
        "$ref",
        "$schema",
        "default",
        "definitions",
        "deprecated",
        "description",
        "discriminator",
        "example",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    ];
    !ANNOTATIONS.contains(&keyword)
}

/// The schemas that apply with a schema.
fn others<'a>(root: &'a Value, schema: &'a Value) -> Vec<(Relation, &'a Value)> {
    let mut others = Vec::new();
    let Value::Object(map) = schema else { return others };
    for (keyword, value) in map {
        let name = keyword.as_str();
        let relation = if name == "allOf" { Relation::Merged } else { Relation::Within };
        match value {
            Value::Array(all) if NESTED.contains(&name) => {
                others.extend(all.iter().map(|schema| (relation, schema)));
            }
            one if NESTED.contains(&name) => others.push((relation, one)),
            Value::Object(all) if NAMED.contains(&name) => {
                others.extend(all.values().map(|schema| (relation, schema)));
            }
            Value::String(reference) if name == "$ref" => {
                others.extend(target(root, reference).map(|schema| (Relation::Target, schema)));
            }
            _ => {}
        }
    }
    others
}

/// The parts of a schema without those within it.
fn weight(map: &Map<String, Value>) -> Result<usize, Error> {
    let list = |key: &str| map.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    let named = |key: &str| map.get(key).and_then(Value::as_object);
    let has = |key: &str| map.contains_key(key);
    let mut parts = 1usize;
    let mut add = |more: usize| parts = parts.saturating_add(more);

    // each type is a schema of its own, and all types where none is named
    let bounds = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
    let names_types = ["type", "enum", "const"].into_iter().any(has);
    let is_own =
        |key: &String| is_structural(key) && !["allOf", "anyOf", "oneOf"].contains(&key.as_str());
    add(if !names_types && map.keys().any(is_own) { 6 } else { list("type") });
    add(8 * bounds.into_iter().filter(|key| has(key)).count());
    add(if has("format") { 15 } else { 0 });
    // one that is too large is refused by its name
    let factor = map.get("multipleOf").and_then(multiple);
    add(factor.map_or(0, |(factor, _)| factor as usize) / 25);
    // a float may have hundreds of digits
    let floats = bounds.into_iter().filter(|key| map.get(*key).is_some_and(Value::is_f64));
    add(8 * floats.count());
    // an open object has an expression for the names that it does not list
    add(if has("properties") && map.get("additionalProperties") != Some(&Value::Bool(false)) {
        2
    } else {
        0
    });
    if let Some(Value::String(pattern)) = map.get("pattern") {
        add(pattern_parts(pattern)?);
    }
    for (key, value) in map {
        match (key.as_str(), value) {
            ("enum", Value::Array(all)) => {
                for value in all {
                    add(constant(value)?);
                }
            }
            ("const", value) => add(constant(value)?),
            _ => {}
        }
    }

    // an object is a row of its properties, and of what is required besides
    let properties = named("properties").map_or(0, Map::len);
    let required = map.get("required").and_then(Value::as_array);
    let unlisted = required.into_iter().flatten().filter(|name| {
        let known = named("properties").zip(name.as_str());
        !known.is_some_and(|(all, name)| all.contains_key(name))
    });
    let unlisted = unlisted.count();
    size::check("properties of one object", properties + unlisted, PROPERTIES_MAX)?;
    for name in named("properties").into_iter().flat_map(Map::keys) {
        size::check("bytes in the name of a property", name.len(), TEXT_MAX)?;
    }
    add(unlisted);
    if let Some(names) = map.get("propertyNames").and_then(|names| names.get("enum")?.as_array()) {
        size::check("properties of one object", names.len(), PROPERTIES_MAX)?;
        add(names.len().saturating_mul(4));
    }
    // one row for each property that may be the only one
    if has("minProperties") || has("maxProperties") {
        add(properties.saturating_mul(properties));
    }
    // each pair of patterns is compared, and each pattern with each name
    if let Some(patterns) = named("patternProperties") {
        let mut inner = 0usize;
        for pattern in patterns.keys() {
            inner = inner.saturating_add(1 + pattern_parts(pattern)?);
        }
        add(inner.saturating_mul(patterns.len()) / 2);
        add(patterns.len().saturating_mul(properties) / 8);
    }
    // so is each pair of alternatives that exclude each other
    add(list("oneOf").saturating_mul(list("oneOf")) / 200);
    Ok(parts)
}

fn pattern_parts(pattern: &str) -> Result<usize, Error> {
    let size = size::Size::of(pattern, false);
    size.check()?;
    Ok(size.parts + size.bytes / 64)
}

/// The parts of a constant.
fn constant(value: &Value) -> Result<usize, Error> {
    let (mut left, mut parts, mut bytes) = (vec![value], 0usize, 0usize);
    while let Some(value) = left.pop() {
        match value {
            Value::Array(all) => {
                parts += 1 + all.len();
                left.extend(all);
            }
            Value::Object(map) => {
                parts += 1 + map.len();
                bytes += map.keys().map(String::len).sum::<usize>();
                left.extend(map.values());
            }
            Value::String(text) => {
                size::check("bytes in a constant", text.len(), TEXT_MAX)?;
                bytes += text.len();
            }
            Value::Number(number) if number.to_string().contains('e') => bytes += 400,
            Value::Number(_) => bytes += 20,
            _ => bytes += 8,
        }
    }
    Ok(parts + bytes / 64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chain(count: usize, link: impl Fn(Value) -> Value) -> Value {
        let mut all = Map::new();
        for i in 0..count {
            let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
            all.insert(format!("d{i}"), link(next));
        }
        all.insert(format!("d{count}"), json!({ "type": "null" }));
        json!({ "$ref": "#/$defs/d0", "$defs": all })
    }

    #[test]
    fn paths_of_references_are_bounded() {
        let property = |next| json!({ "type": "object", "properties": { "a": next } });
        assert!(measure(&chain(1000, property)).is_ok());
        let refused = measure(&chain(2100, property)).unwrap_err().to_string();
        assert!(refused.contains("schemas on one path of references"), "{refused}");
        for keyword in ["allOf", "anyOf", "oneOf", "prefixItems"] {
            assert!(measure(&chain(2100, |next| json!({ keyword: [next] }))).is_err());
        }
        assert!(measure(&chain(4100, |next| next)).is_err());
        // each reference that is merged is a copy, and copies of copies multiply
        let large = json!({ "type": "object", "properties": { "a": { "enum": (0..900).map(|i| json!([i])).collect::<Vec<_>>() } } });
        let copies = |count: usize| {
            let copy = json!({ "allOf": [{ "$ref": "#/$defs/a" }, { "type": "object" }] });
            let all: Map<String, Value> =
                (0..count).map(|i| (format!("p{i}"), copy.clone())).collect();
            json!({ "type": "object", "properties": all, "$defs": { "a": large } })
        };
        assert!(measure(&copies(5)).is_ok());
        assert!(measure(&copies(50)).is_err());
        let mut doubling = Map::new();
        for i in 0..60 {
            let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
            doubling.insert(format!("d{i}"), json!({ "allOf": [next, next] }));
        }
        doubling.insert("d60".to_owned(), json!({ "type": "null" }));
        assert!(measure(&json!({ "$ref": "#/$defs/d0", "$defs": doubling })).is_err());
        // each combination of alternatives is an alternative
        let choices = |count: usize| -> Value {
            let name =
                |i: usize| json!({ "type": "object", "properties": { format!("p{i}"): {} } });
            (0..count).map(|i| json!({ "anyOf": [name(i), name(i + 100)] })).collect()
        };
        assert!(measure(&json!({ "allOf": choices(6) })).is_ok());
        assert!(measure(&json!({ "allOf": choices(12) })).is_err());
        let named = json!({ "$defs": { "a": { "allOf": choices(6) } },
            "allOf": [{ "$ref": "#/$defs/a" }, { "anyOf": choices(6) }, { "allOf": choices(6) }] });
        assert!(measure(&named).is_err());
        let patterns: Vec<Value> =
            (0..20).map(|i| json!({ "pattern": format!("a.{{{i}}}b") })).collect();
        assert!(measure(&json!({ "allOf": patterns })).is_err());
        // many definitions beside each other, which refer to each other
        let all: Map<String, Value> = (0..1500)
            .map(|i| {
                let other = format!("#/$defs/d{}", i * 7 % 1500);
                (format!("d{i}"), json!({"type": "object", "properties": {"a": {"$ref": other}}}))
            })
            .collect();
        let any: Vec<Value> = all.keys().map(|k| json!({"$ref": format!("#/$defs/{k}")})).collect();
        assert!(measure(&json!({ "anyOf": any, "$defs": all })).is_ok());
    }

    #[test]
    fn what_multiplies_is_bounded() {
        let object = |key: &str, count: usize, text: &dyn Fn(usize) -> String| {
            let all: Map<String, Value> =
                (0..count).map(|i| (text(i), json!({"type": "null"}))).collect();
            json!({ "type": "object", key: all })
        };
        let name = |i: usize| format!("p{i}");
        assert!(measure(&object("properties", 2000, &name)).is_ok());
        assert!(measure(&object("properties", 2001, &name)).is_err());
        let pattern = |i: usize| format!("^p{i}$");
        assert!(measure(&object("patternProperties", 100, &pattern)).is_ok());
        assert!(measure(&object("patternProperties", 200, &pattern)).is_err());
        let mut counted = object("properties", 200, &name);
        counted["minProperties"] = 1.into();
        assert!(measure(&counted).is_err());
        assert!(measure(&json!({ "enum": (0..20_000).collect::<Vec<_>>() })).is_ok());
        assert!(measure(&json!({ "const": "x".repeat(1 << 17) })).is_err());
        assert!(measure(&json!({ "pattern": "a?".repeat(1500) })).is_err());
    }
}
