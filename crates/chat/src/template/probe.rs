//! Detection of what a template supports, by rendering small conversations.

use serde_json::{Value, json};

/// The word that the probes look for in their results.
const WORD: &str = "peltonprobe";

/// The content of the messages whose forms are probed.
const CONTENT: &str = "peltoncontent";

/// The roles whose content is probed, in the order of [`Capabilities::forms`].
const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// The features that a template supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Content of the user as a string.
    pub text_content: bool,
    /// Content of the user as a list of parts, with the prompt that a string has.
    pub part_content: bool,
    /// Pictures in messages of the user: their placeholder is in the prompt.
    pub images: bool,
    /// Pictures in results of tools.
    pub(super) tool_images: bool,
    /// System messages.
    pub system: bool,
    /// Several system messages at the beginning.
    pub several_systems: bool,
    /// System messages after other messages.
    pub later_systems: bool,
    /// The role `developer`, by its name.
    pub developer: bool,
    /// Tools: their names are in the prompt.
    pub tools: bool,
    /// Tool calls in messages of the assistant.
    pub tool_calls: bool,
    /// The content of messages with tool calls is to be null instead of empty.
    pub null_content: bool,
    /// Arguments of tool calls are to be JSON in a string, instead of an object.
    pub string_arguments: bool,
    /// The variable `enable_thinking` (or `thinking`) changes the prompt.
    pub thinking: bool,
    /// Without that variable the prompt is as if it were true.
    pub thinks_by_default: bool,
    /// The content of each of [`ROLES`].
    forms: [Form; ROLES.len()],
}

/// How a template takes the content of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) text: bool,
    pub(super) parts: bool,
}

/// Renders the variables of a template; `None` if it fails.
type Render<'r> = dyn Fn(Value) -> Option<String> + 'r;

impl Capabilities {
    /// How the template takes the content of a role; of one that it may not know as that of the
    /// user.
    pub(super) fn form(&self, role: &str) -> Form {
        let at = ROLES.iter().position(|known| *known == role).unwrap_or(2);
        self.forms[at]
    }

    /// Whether the template writes the pictures of a role.
    pub(super) fn writes_images(&self, role: &str) -> bool {
        if role == "tool" { self.tool_images } else { self.images }
    }

    /// Probes a template. `names` tells whether its source has a role in quotation marks. `image`
    /// is the placeholder of a picture.
    pub(super) fn detect(
        render: &Render<'_>,
        names: &dyn Fn(&str) -> bool,
        image: Option<&str>,
    ) -> Self {
        let with = |messages: Value| render(json!({"messages": messages, "tools": null}));
        let of_user = form(&|content| with(json!([{"role": "user", "content": content}])));
        let say = |text: &str| match of_user.text || !of_user.parts {
            true => Value::from(text),
            false => json!([{"type": "text", "text": text}]),
        };
        let user = json!({"role": "user", "content": say("hi")});
        let contains = |text: Option<String>| text.is_some_and(|text| text.contains(WORD));
        let role = |role| contains(with(json!([{"role": role, "content": say(WORD)}, user])));
        let call = |content: Value, arguments: Value, result: Value| {
            with(json!([user, {"role": "assistant", "content": content, "tool_calls": [
                {"id": "call00001", "type": "function",
                 "function": {"name": WORD, "arguments": arguments}}]},
                {"role": "tool", "tool_call_id": "call00001", "name": WORD, "content": result}]))
        };
        let named = |text: &String| text.contains(WORD);
        let as_string = Value::String(format!("{{\"{WORD}\": \"1\"}}"));
        let calls = |content: Value| {
            let object = call(content.clone(), json!({WORD: "1"}), say("1")).filter(named);
            (object, call(content, as_string.clone(), say("1")).filter(named))
        };
        let (empty, nulls) = (calls(say("")), calls(Value::Null));
        let null_content = is_better((&nulls.0, &nulls.1), (&empty.0, &empty.1));
        let (object, string) = if null_content { nulls } else { empty };
        // A template that prints the object prints it as Python does, which no model has seen.
        let is_repr = |text: &String| text.contains(&format!("'{WORD}'"));
        let string_arguments =
            string.as_ref().is_some_and(|s| s.contains(&format!("{{\"{WORD}\": \"1\"}}")))
                && object.as_ref().is_none_or(is_repr);
        let called = |result: Value| {
            let arguments = if string_arguments { as_string.clone() } else { json!({"a": "1"}) };
            let content = if null_content { Value::Null } else { say("") };
            call(content, arguments, result)
        };
        let system = role("system");
        let one = |word: &str| json!({"role": "system", "content": say(&format!("{WORD}{word}"))});
        let both = |messages: Value| {
            let text = with(messages).unwrap_or_default();
            ["first", "second"].iter().all(|word| text.contains(&format!("{WORD}{word}")))
        };
        let answer = json!({"role": "assistant", "content": say("ok")});
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
        let forms = ROLES.map(|role| {
            form(&|content| match role {
                "user" => with(json!([{"role": role, "content": content}])),
                "assistant" => with(json!([user, {"role": role, "content": content}, user])),
                "tool" => called(content),
                _ => with(json!([{"role": role, "content": content}, user])),
            })
        });
        let shows = |render: &dyn Fn(Value) -> Option<String>| {
            let Some(image) = image else { return false };
            let text = json!({"type": "text", "text": WORD});
            let (with, without) = (json!([{"type": "image"}, text]), json!([text]));
            let count = |text: &String| text.matches(image).count();
            let without = render(without).as_ref().map_or(0, count);
            let with = render(with).filter(|text| text.contains(WORD));
            with.as_ref().map(count) == Some(without + 1)
        };
        Self {
            images: shows(&|content| with(json!([{"role": "user", "content": content}]))),
            tool_images: shows(&called),
            text_content: forms[2].text,
            part_content: forms[2].parts,
            system,
            several_systems: system && both(json!([one("first"), one("second"), user])),
            later_systems: system && both(json!([one("first"), user, answer, one("second"), user])),
            developer: names("developer") && role("developer"),
            tools: contains(render(json!({"messages": [user], "tools": tool}))),
            tool_calls: object.is_some() || string.is_some(),
            null_content,
            string_arguments,
            thinking: thinking(Some(true)) != thinking(Some(false)),
            thinks_by_default: thinking(None) == thinking(Some(true)),
            forms,
        }
    }
}

/// Whether calls are written better beside null than beside an empty content: those are not
/// written, or as another text, and null is not written as a word. Each is a rendering with the
/// arguments as an object and one with them as a string.
fn is_better(
    nulls: (&Option<String>, &Option<String>),
    empty: (&Option<String>, &Option<String>),
) -> bool {
    let better = |null: &Option<String>, empty: &Option<String>| match (null, empty) {
        (Some(null), Some(empty)) => {
            let words = |text: &str| ["None", "null"].map(|word| text.matches(word).count());
            null != empty && words(null) == words(empty)
        }
        (Some(_), None) => true,
        (None, _) => false,
    };
    let is_worse = empty.0.is_some() && nulls.0.is_none() || empty.1.is_some() && nulls.1.is_none();
    !is_worse && (better(nulls.0, empty.0) || better(nulls.1, empty.1))
}

/// The forms of content that a template takes, which `render` renders in a message.
fn form(render: &dyn Fn(Value) -> Option<String>) -> Form {
    let is_there = |text: &String| text.contains(CONTENT);
    let text = render(CONTENT.into()).filter(is_there);
    let parts = render(json!([{"type": "text", "text": CONTENT}])).filter(is_there);
    let parts = match (&text, &parts) {
        (Some(text), Some(parts)) => text == parts,
        // A template that prints the list prints its keys too.
        (None, Some(parts)) => !parts.contains("'text'") && !parts.contains("\"text\""),
        (_, None) => false,
    };
    Form { text: text.is_some(), parts }
}
