//! What a grammar for required or strict tool calls is made from: plain data, from the same rows as
//! the parser.

use serde_json::{Value, json};

use crate::format::{Body, Calls, Format, Separator};

/// The beginning of a call's header in gpt-oss.
const HARMONY: &str = "<|channel|>commentary to=functions.";

/// The texts that an output may have.
///
/// A translator makes the rules of a grammar from it; `Json` becomes the rules of the schema.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Rule {
    /// This text.
    Text(String),
    /// Compact or spaced JSON that the schema allows.
    Json(Value),
    /// Any text in which this one does not occur.
    Without(String),
    /// A text of so many ASCII letters and digits.
    Alphanumeric(usize),
    /// Numbers and constants as JSON, strings between other quotation marks, keys without any.
    Gemma(Value),
    /// A value as Python writes it.
    Python(Value),
    /// All of them, in their order.
    Sequence(Vec<Rule>),
    /// One of them.
    Choice(Vec<Rule>),
    /// Nothing or this.
    Optional(Box<Rule>),
    /// This so often.
    Repeat {
        /// What is repeated.
        rule: Box<Rule>,
        /// Between two.
        between: Box<Rule>,
        /// At least.
        min: usize,
        /// At most; any number if `None`.
        max: Option<usize>,
    },
}

/// A grammar of tool calls.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolGrammar {
    /// Texts whose appearance begins the grammar in free text (a *lazy* grammar): the rule then
    /// describes the output from the beginning of the trigger on.
    pub triggers: Vec<String>,
    /// The calls, from the first marker to the last.
    pub calls: Rule,
}

impl Format {
    /// The grammar of calls of the given tools (`{"type": "function", "function": {…}}`): at least
    /// one call, and at most one unless `parallel`. `None` if the format has no calls or if there are
    /// no tools.
    ///
    /// ```
    /// use pelton_chat::{Format, Rule};
    /// use serde_json::json;
    ///
    /// let tools = [json!({"type": "function", "function": {"name": "f", "parameters": {}}})];
    /// let grammar = Format::named("hermes").unwrap().grammar(&tools, false).unwrap();
    /// assert_eq!(grammar.triggers, ["<tool_call>"]);
    /// assert_eq!(
    ///     grammar.calls,
    ///     Rule::Sequence(vec![
    ///         Rule::Text("<tool_call>\n{\"name\": \"f\", \"arguments\": ".into()),
    ///         Rule::Json(json!({})),
    ///         Rule::Text("}\n</tool_call>".into()),
    ///     ])
    /// );
    /// ```
    pub fn grammar(&self, tools: &[Value], parallel: bool) -> Option<ToolGrammar> {
        let calls = self.calls?;
        let tools: Vec<Tool<'_>> = tools.iter().filter_map(Tool::new).collect();
        if tools.is_empty() {
            return None;
        }
        let one = choice(tools.iter().map(|tool| calls.call(tool)).collect());
        let max = if parallel { None } else { Some(1) };
        let (section, close) = calls.sections.first().copied().unwrap_or_default();
        let section = |rule: Rule| match section {
            "" => rule,
            section => sequence([
                text(format!("{section}{}", calls.margin)),
                rule,
                text(format!("{}{close}", calls.margin)),
            ]),
        };
        let list = |rule: Rule, between: &str| match max {
            Some(1) => rule,
            max => {
                Rule::Repeat { rule: Box::new(rule), between: Box::new(text(between)), min: 1, max }
            }
        };
        let rule = match calls.body {
            // One pair of brackets is around all calls.
            Body::Array | Body::Python => {
                let open = calls.open.first().copied().unwrap_or_default();
                let between = ", ";
                let close = format!("]{}", calls.close);
                sequence([text(format!("{open}[")), list(one, between), text(close)])
            }
            _ if calls.section_each => list(section(one), calls.between),
            _ => section(list(one, calls.between)),
        };
        let mut triggers: Vec<String> = match calls.sections {
            [] => calls.open.iter().map(|&open| open.to_owned()).collect(),
            sections => sections.iter().take(1).map(|(open, _)| (*open).to_owned()).collect(),
        };
        match calls.body {
            Body::Harmony => triggers = vec![HARMONY.to_owned()],
            Body::Object { .. } if calls.bare => triggers = vec!["{\"name\": \"".to_owned()],
            _ => {}
        }
        Some(ToolGrammar { triggers, calls: rule })
    }
}

/// A tool's name and the schema of its parameters.
struct Tool<'t> {
    name: &'t str,
    schema: Value,
}

impl<'t> Tool<'t> {
    fn new(tool: &'t Value) -> Option<Self> {
        let function = tool.get("function").unwrap_or(tool);
        let schema = function.get("parameters").filter(|schema| !schema.is_null());
        let schema = schema.cloned().unwrap_or_else(|| json!({"type": "object"}));
        Some(Self { name: function.get("name")?.as_str()?, schema })
    }

    /// The parameters: name, schema, and whether it is required.
    fn parameters(&self) -> Vec<(&str, &Value, bool)> {
        let is_required = |name: &str| {
            self.schema["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name))
        };
        let properties = self.schema["properties"].as_object();
        properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| (name.as_str(), schema, is_required(name)))
            .collect()
    }
}

impl Calls {
    /// One call.
    fn call(&self, tool: &Tool<'_>) -> Rule {
        // Llama 3 writes the object alone; the marker is for its built-in tools.
        let is_bare = self.bare && matches!(self.body, Body::Object { .. });
        let open = self.open.first().copied().filter(|_| !is_bare).unwrap_or_default();
        let name = tool.name;
        let arguments = Rule::Json(tool.schema.clone());
        let (before, after) = (format!("{open}{}", self.padding), self.padding);
        let close = self.close;
        match self.body {
            Body::Object { arguments: key } => sequence([
                text(format!("{before}{{\"name\": \"{name}\", \"{key}\": ")),
                arguments,
                text(format!("}}{after}{close}")),
            ]),
            Body::Array => sequence([
                text(format!("{{\"name\": \"{name}\", \"arguments\": ")),
                arguments,
                text(", \"id\": \""),
                Rule::Alphanumeric(9),
                text("\"}"),
            ]),
            Body::Named { prefix, separator, suffix, .. } => sequence([
                text(format!("{before}{prefix}{name}{separator}")),
                arguments,
                text(format!("{suffix}{close}")),
            ]),
            Body::Elements { name_end, parameter, parameter_end, value_end } => {
                let mut rules = vec![text(format!("{before}{name}{name_end}"))];
                for (key, schema, required) in tool.parameters() {
                    let value = element(parameter_end, value_end, schema);
                    let mut element = vec![text(format!("{parameter}{key}"))];
                    element.extend([value, text(value_end)]);
                    rules.push(optional(sequence(element), required));
                }
                rules.push(text(close));
                sequence(rules)
            }
            Body::Gemma => sequence([
                text(format!("{before}call:{name}")),
                Rule::Gemma(tool.schema.clone()),
                text(close),
            ]),
            Body::Python => {
                let parameters = tool.parameters();
                let mut rules = vec![text(format!("{name}("))];
                for (i, (key, schema, required)) in parameters.iter().enumerate() {
                    let argument = sequence([
                        text(format!("{}{key}=", if i > 0 { ", " } else { "" })),
                        Rule::Python((*schema).clone()),
                    ]);
                    // The first argument has no comma before it, so it cannot be left out alone.
                    rules.push(optional(argument, *required || i == 0));
                }
                rules.push(text(")"));
                sequence(rules)
            }
            Body::Harmony => sequence([
                text(format!("{HARMONY}{name} <|constrain|>json<|message|>")),
                arguments,
                text(close),
            ]),
        }
    }
}

/// What is between the name of a parameter and the end of its value.
fn element(separator: Separator, value_end: &str, schema: &Value) -> Rule {
    let is_text = schema["type"] == "string" && schema.get("enum").is_none();
    let strings: Option<Vec<&str>> =
        schema["enum"].as_array().and_then(|all| all.iter().map(Value::as_str).collect());
    let value = match strings {
        Some(all) => choice(all.into_iter().map(text).collect()),
        None if is_text => Rule::Without(value_end.to_owned()),
        None => Rule::Json(schema.clone()),
    };
    let before = match separator {
        Separator::Text(first, second) => format!("{first}{second}"),
        Separator::Typed { string, json } => match value {
            Rule::Json(_) => json.to_owned(),
            _ => string.to_owned(),
        },
    };
    sequence([text(before), value])
}

fn text(text: impl Into<String>) -> Rule {
    Rule::Text(text.into())
}

fn optional(rule: Rule, required: bool) -> Rule {
    if required { rule } else { Rule::Optional(Box::new(rule)) }
}

/// A sequence in which neighbouring texts are joined and sequences are not nested.
fn sequence(rules: impl IntoIterator<Item = Rule>) -> Rule {
    let mut joined: Vec<Rule> = Vec::new();
    for rule in rules {
        let rules = match rule {
            Rule::Sequence(rules) => rules,
            rule => vec![rule],
        };
        for rule in rules {
            match (joined.last_mut(), rule) {
                (_, Rule::Text(text)) if text.is_empty() => {}
                (Some(Rule::Text(last)), Rule::Text(text)) => last.push_str(&text),
                (_, rule) => joined.push(rule),
            }
        }
    }
    Rule::Sequence(joined)
}

fn choice(mut rules: Vec<Rule>) -> Rule {
    match rules.len() {
        1 => rules.remove(0),
        _ => Rule::Choice(rules),
    }
}
