//! The messages of a conversation, as clients send them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, picture};

/// A message of a conversation.
///
/// It deserializes from the JSON of chat APIs: `content` is a string, null or a list of parts. The
/// reasoning is accepted as `reasoning_content`, `reasoning` or `thinking`, and unknown keys are
/// kept for the template.
///
/// ```
/// let message: pelton_chat::Message = serde_json::from_str(
///     r#"{"role": "assistant", "content": null, "reasoning": "Hm.", "tool_calls": [
///         {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}"#,
/// )?;
/// assert_eq!(message.reasoning_content.as_deref(), Some("Hm."));
/// assert_eq!(message.tool_calls[0].name(), "f");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "Value", into = "Value")]
#[non_exhaustive]
pub struct Message {
    /// The author: `system`, `developer`, `user`, `assistant`, `tool`, or a role that the template
    /// names.
    pub role: String,
    /// The text or its parts.
    pub content: Option<Content>,
    /// The reasoning of an assistant's message.
    pub reasoning_content: Option<String>,
    /// The tools that an assistant's message calls.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a message of role `tool` answers.
    pub tool_call_id: Option<String>,
    /// The name of the author, or of the tool that a message of role `tool` comes from.
    pub name: Option<String>,
    /// All other keys.
    pub extra: Map<String, Value>,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Parts, such as `{"type": "text", "text": "Hello"}`. A picture is `{"type": "image_url",
    /// "image_url": {"url": "data:image/png;base64,…"}}`, and has the forms of other APIs too.
    Parts(Vec<Map<String, Value>>),
}

impl Content {
    /// The texts of all parts, joined by newlines; `None` if a part is not text.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Parts(parts) => {
                let texts: Option<Vec<&str>> =
                    parts.iter().map(|part| part.get("text").and_then(Value::as_str)).collect();
                Some(texts?.join("\n"))
            }
        }
    }
}

impl Message {
    /// The text of the content; `None` if there is none, or a part of it is not text.
    pub fn text(&self) -> Option<String> {
        self.content.as_ref().and_then(Content::text)
    }

    /// The result of a tool, which answers the call with an identifier.
    pub fn tool_result(
        id: impl Into<String>,
        name: impl Into<String>,
        result: impl Into<String>,
    ) -> Self {
        Self { tool_call_id: Some(id.into()), name: Some(name.into()), ..Self::new("tool", result) }
    }

    /// A message with pictures, as the bytes of their files, before a text.
    ///
    /// ```
    /// let png = [0x89, b'P', b'N', b'G'];
    /// let message = pelton_chat::Message::with_images("user", "What is this?", [png]);
    /// assert_eq!(message.images().count(), 1);
    /// ```
    pub fn with_images(
        role: impl Into<String>,
        text: impl Into<String>,
        images: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Self {
        let images = images.into_iter().map(|bytes| picture::image_file(bytes.as_ref()));
        let parts = images.chain([picture::text_part(&text.into())]).collect();
        Self { role: role.into(), content: Some(Content::Parts(parts)), ..Self::default() }
    }

    /// The parts of the content that are pictures.
    pub fn images(&self) -> impl Iterator<Item = &Map<String, Value>> {
        let parts = match &self.content {
            Some(Content::Parts(parts)) => parts.as_slice(),
            _ => &[],
        };
        parts.iter().filter(|part| picture::is_image(part))
    }

    /// A message with a text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: Some(Content::Text(content.into())), ..Self::default() }
    }
}

/// A call of a tool by an assistant's message.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// `{"id", "type", "function": {"name", "arguments"}}`; the order of keys is kept, because
    /// templates print it.
    json: Map<String, Value>,
}

impl ToolCall {
    /// A call with arguments, which are an object or an object written as JSON in a string.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        let mut function = Map::new();
        function.insert("name".into(), Value::String(name.into()));
        function.insert("arguments".into(), arguments);
        let mut json = Map::new();
        json.insert("id".into(), Value::String(id.into()));
        json.insert("type".into(), Value::String("function".into()));
        json.insert("function".into(), Value::Object(function));
        Self { json }
    }

    fn from_json(value: Value) -> Result<Self, Error> {
        let Value::Object(mut json) = value else {
            return Err(invalid("a tool call is not an object"));
        };
        if !json.contains_key("function") {
            let function: Map<_, _> =
                ["name", "arguments"].iter().filter_map(|&key| json.remove_entry(key)).collect();
            json.insert("function".into(), Value::Object(function));
        }
        let call = Self { json };
        match call.function().and_then(|function| function.get("name")) {
            Some(Value::String(_)) => Ok(call),
            _ => Err(invalid("a tool call has no function name, expected function.name")),
        }
    }

    fn function(&self) -> Option<&Map<String, Value>> {
        self.json.get("function")?.as_object()
    }

    /// The name of the tool.
    pub fn name(&self) -> &str {
        self.function().and_then(|f| f.get("name")).and_then(Value::as_str).unwrap_or_default()
    }

    /// The identifier of the call.
    pub fn id(&self) -> Option<&str> {
        self.json.get("id").and_then(Value::as_str)
    }

    /// The arguments as they were given.
    pub fn arguments(&self) -> &Value {
        self.function().and_then(|function| function.get("arguments")).unwrap_or(&Value::Null)
    }

    /// The arguments as an object: a string is parsed as JSON, and the empty string and null are no
    /// arguments.
    ///
    /// # Errors
    /// If they are something else than an object.
    pub fn arguments_object(&self) -> Result<Map<String, Value>, Error> {
        let parsed = match self.arguments() {
            Value::Null => Value::Object(Map::new()),
            Value::String(text) if text.trim().is_empty() => Value::Object(Map::new()),
            Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
            other => other.clone(),
        };
        match parsed {
            Value::Object(object) => Ok(object),
            _ => Err(Error::Invalid(format!(
                "the arguments of the call of {:?} are not a JSON object",
                self.name()
            ))),
        }
    }

    /// The arguments as an object; as their text if they are none, as small models write them.
    pub fn arguments_or_text(&self) -> Value {
        match (self.arguments_object(), self.arguments()) {
            (Ok(object), _) => Value::Object(object),
            (Err(_), Value::String(text)) => text.as_str().into(),
            (Err(_), other) => other.to_string().into(),
        }
    }

    /// The JSON of the call, with other arguments.
    pub(crate) fn json_with(&self, arguments: Value) -> Value {
        let mut json = self.json.clone();
        if let Some(Value::Object(function)) = json.get_mut("function") {
            function.insert("arguments".into(), arguments);
        }
        Value::Object(json)
    }

    /// The JSON of the call.
    pub(crate) fn json(&self) -> Value {
        Value::Object(self.json.clone())
    }
}

fn invalid(reason: &str) -> Error {
    Error::Invalid(reason.to_owned())
}

impl TryFrom<Value> for Message {
    type Error = Error;

    fn try_from(value: Value) -> Result<Self, Error> {
        let Value::Object(mut json) = value else {
            return Err(invalid("a message is not an object"));
        };
        let mut take = |key: &str| json.shift_remove(key).filter(|value| !value.is_null());
        let text = |key: &str, value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Error::Invalid(format!("{key} of a message is not a string"))),
        };
        let role = text("role", take("role"))?.ok_or_else(|| invalid("a message has no role"))?;
        let content = take("content").map(content).transpose()?;
        let mut reasoning_content = None;
        for key in ["reasoning_content", "thinking", "reasoning"] {
            let found = text(key, take(key))?;
            reasoning_content = reasoning_content.or(found);
        }
        let tool_calls = match take("tool_calls") {
            None => Vec::new(),
            Some(Value::Array(calls)) => {
                calls.into_iter().map(ToolCall::from_json).collect::<Result<_, _>>()?
            }
            Some(_) => return Err(invalid("tool_calls of a message is not a list")),
        };
        let tool_call_id = text("tool_call_id", take("tool_call_id"))?;
        let name = text("name", take("name"))?;
        json.retain(|_, value| !value.is_null());
        Ok(Self { role, content, reasoning_content, tool_calls, tool_call_id, name, extra: json })
    }
}

impl From<Message> for Value {
    /// The JSON of chat APIs, without the keys that have no value.
    fn from(message: Message) -> Self {
        let Message { role, content, reasoning_content, tool_calls, tool_call_id, name, extra } =
            message;
        let mut json = Map::new();
        json.insert("role".into(), role.into());
        let content = match content {
            Some(Content::Text(text)) => Some(Value::String(text)),
            Some(Content::Parts(parts)) => Some(parts.into_iter().map(Value::Object).collect()),
            None => None,
        };
        let calls = (!tool_calls.is_empty())
            .then(|| tool_calls.into_iter().map(|call| Value::Object(call.json)).collect());
        let texts = [
            ("content", content),
            ("reasoning_content", reasoning_content.map(Value::String)),
            ("tool_calls", calls),
            ("tool_call_id", tool_call_id.map(Value::String)),
            ("name", name.map(Value::String)),
        ];
        json.extend(texts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        for (key, value) in extra {
            json.entry(key).or_insert(value);
        }
        Value::Object(json)
    }
}

fn content(value: Value) -> Result<Content, Error> {
    match value {
        Value::String(text) => Ok(Content::Text(text)),
        Value::Array(parts) => {
            let part = |part| match part {
                Value::Object(part) => Ok(part),
                Value::String(text) => Ok(picture::text_part(&text)),
                _ => Err(invalid("a part of a message's content is not an object")),
            };
            Ok(Content::Parts(parts.into_iter().map(part).collect::<Result<_, _>>()?))
        }
        _ => Err(invalid("the content of a message is not a string or a list of parts")),
    }
}
