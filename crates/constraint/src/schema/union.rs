//! `oneOf` of schemas that exclude each other, as `anyOf`.
//!
//! The compiler does not look behind references, so it takes no union of models for disjoint.
//! Objects exclude each other by a *tag*, a property with other constants in each, where all of
//! them but one require it. Where more do not, as Pydantic writes a tag with a default, an object
//! without the tag may fit several. Then the tag is required: programs that read such a union
//! cannot do without it.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{decimal::Decimal, keywords::target, size::is_structural};

/// Limit of the levels that a comparison looks into.
const DEPTH_MAX: usize = 16;
/// Limit of the schemas of a union that are compared in pairs.
const PAIRS_MAX: usize = 300;

/// A schema of a union.
struct Leaf<'a> {
    /// Its place as a JSON pointer.
    place: String,
    schema: &'a Map<String, Value>,
    is_reference: bool,
    /// The schema of the outermost union that it belongs to.
    group: usize,
}

/// A `oneOf` that is an `anyOf`.
pub(super) struct Union {
    /// The places of its schemas, and whether they are behind references.
    leaves: Vec<(String, bool)>,
    /// The property that its objects require.
    tag: Option<String>,
}

/// Copies of definitions that require a tag, by place and tag, with their names.
pub(super) type Copies = HashMap<(String, String), String>;

impl Union {
    /// The union at a place, if its schemas are known to exclude each other.
    pub(super) fn of(root: &Value, path: &str, map: &Map<String, Value>) -> Option<Self> {
        let all = map.get("oneOf")?.as_array()?;
        if map.contains_key("anyOf") {
            return None;
        }
        let mut leaves = Vec::new();
        for (group, schema) in all.iter().enumerate() {
            collect(root, format!("{path}/oneOf/{group}"), schema, group, &mut leaves)?;
        }
        let named = map.get("discriminator").and_then(|value| value.get("propertyName")?.as_str());
        let first = leaves.iter().find_map(|leaf| leaf.schema.get("properties")?.as_object());
        let names =
            named.into_iter().chain(first.into_iter().flatten().map(|(name, _)| name.as_str()));
        let tag = names.into_iter().find(|tag| is_tag(root, &leaves, tag));
        if tag.is_none() && !(leaves.len() <= PAIRS_MAX && are_disjoint(root, &leaves)) {
            return None;
        }
        let tag = tag.filter(|tag| {
            let misses = |leaf: &&Leaf<'_>| is_object(leaf.schema) && !requires(leaf.schema, tag);
            let mut groups: Vec<usize> =
                leaves.iter().filter(misses).map(|leaf| leaf.group).collect();
            groups.dedup();
            groups.len() > 1
        });
        Some(Self {
            tag: tag.map(str::to_owned),
            leaves: leaves.into_iter().map(|leaf| (leaf.place, leaf.is_reference)).collect(),
        })
    }

    /// Puts the union at a place. Copies that it needs get names after a prefix. A schema that has
    /// changed so that the union is not there any more stays as it is.
    pub(super) fn put(self, root: &mut Value, path: &str, copies: &mut Copies, prefix: &str) {
        let mut options = Vec::new();
        for (place, is_reference) in self.leaves {
            let Some(schema) = root.pointer(&place) else { return };
            let tag = self.tag.as_deref().filter(|_| schema.as_object().is_some_and(is_object));
            options.push(match (tag, is_reference) {
                (None, true) => json!({ "$ref": format!("#{place}") }),
                (None, false) => schema.clone(),
                (Some(tag), false) => with_required(schema.clone(), tag),
                (Some(tag), true) => {
                    let next = format!("{prefix}u{}", copies.len());
                    let name = copies.entry((place, tag.to_owned())).or_insert(next);
                    json!({ "$ref": format!("#/$defs/{name}") })
                }
            });
        }
        if let Some(Value::Object(map)) = root.pointer_mut(path)
            && map.shift_remove("oneOf").is_some()
        {
            map.shift_remove("discriminator");
            map.insert("anyOf".to_owned(), options.into());
        }
    }
}

/// The copies that unions refer to.
pub(super) fn definitions(root: &Value, copies: Copies) -> Map<String, Value> {
    let copy = |((place, tag), name): ((String, String), String)| {
        Some((name, with_required(root.pointer(&place)?.clone(), &tag)))
    };
    copies.into_iter().filter_map(copy).collect()
}

fn with_required(mut schema: Value, tag: &str) -> Value {
    if let Value::Object(map) = &mut schema
        && !requires(map, tag)
        && let Value::Array(all) = map.entry("required").or_insert_with(|| json!([]))
    {
        all.push(tag.into());
    }
    schema
}

/// Adds the schemas of an alternative: those of a union within it, behind its references.
fn collect<'a>(
    root: &'a Value,
    mut place: String,
    schema: &'a Value,
    group: usize,
    leaves: &mut Vec<Leaf<'a>>,
) -> Option<()> {
    let mut left = vec![(place.clone(), schema, false, 0)];
    while let Some((at, schema, mut is_reference, depth)) = left.pop() {
        if depth > DEPTH_MAX {
            return None;
        }
        place = at;
        let map = schema.as_object()?;
        let mut only = map.keys().filter(|key| is_structural(key) || *key == "$ref");
        let (first, second) = (only.next().map(String::as_str), only.next());
        match (first, second) {
            (Some("$ref"), None) => {
                let reference = map.get("$ref")?.as_str()?;
                let pointer = reference.strip_prefix('#')?.to_owned();
                is_reference = true;
                left.push((pointer, target(root, reference)?, is_reference, depth + 1));
            }
            (Some(key @ ("anyOf" | "oneOf")), None) => {
                let all = map.get(key)?.as_array()?;
                left.extend(all.iter().enumerate().rev().map(|(i, schema)| {
                    (format!("{place}/{key}/{i}"), schema, is_reference, depth + 1)
                }));
            }
            _ => leaves.push(Leaf { place: place.clone(), schema: map, is_reference, group }),
        }
    }
    Some(())
}

fn is_object(map: &Map<String, Value>) -> bool {
    map.get("type").is_some_and(|kind| kind == "object")
}

fn requires(map: &Map<String, Value>, name: &str) -> bool {
    let required = map.get("required").and_then(Value::as_array);
    required.is_some_and(|all| all.iter().any(|other| other == name))
}

/// Whether a property has other constants in the objects of each group, and all else is no object.
fn is_tag(root: &Value, leaves: &[Leaf<'_>], tag: &str) -> bool {
    let mut groups: HashMap<String, usize> = HashMap::new();
    let is_known = leaves.iter().filter(|leaf| is_object(leaf.schema)).all(|leaf| {
        let property = leaf.schema.get("properties").and_then(|all| all.get(tag));
        let values = property.and_then(|schema| constants(root, schema, 0));
        values.is_some_and(|values| {
            values.iter().all(|value| *groups.entry(key(value)).or_insert(leaf.group) == leaf.group)
        })
    });
    let others: Vec<&Leaf<'_>> = leaves.iter().filter(|leaf| !is_object(leaf.schema)).collect();
    is_known
        && others.len() <= PAIRS_MAX
        && others.len() < leaves.len()
        && others.iter().all(|leaf| !types(leaf.schema).contains(&"object"))
        && pairs(&others, |a, b| exclude(root, a, b, 0))
}

fn are_disjoint(root: &Value, leaves: &[Leaf<'_>]) -> bool {
    let all: Vec<&Leaf<'_>> = leaves.iter().collect();
    pairs(&all, |a, b| exclude(root, a, b, 0))
}

/// Whether something holds for the schemas of each pair of different groups.
fn pairs(
    all: &[&Leaf<'_>],
    holds: impl Fn(&Map<String, Value>, &Map<String, Value>) -> bool,
) -> bool {
    all.iter()
        .enumerate()
        .all(|(i, a)| all[i + 1..].iter().all(|b| a.group == b.group || holds(a.schema, b.schema)))
}

/// Whether no value fits both schemas, as far as it is known.
fn exclude(root: &Value, a: &Map<String, Value>, b: &Map<String, Value>, depth: usize) -> bool {
    let (kinds, others) = (types(a), types(b));
    if !kinds.iter().any(|kind| others.contains(kind)) {
        return true;
    }
    if depth > DEPTH_MAX {
        return false;
    }
    let constants = |map: &Map<String, Value>| {
        let value = |key: &str| map.get(key).cloned();
        value("const").map(|one| vec![one]).or_else(|| value("enum")?.as_array().cloned())
    };
    match (constants(a), constants(b)) {
        (Some(a), Some(b)) => return !a.iter().any(|a| b.iter().any(|b| key(a) == key(b))),
        (Some(all), None) => return !all.iter().any(|value| others.contains(&kind(value))),
        (None, Some(all)) => return !all.iter().any(|value| kinds.contains(&kind(value))),
        (None, None) => {}
    }
    // behind references only within objects
    if kinds != ["object"] || others != ["object"] {
        return false;
    }
    let property = |map: &'_ Map<String, Value>, name: &str| {
        let schema = map.get("properties")?.get(name)?;
        resolved(root, schema).cloned()
    };
    let closed = |map: &Map<String, Value>| {
        map.get("additionalProperties") == Some(&Value::Bool(false))
            && !map.contains_key("patternProperties")
    };
    let required = [a, b].into_iter().filter_map(|map| map.get("required")?.as_array());
    required.flatten().filter_map(Value::as_str).any(|name| {
        match (property(a, name), property(b, name)) {
            (Some(a), Some(b)) => exclude(root, &a, &b, depth + 1),
            (Some(_), None) => requires(a, name) && closed(b),
            (None, Some(_)) => requires(b, name) && closed(a),
            (None, None) => false,
        }
    })
}

/// The schema behind references that stand alone.
fn resolved<'a>(root: &'a Value, mut schema: &'a Value) -> Option<&'a Map<String, Value>> {
    for _ in 0..DEPTH_MAX {
        let map = schema.as_object()?;
        let mut only = map.keys().filter(|key| is_structural(key) || *key == "$ref");
        match (only.next().map(String::as_str), only.next()) {
            (Some("$ref"), None) => schema = target(root, map.get("$ref")?.as_str()?)?,
            (Some("allOf"), None) => match map.get("allOf")?.as_array()?.as_slice() {
                [one] => schema = one,
                _ => return Some(map),
            },
            _ => return Some(map),
        }
    }
    None
}

/// The constants that are a schema's only values.
fn constants(root: &Value, schema: &Value, depth: usize) -> Option<Vec<Value>> {
    let map = resolved(root, schema)?;
    if let Some(one) = map.get("const") {
        return Some(vec![one.clone()]);
    }
    if let Some(all) = map.get("enum") {
        return all.as_array().cloned();
    }
    let all = ["anyOf", "oneOf"].into_iter().find_map(|key| map.get(key)?.as_array())?;
    if depth > DEPTH_MAX {
        return None;
    }
    let all: Option<Vec<_>> = all.iter().map(|schema| constants(root, schema, depth + 1)).collect();
    Some(all?.concat())
}

/// A text that is the same for equal values.
fn key(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("{:?}", Decimal::of(number)),
        value => value.to_string(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The types of a schema's values, integers as numbers; all of them where it does not say.
fn types(map: &Map<String, Value>) -> Vec<&'static str> {
    const ALL: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];
    let known = |name: &str| match name {
        "integer" => Some("number"),
        name => ALL.into_iter().find(|known| *known == name),
    };
    let named: Option<Vec<_>> = match map.get("type") {
        Some(Value::String(name)) => known(name).map(|name| vec![name]),
        Some(Value::Array(all)) => all.iter().map(|name| known(name.as_str()?)).collect(),
        _ => match (map.get("const"), map.get("enum")) {
            (Some(one), _) => Some(vec![kind(one)]),
            (None, Some(Value::Array(all))) => Some(all.iter().map(kind).collect()),
            _ => None,
        },
    };
    named.unwrap_or_else(|| ALL.to_vec())
}
