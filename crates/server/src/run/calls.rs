//! The grammar of tool calls as text, in llguidance's dialect of Lark.

use std::fmt::Write;

use pelton::chat::Rule;
use serde_json::Value;

use crate::error::ApiError;

/// A grammar that grows by rules.
#[derive(Default)]
struct Lark {
    /// The rules after `start`.
    rules: String,
    count: usize,
}

/// The text of a grammar.
pub(super) fn lark(rule: &Rule) -> Result<String, ApiError> {
    let mut lark = Lark::default();
    let start = lark.expression(rule)?;
    Ok(format!("start: {start}\n{}", lark.rules))
}

impl Lark {
    /// Adds a rule, and returns its name.
    fn rule(&mut self, body: &str) -> String {
        let name = format!("r{}", self.count);
        self.count += 1;
        // writing to a string does not fail
        let _ = writeln!(self.rules, "{name}: {body}");
        name
    }

    /// Adds a terminal, and returns its name.
    fn terminal(&mut self, body: &str) -> String {
        let name = format!("T{}", self.count);
        self.count += 1;
        let _ = writeln!(self.rules, "{name}: {body}");
        name
    }

    fn expression(&mut self, rule: &Rule) -> Result<String, ApiError> {
        Ok(match rule {
            Rule::Text(text) if text.is_empty() => "\"\"".to_owned(),
            Rule::Text(text) => literal(text),
            Rule::Json(schema) => {
                // any object, where the tool has no schema
                let empty = schema.as_object().is_none_or(serde_json::Map::is_empty);
                let schema =
                    if empty { serde_json::json!({"type": "object"}) } else { schema.clone() };
                self.rule(&format!("%json {schema}"))
            }
            Rule::Without(text) => {
                let text = regex(text);
                self.terminal(&format!("/(?s:.*)/ & ~/(?s:.*){text}(?s:.*)/"))
            }
            Rule::Alphanumeric(count) => self.terminal(&format!("/[A-Za-z0-9]{{{count}}}/")),
            Rule::Sequence(rules) => {
                let all: Vec<_> =
                    rules.iter().map(|rule| self.expression(rule)).collect::<Result<_, _>>()?;
                self.rule(&all.join(" "))
            }
            Rule::Choice(rules) => {
                let all: Vec<_> =
                    rules.iter().map(|rule| self.expression(rule)).collect::<Result<_, _>>()?;
                self.rule(&all.join(" | "))
            }
            Rule::Optional(rule) => {
                let inner = self.expression(rule)?;
                self.rule(&format!("{inner} | \"\""))
            }
            Rule::Repeat { rule, between, min, max } => {
                let (one, between) = (self.expression(rule)?, self.expression(between)?);
                let mut body = vec![one.clone(); (*min).max(1)].join(&format!(" {between} "));
                match max {
                    Some(max) => {
                        for _ in (*min).max(1)..*max {
                            body = format!("{body} ({between} {one}");
                        }
                        body.push_str(&")?".repeat(max.saturating_sub((*min).max(1))));
                    }
                    None => {
                        let more = self.rule(&format!("{between} {one}"));
                        body = format!("{body} {more}*");
                    }
                }
                if *min == 0 {
                    body.push_str(" | \"\"");
                }
                self.rule(&body)
            }
            _ => {
                let message = "the chat template's format of tool calls cannot be demanded, \
                               expected tool_choice auto or none";
                return Err(ApiError::field("tool_choice", message));
            }
        })
    }
}

/// A text in quotation marks.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

/// A text as a part of a regular expression between slashes.
fn regex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            c if c.is_alphanumeric() || c == '_' || !c.is_ascii() => escaped.push(c),
            c => escaped.extend(['\\', c]),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use pelton::chat::Format;
    use serde_json::json;

    use super::*;

    #[test]
    fn hermes_calls() {
        let tools = [json!({"type": "function", "function": {"name": "f", "parameters": {}}})];
        let grammar = Format::named("hermes").unwrap().grammar(&tools, false).unwrap();
        let text = lark(&grammar.calls).unwrap();
        assert!(text.starts_with("start: r"), "{text}");
        assert!(text.contains(r#""<tool_call>\n{\"name\": \"f\", \"arguments\": ""#), "{text}");
        assert!(text.contains("%json {\"type\":\"object\"}"), "{text}");
        let several = Format::named("hermes").unwrap().grammar(&tools, true).unwrap();
        assert!(lark(&several.calls).unwrap().contains("*\n"));
    }
}
