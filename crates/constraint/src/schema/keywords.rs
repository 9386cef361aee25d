//! Keywords that the compiler cannot take as they are: what is refused, left out, or put otherwise.

use serde_json::{Map, Value, json};

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
pub(super) const OPTIONS: &str = "x-guidance";
/// Bounds of numbers from which on they say nothing: programs write their greatest number there.
const UNBOUNDED: f64 = 1e30;
/// Limit of the digits of a multiple as a whole number: the compiler's arithmetic has 32 bits.
const MULTIPLE_MAX: f64 = 1e5;

/// Limit of bytes of the schemas of names that are listed.
const COPIED_MAX: usize = 64 << 10;

/// Keywords of any draft that cannot be enforced.
pub(super) const UNSUPPORTED: [&str; 21] = [
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "contains",
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
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    OPTIONS,
];

/// Keywords whose value is a schema, or an array of schemas.
pub(super) const NESTED: [&str; 7] =
    ["additionalItems", "additionalProperties", "allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas that apply.
pub(super) const NAMED: [&str; 2] = ["patternProperties", "properties"];
/// Keywords whose value is an object of schemas that others refer to.
pub(super) const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// A change of a schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Edit {
    /// A keyword is left out.
    Remove(&'static str),
    /// A keyword gets this value.
    Set(&'static str, Value),
    /// Another schema has to allow the value too.
    And(Value),
}

/// How a keyword is put for the compiler, or the reason why it is refused.
pub(super) type Change = Result<Vec<Edit>, &'static str>;

/// The changes that `format` needs. Formats that are not known are annotations.
pub(super) fn format(format: &str) -> Vec<Edit> {
    let addition = match format {
        "date" => json!({ "pattern": format!("^{DATE}$") }),
        "time" => json!({ "pattern": format!("^{TIME}") }),
        "date-time" => json!({ "pattern": format!("^{DATE}[tT]{TIME}") }),
        "hostname" => {
            json!({ "pattern": format!("^{LABEL}(?:\\.{LABEL})*$"), "maxLength": 253 })
        }
        "duration" | "email" | "ipv4" | "ipv6" | "uri" | "uuid" => return Vec::new(),
        "uuid1" | "uuid3" | "uuid4" | "uuid5" | "uuid6" | "uuid7" | "uuid8" => {
            let version = &format[4..];
            let pattern = json!({ "pattern": format!("^[0-9a-fA-F-]{{14}}{version}") });
            return vec![Edit::Set("format", "uuid".into()), Edit::And(pattern)];
        }
        _ => return vec![Edit::Remove("format")],
    };
    vec![Edit::And(addition)]
}

/// The changes that a bound of a number needs.
pub(super) fn bound(keyword: &'static str, value: &Value) -> Vec<Edit> {
    match value.as_f64().is_some_and(|bound| bound.abs() >= UNBOUNDED) {
        true => vec![Edit::Remove(keyword)],
        false => Vec::new(),
    }
}

/// The digits of `multipleOf` as a whole number; the greatest one for those that have too many.
pub(super) fn multiple(value: &Value) -> usize {
    let Some(mut value) = value.as_f64() else { return 0 };
    let mut digits = 0;
    while value.fract() != 0.0 && digits < 7 {
        value *= 10.0;
        digits += 1;
    }
    if digits < 7 && value <= MULTIPLE_MAX { value as usize } else { usize::MAX }
}

/// The changes that `propertyNames` needs: names are listed as properties, or become a pattern.
pub(super) fn names(map: &Map<String, Value>, names: &Value) -> Change {
    const LEFT_OUT: [&str; 5] = ["$id", "$schema", "description", "title", "type"];
    let rest = || map.get("additionalProperties").cloned().unwrap_or(Value::Bool(true));
    let names = match names {
        Value::Bool(true) => return Ok(vec![Edit::Remove("propertyNames")]),
        Value::Object(names) => names,
        _ => return Err(": its value is no schema"),
    };
    if names.get("type").is_some_and(|kind| kind != "string") {
        return Err(" with names that are no strings");
    }
    let mut left = names.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()));
    let edits = match (left.next(), left.next()) {
        (None, _) => vec![Edit::Remove("propertyNames")],
        _ if map.contains_key("properties") || map.contains_key("patternProperties") => {
            return Err(" next to properties");
        }
        (Some((key, Value::Array(all))), None) if key == "enum" => {
            if rest().to_string().len().saturating_mul(all.len()) > COPIED_MAX {
                return Err(" with so many names of so large a schema");
            }
            let all = all.iter().filter_map(Value::as_str);
            let all: Map<String, Value> = all.map(|name| (name.to_owned(), rest())).collect();
            vec![
                Edit::Remove("propertyNames"),
                Edit::Set("properties", Value::Object(all)),
                Edit::Set("additionalProperties", Value::Bool(false)),
            ]
        }
        (Some((key, Value::String(name))), None) if key == "const" => vec![
            Edit::Remove("propertyNames"),
            Edit::Set("properties", json!({ name: rest() })),
            Edit::Set("additionalProperties", Value::Bool(false)),
        ],
        (Some((key, Value::String(pattern))), None) if key == "pattern" => vec![
            Edit::Remove("propertyNames"),
            Edit::Set("patternProperties", json!({ pattern: rest() })),
            Edit::Set("additionalProperties", Value::Bool(false)),
        ],
        _ => return Err(" with other keywords than one of 'enum', 'const' and 'pattern'"),
    };
    Ok(edits)
}

/// The place that a reference names within a schema.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Whether the compiler knows the draft that a schema names; all others are read as 2020-12.
pub(super) fn is_draft(uri: &str) -> bool {
    let uri = uri.trim_end_matches('#');
    let path = uri.strip_prefix("http://").or_else(|| uri.strip_prefix("https://"));
    path.is_some_and(|path| {
        [
            "json-schema.org/draft-04/schema",
            "json-schema.org/draft-06/schema",
            "json-schema.org/draft-07/schema",
            "json-schema.org/draft/2019-09/schema",
            "json-schema.org/draft/2020-12/schema",
        ]
        .contains(&path)
    })
}
