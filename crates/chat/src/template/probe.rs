//! Detection of what a template supports, by rendering small conversations.

use serde_json::{Value, json};

/// The word that the probes look for in their results.
const WORD: &str = "peltonprobe";

/// The features that a template supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Content as a string.
    pub text_content: bool,
    /// Content as a list of parts.
    pub part_content: bool,
    /// System messages.
    pub system: bool,
    /// The role `developer`.
    pub developer: bool,
    /// Tools: their names are in the prompt.
    pub tools: bool,
    /// Tool calls in messages of the assistant.
    pub tool_calls: bool,
    /// Arguments of tool calls are to be JSON in a string, instead of an object.
    pub string_arguments: bool,
    /// The variable `enable_thinking` (or `thinking`) changes the prompt.
    pub thinking: bool,
    /// Without that variable the prompt is as if it were true.
    pub thinks_by_default: bool,
}

/// Renders the variables of a template; `None` if it fails.
type Render<'r> = dyn Fn(Value) -> Option<String> + 'r;

impl Capabilities {
    pub(super) fn detect(render: &Render<'_>) -> Self {
        let user = json!({"role": "user", "content": "hi"});
        let with = |messages: Value| render(json!({"messages": messages, "tools": null}));
        let contains = |text: Option<String>| text.is_some_and(|text| text.contains(WORD));
        let parts = with(json!([{"role": "user", "content": [{"type": "text", "text": WORD}]}]));
        let role = |role| contains(with(json!([{"role": role, "content": WORD}, user])));
        let calls = |arguments: Value| {
            with(json!([user, {"role": "assistant", "content": "", "tool_calls": [
                {"id": "call00001", "type": "function",
                 "function": {"name": WORD, "arguments": arguments}}]},
                {"role": "tool", "tool_call_id": "call00001", "name": WORD, "content": "1"}]))
        };
        let object = calls(json!({WORD: "1"})).filter(|text| text.contains(WORD));
        let string = calls(Value::String(format!("{{\"{WORD}\": \"1\"}}")));
        let string = string.filter(|text| text.contains(WORD));
        // A template that prints the object prints it as Python does, which no model has seen.
        let is_repr = |text: &String| text.contains(&format!("'{WORD}'"));
        let string_arguments =
            string.as_ref().is_some_and(|s| s.contains(&format!("{{\"{WORD}\": \"1\"}}")))
                && object.as_ref().is_none_or(is_repr);
        let thinking = |on: Option<bool>| {
            let mut variables =
                json!({"messages": [user], "tools": null, "add_generation_prompt": true});
            if let Some(on) = on {
                variables["enable_thinking"] = on.into();
                variables["thinking"] = on.into();
            }
            render(variables)
        };
        let tool = json!([{"type": "function", "function": {"name": WORD, "description": "",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}]);
        Self {
            text_content: contains(with(json!([{"role": "user", "content": WORD}]))),
            part_content: parts.is_some_and(|t| {
                t.contains(WORD) && !t.contains("'text'") && !t.contains("\"text\"")
            }),
            system: role("system"),
            developer: role("developer"),
            tools: contains(render(json!({"messages": [user], "tools": tool}))),
            tool_calls: object.is_some() || string.is_some(),
            string_arguments,
            thinking: thinking(Some(true)) != thinking(Some(false)),
            thinks_by_default: thinking(None) == thinking(Some(true)),
        }
    }
}
