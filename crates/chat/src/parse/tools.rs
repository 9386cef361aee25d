//! The schemas of tools, for values that are written without quotation marks.

use std::collections::BTreeMap;

use serde_json::Value;

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

    /// A raw value as the schema of its parameter says: a string, or JSON if it is some.
    pub(crate) fn value(&self, tool: &str, parameter: &str, raw: &str) -> Value {
        let schema = self.0.get(tool).and_then(|schema| schema.get("properties")?.get(parameter));
        let is_string = schema.is_some_and(|schema| match &schema["type"] {
            Value::String(name) => name == "string",
            Value::Array(names) => names.iter().any(|name| name == "string"),
            _ => schema["enum"].as_array().is_some_and(|all| all.iter().all(Value::is_string)),
        });
        if is_string { Value::String(raw.to_owned()) } else { json_or_text(raw) }
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
