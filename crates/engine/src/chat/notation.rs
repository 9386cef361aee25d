//! Values of a JSON schema in the notations of Gemma and of Python, as rules of a grammar.
//!
//! Supported are `type`, `enum`, `const`, `anyOf`, `$ref` to definitions, `properties`, `required`,
//! `additionalProperties`, `items`, `minItems`, `maxItems`, the bounds of numbers and the lengths
//! of strings; in Gemma's notation `pattern` too. Other keywords are refused. Properties come in
//! their order in the schema.

use pelton_chat::Error;
use serde_json::{Map, Value, json};

use super::{
    lark::{Lark, literal},
    raw::{check_annotation, invalid},
};

/// The most levels of a schema.
const DEPTH_MAX: usize = 64;
/// The most items of an array that a schema can bound.
const ITEMS_MAX: u64 = 1000;
/// Gemma's quotation mark.
const QUOTE: &str = "<|\"|>";
/// The keywords of numbers.
const NUMBERS: [&str; 5] =
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// `{key:<|"|>text<|"|>,other:[1,true]}`.
    Gemma,
    /// `{"key": "text", "other": [1, True]}`.
    Python,
}

/// A schema within another, with the place of references.
#[derive(Clone, Copy)]
struct Place<'s> {
    root: &'s Value,
    schema: &'s Value,
    depth: usize,
}

impl<'s> Place<'s> {
    fn at(self, schema: &'s Value) -> Self {
        Self { schema, depth: self.depth + 1, ..self }
    }
}

impl Lark {
    /// The values of a schema in Gemma's notation.
    pub(super) fn gemma(&mut self, schema: &Value) -> Result<String, Error> {
        // references of one tool are not those of another
        self.references.clear();
        self.value(Notation::Gemma, Place { root: schema, schema, depth: 0 })
    }

    /// The values of a schema as Python writes them.
    pub(super) fn python(&mut self, schema: &Value) -> Result<String, Error> {
        self.references.clear();
        self.value(Notation::Python, Place { root: schema, schema, depth: 0 })
    }

    fn value(&mut self, notation: Notation, place: Place<'_>) -> Result<String, Error> {
        if place.depth > DEPTH_MAX {
            return Err(invalid(format!(
                "the schema of a tool's parameters has more than {DEPTH_MAX} levels"
            )));
        }
        let map = match place.schema {
            Value::Object(map) => map,
            Value::Bool(true) => return self.any(notation, place),
            other => {
                return Err(invalid(format!(
                    "a schema of a tool's parameter is {other}, expected an object"
                )));
            }
        };
        let only = |allowed: &[&str]| {
            map.keys()
                .filter(|key| !allowed.contains(&key.as_str()))
                .try_for_each(|key| check_annotation(key))
        };
        if let Some(reference) = map.get("$ref") {
            only(&["$ref"])?;
            return self.reference(notation, place, reference.as_str().unwrap_or_default());
        }
        if let Some(value) = map.get("const") {
            only(&["const", "type"])?;
            return self.constant(notation, value);
        }
        if let Some(Value::Array(all)) = map.get("enum") {
            only(&["enum", "type"])?;
            let all = all.iter().map(|value| self.constant(notation, value));
            let all = all.collect::<Result<Vec<_>, _>>()?;
            return self.choice(&all);
        }
        if let Some(Value::Array(all)) = map.get("anyOf") {
            only(&["anyOf"])?;
            let all = all.iter().map(|schema| self.value(notation, place.at(schema)));
            let all = all.collect::<Result<Vec<_>, _>>()?;
            return self.choice(&all);
        }
        let types: Vec<&str> = match map.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(other) => {
                return Err(invalid(format!("the type of a tool's parameter is {other}")));
            }
            None if map.contains_key("properties") => vec!["object"],
            None => {
                only(&[])?;
                return self.any(notation, place);
            }
        };
        let several = types.len() > 1;
        let mut all = Vec::new();
        for name in types {
            all.push(self.typed(notation, place, (map, name, several))?);
        }
        self.choice(&all)
    }

    fn choice(&mut self, all: &[String]) -> Result<String, Error> {
        match all {
            [] => Err(invalid("a schema of a tool's parameter allows no value".to_owned())),
            [one] => Ok(one.clone()),
            all => Ok(self.rule(&all.join(" | "))),
        }
    }

    /// The values of one type. Keywords of other types are refused unless there are `several`.
    fn typed(
        &mut self,
        notation: Notation,
        place: Place<'_>,
        (map, name, several): (&Map<String, Value>, &str, bool),
    ) -> Result<String, Error> {
        let others: &[&str] = match name {
            "string" if notation == Notation::Gemma => &["minLength", "maxLength", "pattern"],
            "string" => &["minLength", "maxLength"],
            "integer" | "number" => &NUMBERS,
            "array" => &["items", "minItems", "maxItems"],
            "object" => &["properties", "required", "additionalProperties"],
            _ => &[],
        };
        let of_any_type = [
            "items",
            "minItems",
            "maxItems",
            "properties",
            "required",
            "additionalProperties",
            "minLength",
            "maxLength",
        ];
        for key in map.keys().map(String::as_str).filter(|key| *key != "type") {
            let of_another = several && (of_any_type.contains(&key) || NUMBERS.contains(&key));
            if !others.contains(&key) && !of_another {
                check_annotation(key)?;
            }
        }
        match name {
            "string" => self.string(notation, map),
            "integer" | "number" => {
                let mut leaf = Map::from_iter([("type".to_owned(), json!(name))]);
                for key in NUMBERS {
                    if let Some(bound) = map.get(key) {
                        leaf.insert(key.to_owned(), bound.clone());
                    }
                }
                Ok(self.rule(&format!("%json {}", Value::Object(leaf))))
            }
            "boolean" => {
                let all = [json!(true), json!(false)].map(|value| self.constant(notation, &value));
                self.choice(&all.into_iter().collect::<Result<Vec<_>, _>>()?)
            }
            "null" => self.constant(notation, &Value::Null),
            "array" => {
                let item = match map.get("items") {
                    Some(items) => self.value(notation, place.at(items))?,
                    None => self.any(notation, place)?,
                };
                let (min, max) = (count(map, "minItems")?, count(map, "maxItems")?);
                let separator = literal(notation.separator());
                let list = self.list(&item, &separator, min.unwrap_or(0), max);
                Ok(self.rule(&format!("\"[\" {list} \"]\"")))
            }
            "object" => self.object(notation, place, map),
            other => Err(invalid(format!("the type of a tool's parameter is {other:?}"))),
        }
    }

    fn string(&mut self, notation: Notation, map: &Map<String, Value>) -> Result<String, Error> {
        let keywords = ["minLength", "maxLength", "pattern"];
        let schema: Map<String, Value> = keywords
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), map.get(key)?.clone())))
            .collect();
        match notation {
            Notation::Gemma => {
                let quote = self.text(QUOTE);
                let rest = self.raw(&Value::Object(schema), QUOTE)?;
                Ok(self.rule(&format!("{quote} {rest}")))
            }
            Notation::Python => {
                let (min, max) = (count(map, "minLength")?, count(map, "maxLength")?);
                let length = match (min.unwrap_or(0), max) {
                    (0, None) => "*".to_owned(),
                    (min, None) => format!("{{{min},}}"),
                    (min, Some(max)) => format!("{{{min},{max}}}"),
                };
                let character = r#"(?:[^"\\\x00-\x1f]|\\["\\nrt])"#;
                Ok(self.terminal(&format!("/\"{character}{length}\"/")))
            }
        }
    }

    fn object(
        &mut self,
        notation: Notation,
        place: Place<'_>,
        map: &Map<String, Value>,
    ) -> Result<String, Error> {
        let properties = map.get("properties").and_then(Value::as_object);
        let required: Vec<&str> = map
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let named = |name: &str| properties.is_some_and(|all| all.contains_key(name));
        if let Some(name) = required.iter().find(|name| !named(name)) {
            return Err(invalid(format!(
                "the parameters of a tool require {name:?}, expected a property of that name"
            )));
        }
        let separator = literal(notation.separator());
        let Some(properties) = properties.filter(|all| !all.is_empty()) else {
            let item = match map.get("additionalProperties") {
                Some(Value::Bool(false)) => return Ok("\"{}\"".to_owned()),
                Some(schema) => self.value(notation, place.at(schema))?,
                None => self.any(notation, place)?,
            };
            let key = self.terminal(notation.keys());
            let entry = self.rule(&format!("{key} {} {item}", literal(notation.colon())));
            let list = self.list(&entry, &separator, 0, None);
            return Ok(self.rule(&format!("\"{{\" {list} \"}}\"")));
        };
        // the text that may follow some entry, or none; from the last property to the first
        let (mut after, mut first) = ("\"\"".to_owned(), "\"\"".to_owned());
        for (name, schema) in properties.iter().rev() {
            let value = self.value(notation, place.at(schema))?;
            let key = literal(&format!("{}{}", notation.key(name)?, notation.colon()));
            let entry = self.rule(&format!("{key} {value}"));
            let with_comma = format!("{separator} {entry} {after}");
            let without_comma = format!("{entry} {after}");
            (after, first) = match required.contains(&name.as_str()) {
                true => (self.rule(&with_comma), self.rule(&without_comma)),
                false => (
                    self.rule(&format!("{with_comma} | {after}")),
                    self.rule(&format!("{without_comma} | {first}")),
                ),
            };
        }
        Ok(self.rule(&format!("\"{{\" {first} \"}}\"")))
    }

    /// Any value.
    fn any(&mut self, notation: Notation, place: Place<'_>) -> Result<String, Error> {
        let key = format!("{notation:?} any");
        if let Some(name) = self.references.get(&key) {
            return Ok(name.clone());
        }
        let name = self.reserve();
        self.references.insert(key, name.clone());
        let types = ["string", "number", "boolean", "null", "array", "object"];
        let schema = json!({ "type": types });
        let body = self.value(notation, place.at(&schema))?;
        self.define(&name, &body);
        Ok(name)
    }

    fn reference(
        &mut self,
        notation: Notation,
        place: Place<'_>,
        reference: &str,
    ) -> Result<String, Error> {
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains(['~', '%']));
        let Some(target) = pointer.and_then(|pointer| place.root.pointer(pointer)) else {
            let shown: String = reference.chars().take(100).collect();
            return Err(invalid(format!(
                "the reference {shown:?} of a tool's parameters has no target, expected a pointer \
                 within the schema"
            )));
        };
        let key = format!("{notation:?} {reference}");
        if let Some(name) = self.references.get(&key) {
            return Ok(name.clone());
        }
        let name = self.reserve();
        self.references.insert(key, name.clone());
        let body = self.value(notation, place.at(target))?;
        self.define(&name, &body);
        Ok(name)
    }

    /// One value.
    fn constant(&mut self, notation: Notation, value: &Value) -> Result<String, Error> {
        let mut text = String::new();
        notation.write(value, &mut text, 0)?;
        Ok(self.text(&text))
    }
}

impl Notation {
    fn separator(self) -> &'static str {
        match self {
            Self::Gemma => ",",
            Self::Python => ", ",
        }
    }

    fn colon(self) -> &'static str {
        match self {
            Self::Gemma => ":",
            Self::Python => ": ",
        }
    }

    /// A terminal of any key.
    fn keys(self) -> &'static str {
        match self {
            Self::Gemma => "/[A-Za-z_][A-Za-z0-9_-]{0,63}/",
            Self::Python => "/\"[A-Za-z_][A-Za-z0-9_-]{0,63}\"/",
        }
    }

    fn key(self, name: &str) -> Result<String, Error> {
        match self {
            Self::Python => Ok(quoted(name)),
            Self::Gemma => {
                let odd = |c: char| ":{}[],\"<>".contains(c) || c.is_control();
                match name.is_empty() || name.trim() != name || name.contains(odd) {
                    true => Err(invalid(format!(
                        "the parameter {name:?} of a tool cannot be written in the format of tool \
                         calls of the chat template"
                    ))),
                    false => Ok(name.to_owned()),
                }
            }
        }
    }

    fn write(self, value: &Value, text: &mut String, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(invalid("a constant of a schema is nested too deeply".to_owned()));
        }
        match value {
            Value::String(string) if self == Self::Python => text.push_str(&quoted(string)),
            Value::String(string) if string.contains(QUOTE) => {
                return Err(invalid(format!("a constant of a schema contains {QUOTE}")));
            }
            Value::String(string) => text.extend([QUOTE, string, QUOTE]),
            Value::Array(items) => {
                text.push('[');
                for (i, item) in items.iter().enumerate() {
                    text.push_str(if i > 0 { self.separator() } else { "" });
                    self.write(item, text, depth + 1)?;
                }
                text.push(']');
            }
            Value::Object(map) => {
                text.push('{');
                for (i, (key, item)) in map.iter().enumerate() {
                    text.push_str(if i > 0 { self.separator() } else { "" });
                    text.extend([&*self.key(key)?, self.colon()]);
                    self.write(item, text, depth + 1)?;
                }
                text.push('}');
            }
            Value::Bool(true) if self == Self::Python => text.push_str("True"),
            Value::Bool(false) if self == Self::Python => text.push_str("False"),
            Value::Null if self == Self::Python => text.push_str("None"),
            other => text.push_str(&other.to_string()),
        }
        Ok(())
    }
}

/// A string as Python writes it, between double quotation marks.
fn quoted(string: &str) -> String {
    let mut text = String::from("\"");
    for c in string.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '"' | '\\' => text.extend(['\\', c]),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// A keyword that counts.
fn count(map: &Map<String, Value>, key: &str) -> Result<Option<usize>, Error> {
    let Some(value) = map.get(key) else { return Ok(None) };
    match value.as_u64().filter(|count| *count <= ITEMS_MAX) {
        Some(count) => Ok(Some(count as usize)),
        None => Err(invalid(format!(
            "{key:?} of a tool's parameter is {value}, expected 0 to {ITEMS_MAX}"
        ))),
    }
}
