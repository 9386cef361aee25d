//! Numbers of a schema that the compiler would round.
//!
//! The compiler reads each number as a 64-bit float and writes bounds by arithmetic of 64-bit
//! integers. It rounds integers from 2^53 on, and its recursion does not end at the least 64-bit
//! integer. So a schema with such a number is put otherwise: its numbers become a reference, behind
//! which the lexer has an expression of this crate ([`Numbers`]). Other schemas that apply to the
//! same value cannot be merged with a reference of this kind. The compiler refuses those, and never
//! drops them in silence.

use serde_json::{Map, Number, Value, json};

use super::{
    decimal::Decimal,
    interval::{Bound, Interval},
    keywords::{is_rounded, multiple},
};
use crate::{Error, numbers::Numbers};

/// Numbers below this are floats without a loss.
const PLAIN_MAX: f64 = 9_007_199_254_740_992.0;
/// Digits behind the point that the compiler writes as they are.
const PLAIN_FRACTION: usize = 15;
/// Keywords of numbers alone.
pub(super) const NUMERIC: [&str; 5] =
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/// Keywords that restrict nothing, or hold schemas for others.
const KEPT: [&str; 13] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "definitions",
    "description",
    "examples",
    "id",
    "readOnly",
    "title",
    "writeOnly",
];
/// Keywords whose schemas apply to the same value.
const APPLICATORS: [&str; 4] = ["$ref", "allOf", "anyOf", "oneOf"];
/// The types of values.
const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

/// Whether the compiler takes a number as it is.
fn is_plain(number: &Number) -> bool {
    let is_small = number.as_f64().is_some_and(|value| value.abs() < PLAIN_MAX);
    is_small && Decimal::of(number).is_some_and(|value| value.fraction.len() <= PLAIN_FRACTION)
}

/// The first number within a value that is not plain.
fn odd(value: &Value) -> Option<&Number> {
    match value {
        Value::Number(number) => (!is_plain(number)).then_some(number),
        Value::Array(all) => all.iter().find_map(odd),
        Value::Object(map) => map.values().find_map(odd),
        _ => None,
    }
}

/// The keyword and the number because of which a schema is put otherwise.
pub(super) fn odd_keyword(map: &Map<String, Value>) -> Option<(&'static str, String)> {
    let odd_of = |key: &&'static str| {
        let value = map.get(*key)?;
        let found = match value {
            value if *key == "const" || *key == "enum" => odd(value)?,
            Value::Number(number) if !is_plain(number) => number,
            _ => return None,
        };
        Some((*key, found.to_string()))
    };
    let keys = NUMERIC.into_iter().chain(["const", "enum"]);
    keys.clone()
        .find_map(|key| odd_of(&key))
        .or_else(|| {
            // the compiler takes the bound itself where the other is less than one away
            let is_number = map.get("type").is_none_or(|kind| kind != "integer");
            let is_open =
                |key: &&str| map.get(*key).is_some_and(|value| *value != Value::Bool(false));
            let open = ["exclusiveMinimum", "exclusiveMaximum"].into_iter().find(is_open)?;
            let has_fraction = NUMERIC.iter().any(|key| map.get(*key).is_some_and(Value::is_f64));
            (is_number && has_fraction)
                .then(|| (open, map.get(open).map_or_else(String::new, Value::to_string)))
        })
        .or_else(|| {
            // the compiler looks for multiples between bounds in floats
            let multiple = map.get("multipleOf")?;
            let bounds = NUMERIC.iter().filter_map(|key| map.get(*key));
            let is_inexact = bounds.clone().count() > 1 && bounds.clone().any(Value::is_f64);
            let is_odd = is_inexact || is_rounded(multiple) || is_compared_in_floats(map, multiple);
            is_odd.then(|| ("multipleOf", multiple.to_string()))
        })
}

/// Whether the compiler would compare constants with multiples by quotients of floats, which has
/// errors. Beside other schemas it may.
fn is_compared_in_floats(map: &Map<String, Value>, multiple: &Value) -> bool {
    let listed = map.get("enum").and_then(Value::as_array).into_iter().flatten();
    let mut numbers = map.get("const").into_iter().chain(listed).filter(|value| value.is_number());
    numbers.any(|number| number.is_f64() || multiple.is_f64())
        && !APPLICATORS.iter().any(|key| map.contains_key(*key))
}

/// The negative zero is zero.
pub(super) fn without_negative_zero(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) && number.is_f64() => {
            *value = json!(0);
        }
        Value::Array(all) => all.iter_mut().for_each(without_negative_zero),
        Value::Object(map) => map.values_mut().for_each(without_negative_zero),
        _ => {}
    }
}

/// The interval that the keywords of a schema describe.
fn interval(map: &Map<String, Value>, is_integer: bool) -> Interval {
    let value = |key: &str| match map.get(key) {
        Some(Value::Number(number)) => Decimal::of(number),
        _ => None,
    };
    let bound = |key: &str, exclusive: &str| {
        // draft 4 has a boolean there
        let is_open = map.get(exclusive) == Some(&Value::Bool(true));
        let closed = value(key).map(|value| Bound { value, is_open });
        (closed, value(exclusive).map(|value| Bound { value, is_open: true }))
    };
    let tighter = |(a, b): (Option<Bound>, Option<Bound>), is_least: bool| match (a, b) {
        (Some(a), Some(b)) => {
            let is_b = if is_least { b.value >= a.value } else { b.value <= a.value };
            Some(if is_b { b } else { a })
        }
        (a, b) => a.or(b),
    };
    Interval {
        least: tighter(bound("minimum", "exclusiveMinimum"), true),
        most: tighter(bound("maximum", "exclusiveMaximum"), false),
        is_integer,
    }
}

/// The schema with its numbers behind references.
///
/// # Errors
///
/// If other schemas apply to the same value.
pub(super) fn replaced(
    map: Map<String, Value>,
    path: &str,
    numbers: &mut Numbers,
) -> Result<Map<String, Value>, Error> {
    let Some((keyword, number)) = odd_keyword(&map) else { return Ok(map) };
    if let Some(other) = APPLICATORS.into_iter().find(|key| map.contains_key(*key)) {
        let shown: String = number.chars().take(40).collect();
        return Err(Error::Schema(format!(
            "the number {shown} of '{keyword}' at #{path} is not exact beside '{other}', expected at \
             most 15 digits or a schema of its own"
        )));
    }
    let (kept, rest): (Map<_, _>, Map<_, _>) =
        map.into_iter().partition(|(key, _)| KEPT.contains(&key.as_str()));
    let options = match rest.contains_key("const") || rest.contains_key("enum") {
        true => constants(rest, numbers),
        false => bounds(rest, numbers),
    };
    let mut replaced = kept;
    match <[Value; 1]>::try_from(options) {
        Ok([Value::Object(option)]) => replaced.extend(option),
        Ok([_]) => {}
        Err(options) if options.is_empty() => drop(replaced.insert("enum".to_owned(), json!([]))),
        Err(options) => drop(replaced.insert("anyOf".to_owned(), options.into())),
    }
    Ok(replaced)
}

/// The names of a schema's types.
fn types(map: &Map<String, Value>) -> Vec<String> {
    match map.get("type") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => TYPES.map(str::to_owned).to_vec(),
    }
}

/// The alternatives of a schema with bounds: its numbers, and values of other types.
fn bounds(mut rest: Map<String, Value>, numbers: &mut Numbers) -> Vec<Value> {
    let types = types(&rest);
    let has = |name: &str| types.iter().any(|other| other == name);
    let mut options = Vec::new();
    if has("number") || has("integer") {
        let interval = interval(&rest, !has("number"));
        let factor = rest.get("multipleOf").and_then(multiple);
        options.extend(interval.regex().and_then(|regex| numbers.add(regex, factor)));
    }
    let others: Vec<String> =
        types.into_iter().filter(|name| name != "number" && name != "integer").collect();
    if !others.is_empty() {
        NUMERIC.into_iter().for_each(|key| drop(rest.shift_remove(key)));
        rest.insert("type".to_owned(), others.into());
        options.push(Value::Object(rest));
    }
    options
}

/// The alternatives of a schema with constants: those that its other keywords allow.
fn constants(mut rest: Map<String, Value>, numbers: &mut Numbers) -> Vec<Value> {
    let types = types(&rest);
    let has = |name: &str| types.iter().any(|other| other == name);
    let interval = interval(&rest, !has("number"));
    let factor = rest.get("multipleOf").and_then(multiple);
    let is_number = has("number") || has("integer");
    let is_allowed = |value: &Value| match value {
        Value::Number(number) => Decimal::of(number).is_some_and(|value| {
            is_number
                && interval.contains(&value)
                && factor.is_none_or(|factor| is_multiple(&value, factor))
        }),
        Value::Array(_) => has("array"),
        Value::Object(_) => has("object"),
        Value::Null => has("null"),
        Value::Bool(_) => has("boolean"),
        Value::String(_) => has("string"),
    };
    let all = match (rest.shift_remove("const"), rest.shift_remove("enum")) {
        (Some(one), Some(Value::Array(all))) if !all.iter().any(|other| same(&one, other)) => {
            Vec::new()
        }
        (Some(one), _) => vec![one],
        (None, Some(Value::Array(all))) => all,
        (None, _) => Vec::new(),
    };
    let (odd, plain): (Vec<Value>, Vec<Value>) =
        all.into_iter().filter(is_allowed).partition(|value| odd(value).is_some());
    let mut options = Vec::new();
    let texts: Vec<String> = odd.iter().filter_map(Value::as_number).map(literal).collect();
    if !texts.is_empty() {
        options.extend(numbers.add(texts.join("|"), None));
    }
    let nested = odd.iter().filter(|value| !value.is_number());
    options.extend(nested.map(|value| constant(value, numbers)));
    if !plain.is_empty() {
        NUMERIC.into_iter().for_each(|key| drop(rest.shift_remove(key)));
        rest.insert("enum".to_owned(), plain.into());
        options.push(Value::Object(rest));
    }
    options
}

/// Whether two constants are the same, of numbers by their values.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Decimal::of(a) == Decimal::of(b),
        _ => a == b,
    }
}

/// The expression of one number: its digits, and its shorter text with an exponent.
fn literal(number: &Number) -> String {
    let text = number.to_string();
    let Some(value) = Decimal::of(number) else { return text.replace('.', "\\.") };
    let sign = if value.is_negative { "-" } else { "" };
    let point = if value.is_integer() { "" } else { "\\." };
    let digits = format!("{sign}{}{point}{}", value.whole, value.fraction);
    match text.contains('e') {
        true => format!("{digits}|{}", text.replace('.', "\\.").replace('+', "\\+?")),
        false => digits,
    }
}

/// The schema of one value.
fn constant(value: &Value, numbers: &mut Numbers) -> Value {
    match value {
        value if odd(value).is_none() => json!({ "const": value }),
        Value::Array(all) => {
            let items: Vec<Value> = all.iter().map(|value| constant(value, numbers)).collect();
            json!({ "type": "array", "items": items, "additionalItems": false,
                "minItems": all.len(), "maxItems": all.len() })
        }
        Value::Object(map) => {
            let names: Vec<&String> = map.keys().collect();
            let properties: Map<String, Value> =
                map.iter().map(|(name, value)| (name.clone(), constant(value, numbers))).collect();
            json!({ "type": "object", "properties": properties, "required": names,
                "additionalProperties": false })
        }
        Value::Number(number) => {
            numbers.add(literal(number), None).unwrap_or_else(|| json!({ "enum": [] }))
        }
        value => json!({ "const": value }),
    }
}

/// Whether a number is a multiple of `factor.0`, of which `factor.1` digits are behind the point.
fn is_multiple(value: &Decimal, (factor, digits): (u32, u32)) -> bool {
    let digits = digits as usize;
    let Some(zeros) = digits.checked_sub(value.fraction.len()) else { return false };
    let all = value.whole.bytes().chain(value.fraction.bytes()).chain((0..zeros).map(|_| b'0'));
    let add = |rest: u64, byte: u8| (rest * 10 + u64::from(byte - b'0')) % u64::from(factor);
    all.fold(0, add) == 0
}
