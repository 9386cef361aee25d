//! Schemas made of the keywords, so that most of them compile.

#![no_main]

mod common;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pelton_constraint::Constraint;
use serde_json::{Map, Value, json};

#[derive(Arbitrary, Debug)]
enum Schema {
    Any,
    Refer(u8),
    Integer { least: i32, most: Option<i64>, multiple: Option<u8> },
    Number { least: Option<f64>, most: Option<f64> },
    Text { least: u16, most: Option<u32>, format: u8 },
    Pattern(Pattern),
    Array { items: Box<Schema>, least: u16, most: Option<u16>, first: Vec<Schema> },
    Object { properties: Vec<(Schema, bool)>, others: Box<Schema>, least: u8, copies: u8 },
    Patterns(Vec<(Pattern, Schema)>),
    Names(Pattern),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    AllOf(Vec<Schema>),
    Enum(Vec<(u16, bool)>),
    Types(u8),
    Extreme(Vec<(u8, u8)>),
}

#[derive(Arbitrary, Debug)]
enum Pattern {
    Letter(u8),
    Any,
    Word,
    Then(Box<Pattern>, Box<Pattern>),
    Or(Box<Pattern>, Box<Pattern>),
    Repeat(Box<Pattern>, u8, u16),
    Many(Box<Pattern>),
}

const FORMATS: [&str; 8] =
    ["date-time", "email", "uuid", "uri", "ipv6", "hostname", "duration", "path"];
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "null", "array", "object"];

/// Numbers at which arithmetic overflows, rounds or ends.
const NUMBERS: [&str; 20] = [
    "0",
    "-0.0",
    "1",
    "-1",
    "0.5",
    "1e-308",
    "1e308",
    "-1e308",
    "4294967295",
    "4294967296",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
];
const COUNTED: [&str; 13] = [
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minimum",
    "minItems",
    "minLength",
    "minProperties",
    "multipleOf",
];

impl Pattern {
    fn text(&self) -> String {
        match self {
            Self::Letter(n) => char::from(b'a' + n % 26).to_string(),
            Self::Any => ".".to_owned(),
            Self::Word => "\\w".to_owned(),
            Self::Then(a, b) => format!("{}{}", a.text(), b.text()),
            Self::Or(a, b) => format!("(?:{}|{})", a.text(), b.text()),
            Self::Repeat(a, least, more) => {
                format!("(?:{}){{{least},{}}}", a.text(), u32::from(*least) + u32::from(*more))
            }
            Self::Many(a) => format!("(?:{})*", a.text()),
        }
    }
}

/// The schemas that one input becomes at most. Copies within copies would be megabytes, which take
/// the target longer than the compiler takes to refuse them.
const SCHEMAS_MAX: usize = 20_000;

fn list(all: &[Schema], left: &mut usize) -> Vec<Value> {
    all.iter().map(|schema| schema.value(left)).collect()
}

impl Schema {
    /// The schema, where `left` is the number of those that may follow.
    fn value(&self, left: &mut usize) -> Value {
        let Some(after) = left.checked_sub(1) else { return json!({}) };
        *left = after;
        match self {
            Self::Any => json!({}),
            Self::Refer(n) => json!({ "$ref": format!("#/$defs/d{}", n % 8) }),
            Self::Integer { least, most, multiple } => {
                let mut schema = json!({ "type": "integer", "minimum": least });
                if let Some(most) = most {
                    schema["maximum"] = json!(most);
                }
                if let Some(multiple) = multiple {
                    schema["multipleOf"] = json!(multiple);
                }
                schema
            }
            Self::Number { least, most } => {
                json!({ "type": "number", "minimum": least, "exclusiveMaximum": most })
            }
            Self::Text { least, most, format } => {
                let mut schema = json!({ "type": "string", "minLength": least });
                if let Some(most) = most {
                    schema["maxLength"] = json!(most);
                }
                if let Some(format) = FORMATS.get(usize::from(*format)) {
                    schema["format"] = json!(format);
                }
                schema
            }
            Self::Pattern(pattern) => json!({ "type": "string", "pattern": pattern.text() }),
            Self::Array { items, least, most, first } => {
                let mut schema =
                    json!({ "type": "array", "items": items.value(left), "minItems": least });
                if let Some(most) = most {
                    schema["maxItems"] = json!(most);
                }
                if !first.is_empty() {
                    schema["prefixItems"] = list(first, left).into();
                }
                schema
            }
            Self::Object { properties, others, least, copies } => {
                let (mut all, mut required) = (Map::new(), Vec::new());
                for copy in 0..=*copies {
                    for (i, (schema, is_required)) in properties.iter().enumerate() {
                        let name = format!("p{copy}x{i}");
                        all.insert(name.clone(), schema.value(left));
                        if *is_required {
                            required.push(name);
                        }
                    }
                }
                let mut schema = json!({ "type": "object", "properties": all,
                    "required": required, "additionalProperties": others.value(left) });
                if *least > 0 {
                    schema["minProperties"] = json!(least);
                }
                schema
            }
            Self::Patterns(all) => {
                let all: Map<String, Value> =
                    all.iter().map(|(name, schema)| (name.text(), schema.value(left))).collect();
                json!({ "type": "object", "patternProperties": all, "additionalProperties": false })
            }
            Self::Names(pattern) => {
                json!({ "type": "object", "propertyNames": { "pattern": pattern.text() } })
            }
            Self::AnyOf(all) => json!({ "anyOf": list(all, left) }),
            Self::OneOf(all) => json!({ "oneOf": list(all, left) }),
            Self::AllOf(all) => json!({ "allOf": list(all, left) }),
            Self::Enum(all) => {
                let value = |(n, nests): &(u16, bool)| match nests {
                    true => json!({ "k": n }),
                    false => json!(format!("v{n}")),
                };
                json!({ "enum": all.iter().map(value).collect::<Vec<_>>() })
            }
            Self::Extreme(all) => {
                let mut schema = Map::new();
                for (name, number) in all {
                    let name = COUNTED[usize::from(*name) % COUNTED.len()];
                    let number = NUMBERS[usize::from(*number) % NUMBERS.len()];
                    let number: Value = serde_json::from_str(number).expect("a number");
                    let value = if name == "enum" { json!([number, [number]]) } else { number };
                    schema.insert(name.to_owned(), value);
                }
                schema.into()
            }
            Self::Types(bits) => {
                let has = |i: &usize| bits >> i & 1 == 1;
                json!({ "type": (0..7).filter(has).map(|i| TYPES[i]).collect::<Vec<_>>() })
            }
        }
    }
}

fuzz_target!(|parts: (Schema, Vec<Schema>)| {
    let mut left = SCHEMAS_MAX;
    let mut schema = parts.0.value(&mut left);
    let definitions: Map<String, Value> = parts
        .1
        .iter()
        .take(8)
        .enumerate()
        .map(|(i, s)| (format!("d{i}"), s.value(&mut left)))
        .collect();
    if let Value::Object(map) = &mut schema {
        map.insert("$defs".to_owned(), definitions.into());
    }
    common::follow(&Constraint::JsonSchema(schema));
});
