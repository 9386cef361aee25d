//! Tools for chat templates that know none: they are explained in the conversation itself.

use std::borrow::Cow;

use pelton_chat::{Capabilities, Chat, Content, Message, is_image, text_part};
use serde_json::{Map, Value};

/// A part of a message.
type Part = Map<String, Value>;

/// A chat for a template that does not write tools, or calls. The system message lists the tools
/// and explains the calls of the Hermes models. Earlier calls are part of the text of their
/// messages, and results are messages of the user.
pub(super) fn explained(mut chat: Cow<'_, Chat>, can: Capabilities) -> Cow<'_, Chat> {
    let explains = !can.tools && !chat.tools.is_empty();
    if has_calls(&chat) && (explains || !can.tool_calls) {
        write_calls(chat.to_mut());
    }
    if explains {
        explain_tools(chat.to_mut());
    }
    chat
}

/// Whether a message calls tools or is the result of one.
fn has_calls(chat: &Chat) -> bool {
    chat.messages.iter().any(|message| !message.tool_calls.is_empty() || message.role == "tool")
}

/// Moves the tools to the system message.
fn explain_tools(chat: &mut Chat) {
    let tools: Vec<String> = chat.tools.drain(..).map(|tool| tool.to_string()).collect();
    let text = format!(
        "You may call these tools, each a JSON object with its name and its parameters:\n{}\n\
         A call is written as <tool_call>\n{{\"name\": NAME, \"arguments\": OBJECT}}\n</tool_call>",
        tools.join("\n")
    );
    match chat.messages.first_mut().filter(|first| first.role == "system") {
        Some(first) => append(first, &format!("\n{text}")),
        None => chat.messages.insert(0, Message::new("system", text)),
    }
}

/// Writes calls and their results as texts.
fn write_calls(chat: &mut Chat) {
    let mut messages: Vec<Message> = Vec::with_capacity(chat.messages.len() + 1);
    for mut message in std::mem::take(&mut chat.messages) {
        if message.role == "tool" {
            let (images, result) = split(&message);
            let result = format!("<tool_response>\n{result}\n</tool_response>");
            // the results of several calls are one turn
            if messages.last().is_none_or(|last| !last.extra.contains_key(RESULT)) {
                let mut turn = Message::new("user", "");
                turn.extra.insert(RESULT.to_owned(), true.into());
                messages.push(turn);
            }
            if let Some(turn) = messages.last_mut() {
                append(turn, &result);
                show(turn, images);
            }
            continue;
        }
        for call in std::mem::take(&mut message.tool_calls) {
            let arguments = call.arguments_or_text();
            let call = serde_json::json!({"name": call.name(), "arguments": arguments});
            append(&mut message, &format!("<tool_call>\n{call}\n</tool_call>"));
        }
        messages.push(message);
    }
    for message in &mut messages {
        message.extra.remove(RESULT);
    }
    chat.messages = messages;
}

/// The key of messages that are made from results, while they are made.
const RESULT: &str = "pelton_tool_result";

/// The pictures of a result, and its text.
fn split(message: &Message) -> (Vec<Part>, String) {
    let images = message.images().cloned().collect();
    let texts = match &message.content {
        Some(Content::Parts(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => message.text().unwrap_or_default(),
    };
    (images, texts)
}

/// Adds pictures to a message.
fn show(message: &mut Message, images: Vec<Part>) {
    if images.is_empty() {
        return;
    }
    let mut parts = match message.content.take() {
        Some(Content::Parts(parts)) => parts,
        Some(Content::Text(text)) => vec![text_part(&text)],
        None => Vec::new(),
    };
    parts.extend(images);
    message.content = Some(Content::Parts(parts));
}

/// Adds a line to the text of a message, or after its pictures.
fn append(message: &mut Message, line: &str) {
    if let Some(Content::Parts(parts)) = &mut message.content
        && parts.iter().any(is_image)
    {
        parts.push(text_part(line));
        return;
    }
    let text = match message.text().filter(|text| !text.is_empty()) {
        Some(text) => format!("{text}\n{line}"),
        None => line.trim_start().to_owned(),
    };
    message.content = Some(Content::Text(text));
}

#[cfg(test)]
mod tests {
    use pelton_chat::{Template, ToolCall};
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_calls_and_results_are_text() {
        let mut called = Message::new("assistant", "");
        called.content = None;
        called.tool_calls = ["a", "b"].map(|id| ToolCall::new(id, "f", json!("{\"x\": 1}"))).into();
        let mut chat = Chat::new(vec![
            Message::new("user", "Go."),
            called,
            Message::tool_result("a", "f", "one"),
            Message::tool_result("b", "f", "two"),
            Message::new("assistant", "Done."),
        ]);
        chat.tools = vec![json!({"function": {"name": "f"}})];
        let none = Template::new("{% for m in messages %}{{ m.content }}{% endfor %}").unwrap();
        let none = none.capabilities();
        let chat = explained(Cow::Owned(chat), none);
        let texts: Vec<_> = chat.messages.iter().map(|m| (&*m.role, m.text().unwrap())).collect();
        assert!(texts[0].0 == "system" && texts[0].1.contains("{\"name\":\"f\"}"), "{texts:?}");
        let call = "<tool_call>\n{\"name\":\"f\",\"arguments\":{\"x\":1}}\n</tool_call>";
        let results =
            "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>";
        assert_eq!(
            texts[1..],
            [
                ("user", "Go.".to_owned()),
                ("assistant", format!("{call}\n{call}")),
                ("user", results.to_owned()),
                ("assistant", "Done.".to_owned()),
            ]
        );
        assert!(chat.tools.is_empty() && chat.messages.iter().all(|m| m.extra.is_empty()));
        let mut brief = Chat::new(vec![Message::new("system", "Be brief.")]);
        brief.tools = vec![json!({"name": "g"})];
        let text = explained(Cow::Borrowed(&brief), none).messages[0].text().unwrap();
        assert!(text.starts_with("Be brief.\n\nYou may call"), "{text}");
        // calls of a conversation without tools, one of which is cut
        let mut called = Message::new("assistant", "I look.");
        called.tool_calls = vec![ToolCall::new("a", "f", json!("{\"x\": "))];
        let chat = Chat::new(vec![called]);
        let text = explained(Cow::Owned(chat), none).messages[0].text().unwrap();
        let call = "<tool_call>\n{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": \"}\n</tool_call>";
        assert_eq!(text, format!("I look.\n{call}"));
    }
}
