//! The schemas of tools, for values that are written without quotation marks.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::{Schema, Types};

/// The parameters of the tools of a request, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tools(BTreeMap<String, Value>);

impl Tools {
    /// Tools as `{"type": "function", "function": {"name", "parameters"}}` or the inner object.
    pub(crate) fn new(tools: &[Value]) -> Self {
        let entry = |tool: &Value| {
            let function = tool.get("function").unwrap_or(tool);
            let name = function.get("name")?.as_str()?.to_owned();
            Some((name, function.get("parameters").cloned().unwrap_or(Value::Null)))
        };
        Self(tools.iter().filter_map(entry).collect())
    }

    /// Whether a tool may be called: any, if none are known.
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.contains_key(name)
    }

    /// A raw value as the schema of its parameter says, which decides its type: the value's look
    /// does not.
    ///
    /// A value of an `enum` or a `const` is that value. `null` is null where the schema allows it.
    /// All else is a string where the schema allows strings, and JSON where it does not. A
    /// parameter that the schema does not know is JSON if it looks like some. Reference parsers
    /// differ: vLLM's of Qwen3-Coder takes `null` for null whatever the schema says, and its of GLM
    /// knows `type` alone.
    pub(crate) fn value(&self, tool: &str, parameter: &str, raw: &str) -> Value {
        let schema = self.0.get(tool).and_then(|root| Schema::of_parameter(root, parameter));
        let Some(schema) = schema else { return json_or_text(raw) };
        let parsed = json_or_text(raw);
        if let Some(values) = schema.values() {
            let is_listed = |value: &Value| values.contains(&value);
            let text = Value::String(raw.to_owned());
            if is_listed(&text) {
                return text;
            }
            if is_listed(&parsed) {
                return parsed;
            }
        }
        let types = schema.types();
        let is_null = parsed.is_null() && types.has(Types::NULL);
        match types.has(Types::STRING) && !is_null {
            true => Value::String(raw.to_owned()),
            false => parsed,
        }
    }
}

/// JSON, a constant of Python, or else a string.
pub(crate) fn json_or_text(raw: &str) -> Value {
    match raw.trim() {
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        "None" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(raw.to_owned())),
    }
}
