//! Keywords that the compiler cannot take as they are: what is refused, left out, or put otherwise.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::decimal::Decimal;

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
/// Limit of the digits of a multiple as a whole number: a lexer has as many states.
const MULTIPLE_MAX: u32 = 100_000;
/// Limit of the digits of a multiple behind the point.
const MULTIPLE_FRACTION: u32 = 7;
/// Limit of a count of characters, items or properties that means something: no text has as many.
const COUNT_MAX: u64 = 1 << 30;

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

/// Keywords whose value is a count.
pub(super) const COUNTS: [&str; 6] =
    ["maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"];
/// Words beside references and alternatives that programs write, and that restrict nothing.
pub(super) const ANNOTATIONS: [&str; 8] = [
    "discriminator",
    "example",
    "externalDocs",
    "markdownDescription",
    "nullable",
    "order",
    "xml",
    "x-order",
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
    /// A word that no draft knows is left out.
    Drop(String),
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

/// The changes that a count needs: one of a fraction of zeros is an integer, and one that no text
/// reaches is no bound.
pub(super) fn count(keyword: &'static str, value: &Value) -> Change {
    let number = match value {
        Value::Number(number) => number,
        _ => return Err(": its value is no number"),
    };
    let is_least = keyword.starts_with("min");
    let count =
        match number.as_u64() {
            Some(count) => count,
            None => {
                match number.as_f64() {
                    Some(count) if count >= 0.0 && count.fract() == 0.0 => {
                        if count > COUNT_MAX as f64 { u64::MAX } else { count as u64 }
                    }
                    _ => return Err(": its value is no whole number, expected 0 or more"),
                }
            }
        };
    match count > COUNT_MAX {
        true if is_least => Err(" with a count that no text reaches"),
        true => Ok(vec![Edit::Remove(keyword)]),
        false if number.is_u64() => Ok(Vec::new()),
        false => Ok(vec![Edit::Set(keyword, count.into())]),
    }
}

/// The value of `multipleOf`: its digits as a whole number, and how many of them are behind the
/// point. `None` if there are too many, or if it is not above zero.
pub(super) fn multiple(value: &Value) -> Option<(u32, u32)> {
    let Value::Number(number) = value else { return None };
    let value = Decimal::of(number).filter(|value| !value.is_negative && !value.is_zero())?;
    let scaled = value.scaled()?;
    (scaled.0 <= MULTIPLE_MAX && scaled.1 <= MULTIPLE_FRACTION).then_some(scaled)
}

/// Whether the compiler finds other digits of a multiple, by multiplication of a float.
pub(super) fn is_rounded(value: &Value) -> bool {
    let Some(mut float) = value.as_f64() else { return false };
    let mut digits = 0;
    while float.fract() != 0.0 && digits <= MULTIPLE_FRACTION {
        float *= 10.0;
        digits += 1;
    }
    multiple(value) != Some((float as u32, digits))
}

/// Whether the compiler can merge schemas of these multiples: it multiplies them as numbers of 32
/// bits.
pub(super) fn can_merge(multiples: &BTreeSet<(u32, u32)>) -> bool {
    let digits = multiples.iter().map(|(_, digits)| *digits).max().unwrap_or(0);
    let scaled = |(factor, own): &(u32, u32)| {
        u64::from(*factor).saturating_mul(10u64.saturating_pow(digits - own))
    };
    let greatest = multiples.iter().map(scaled).max().unwrap_or(1);
    let product = multiples.iter().map(scaled).fold(greatest, u64::saturating_mul);
    product <= u64::from(u32::MAX)
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
