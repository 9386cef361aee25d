//! The parts of a grammar for required or strict tool calls: plain data, from the same rows as the
//! parser.

use serde_json::{Value, json};

use crate::{
    Error,
    format::{Body, Calls, Format, Separator},
    schema::{ANNOTATIONS, DEFINITIONS, Schema, Types},
};

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
    /// A string that the schema allows, without quotation marks and escapes, and `end` after it.
    /// The string does not contain `end` without the white space around it.
    Raw {
        /// The schema of the string.
        schema: Value,
        /// The text that ends it.
        end: String,
    },
    /// Any text up to the first occurrence of this one, and this one.
    Until(String),
    /// Up to four spaces and line breaks.
    Space,
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
        /// The repeated rule.
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
    /// one call, and at most one unless `parallel`. `None` if the format has no calls or if there
    /// are no tools.
    ///
    /// # Errors
    ///
    /// If the format writes arguments one by one, and a schema has keywords that concern several.
    ///
    /// ```
    /// use pelton_chat::{Format, Rule};
    /// use serde_json::json;
    ///
    /// let tools = [json!({"type": "function", "function": {"name": "f", "parameters": {}}})];
    /// let grammar = Format::named("hermes").unwrap().grammar(&tools, false)?.unwrap();
    /// assert_eq!(grammar.triggers, ["<tool_call>"]);
    /// assert_eq!(
    ///     grammar.calls,
    ///     Rule::Sequence(vec![
    ///         Rule::Text("<tool_call>\n{\"name\": \"f\", \"arguments\": ".into()),
    ///         Rule::Json(json!({"type": "object"})),
    ///         Rule::Text("}\n</tool_call>".into()),
    ///     ])
    /// );
    /// # Ok::<(), pelton_chat::Error>(())
    /// ```
    pub fn grammar(&self, tools: &[Value], parallel: bool) -> Result<Option<ToolGrammar>, Error> {
        let Some(calls) = self.calls else { return Ok(None) };
        let tools: Vec<Tool<'_>> = tools.iter().filter_map(Tool::new).collect();
        if tools.is_empty() {
            return Ok(None);
        }
        let one = choice(tools.iter().map(|tool| calls.call(tool)).collect::<Result<_, _>>()?);
        // a call of harmony ends the output
        let max = if parallel && calls.body != Body::Harmony { None } else { Some(1) };
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
            Body::Array { .. } | Body::Python => {
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
        Ok(Some(ToolGrammar { triggers, calls: rule }))
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
        let schema = function.get("parameters").filter(|schema| {
            // any object, where the tool has no schema
            schema.as_object().is_some_and(|schema| !schema.is_empty())
        });
        let schema = schema.cloned().unwrap_or_else(|| json!({"type": "object"}));
        Some(Self { name: function.get("name")?.as_str()?, schema })
    }

    /// The parameters: name, schema, and whether it is required.
    fn parameters(&self) -> Result<Vec<(&str, &Value, bool)>, Error> {
        self.check_flat()?;
        let is_required = |name: &str| {
            self.schema["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name))
        };
        let properties = self.schema["properties"].as_object().into_iter().flatten();
        Ok(properties.map(|(name, schema)| (name.as_str(), schema, is_required(name))).collect())
    }

    /// Refuses a schema that says more about the arguments than each of them can show.
    fn check_flat(&self) -> Result<(), Error> {
        let refuse = |what: String| {
            Err(Error::Invalid(format!(
                "the parameters of the tool {:?} {what}, expected an object with properties: the \
                 chat template's format writes each argument by itself",
                self.name
            )))
        };
        let map = self.schema.as_object();
        for (key, value) in map.into_iter().flatten() {
            let name = key.as_str();
            match name {
                "type" if value == "object" => {}
                "type" => return refuse(format!("have the type {value}")),
                "properties" | "required" => {}
                // arguments that are no properties are never written
                "additionalProperties" => {}
                _ if ANNOTATIONS.contains(&name) || DEFINITIONS.contains(&name) => {}
                _ => return refuse(format!("have the keyword {name:?}")),
            }
        }
        let required = self.schema["required"].as_array();
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if self.schema["properties"].get(name).is_none() {
                return refuse(format!("require {name:?}, which is no property"));
            }
        }
        Ok(())
    }
}

impl Calls {
    /// One call.
    fn call(&self, tool: &Tool<'_>) -> Result<Rule, Error> {
        // Llama 3 writes the object alone; the marker is for its built-in tools.
        let is_bare = self.bare && matches!(self.body, Body::Object { .. });
        let open = self.open.first().copied().filter(|_| !is_bare).unwrap_or_default();
        let name = tool.name;
        let arguments = Rule::Json(tool.schema.clone());
        let (before, after) = (format!("{open}{}", self.padding), self.padding);
        let close = self.close;
        Ok(match self.body {
            Body::Object { arguments: key } => sequence([
                text(format!("{before}{{\"name\": \"{name}\", \"{key}\": ")),
                arguments,
                text(format!("}}{after}{close}")),
            ]),
            Body::Array { before, between, id } => {
                let mut rules = vec![text(format!("{before}{name}{between}")), arguments];
                if id > 0 {
                    rules.extend([text(", \"id\": \""), Rule::Alphanumeric(id), text("\"")]);
                }
                rules.push(text("}"));
                sequence(rules)
            }
            Body::Named { prefix, separator, id, is_numbered, suffix } => {
                let mut rules = vec![text(format!("{before}{prefix}{name}"))];
                if let Some(id) = id.filter(|_| is_numbered) {
                    rules.push(text(id));
                    rules.push(choice((0..10).map(|number| text(number.to_string())).collect()));
                }
                rules.extend([text(separator), arguments, text(format!("{suffix}{close}"))]);
                sequence(rules)
            }
            Body::Elements { name_end, parameter, parameter_end, value_end } => {
                let mut rules = vec![text(format!("{before}{name}{name_end}"))];
                for (key, schema, required) in tool.parameters()? {
                    let element = element(parameter_end, value_end, &tool.schema, schema);
                    let rule = sequence([text(format!("{parameter}{key}")), element]);
                    rules.push(optional(rule, required));
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
                let mut rules = vec![text(format!("{name}("))];
                for (i, (key, schema, required)) in tool.parameters()?.into_iter().enumerate() {
                    let argument = sequence([
                        text(format!("{}{key}=", if i > 0 { ", " } else { "" })),
                        Rule::Python(with_definitions(&tool.schema, schema)),
                    ]);
                    // The first argument has no comma before it, so it cannot be left out alone.
                    rules.push(optional(argument, required || i == 0));
                }
                rules.push(text(")"));
                sequence(rules)
            }
            Body::Harmony => sequence([
                text(format!("{HARMONY}{name} <|constrain|>json<|message|>")),
                arguments,
                text(close),
            ]),
        })
    }
}

/// The text after the name of a parameter: its value with the texts around it, as the parser reads
/// it by the schema.
fn element(separator: Separator, value_end: &str, root: &Value, own: &Value) -> Rule {
    let schema = Schema::new(root, own);
    let end = value_end.trim_end();
    let margin = &value_end[end.len()..];
    let (string, json) = match separator {
        Separator::Text(first, second) => {
            let both = format!("{first}{second}");
            (both.clone(), both)
        }
        Separator::Typed { string, json } => (string.to_owned(), json.to_owned()),
    };
    let fixed = |value: &Value| match value {
        Value::String(value) => text(format!("{string}{value}{value_end}")),
        other => text(format!("{json}{other}{value_end}")),
    };
    if let Some(values) = schema.values().filter(|values| !values.is_empty()) {
        return choice(values.into_iter().map(fixed).collect());
    }
    let types = schema.types();
    if !types.has(Types::STRING) {
        let rules = [text(json), Rule::Json(with_definitions(root, own)), text(value_end)];
        return sequence(rules);
    }
    let raw = |schema| {
        let raw = Rule::Raw { schema, end: end.to_owned() };
        sequence([text(string.clone()), raw, text(margin)])
    };
    let mut all: Vec<Rule> = schema.strings().into_iter().map(raw).collect();
    // the parser reads the word as null, and a schema that allows anything allows it as a string
    if types.has(Types::NULL) && types != Types::ALL {
        all.push(fixed(&Value::Null));
    }
    choice(all)
}

/// A schema with the definitions of another, if it has a reference.
fn with_definitions(root: &Value, own: &Value) -> Value {
    let mut schema = own.clone();
    let refers = own.to_string().contains("\"$ref\"");
    if let Value::Object(map) = &mut schema
        && refers
    {
        for key in DEFINITIONS {
            if let Some(all) = root.get(key) {
                map.insert(key.to_owned(), all.clone());
            }
        }
    }
    schema
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
