//! Tools for chat templates that know none: they are explained in the conversation itself.

use pelton_chat::{Chat, Content, Message};

/// A chat without tools for a template that writes none. The system message lists them and explains
/// the calls of the Hermes models; earlier calls are part of the text of their messages, and results
/// are messages of the user.
pub(super) fn explained(chat: &Chat) -> Chat {
    let tools: Vec<String> = chat.tools.iter().map(ToString::to_string).collect();
    let text = format!(
        "You may call these tools, each a JSON object with its name and its parameters:\n{}\n\
         A call is written as <tool_call>\n{{\"name\": NAME, \"arguments\": OBJECT}}\n</tool_call>",
        tools.join("\n")
    );
    let mut explained = chat.clone();
    explained.tools.clear();
    let mut messages: Vec<Message> = Vec::with_capacity(chat.messages.len() + 1);
    for mut message in std::mem::take(&mut explained.messages) {
        if message.role == "tool" {
            let result = message.text().unwrap_or_default();
            let result = format!("<tool_response>\n{result}\n</tool_response>");
            // the results of several calls are one turn
            match messages.last_mut().filter(|last| last.extra.contains_key(RESULT)) {
                Some(last) => append(last, &result),
                None => {
                    let mut turn = Message::new("user", result);
                    turn.extra.insert(RESULT.to_owned(), true.into());
                    messages.push(turn);
                }
            }
            continue;
        }
        for call in std::mem::take(&mut message.tool_calls) {
            let arguments = call.arguments_object().unwrap_or_default();
            let call = serde_json::json!({"name": call.name(), "arguments": arguments});
            append(&mut message, &format!("<tool_call>\n{call}\n</tool_call>"));
        }
        messages.push(message);
    }
    for message in &mut messages {
        message.extra.remove(RESULT);
    }
    match messages.first_mut().filter(|first| first.role == "system") {
        Some(first) => append(first, &format!("\n{text}")),
        None => messages.insert(0, Message::new("system", text)),
    }
    explained.messages = messages;
    explained
}

/// The key of messages that are made from results, while they are made.
const RESULT: &str = "pelton_tool_result";

/// Adds a line to the text of a message.
fn append(message: &mut Message, line: &str) {
    let text = match message.text().filter(|text| !text.is_empty()) {
        Some(text) => format!("{text}\n{line}"),
        None => line.trim_start().to_owned(),
    };
    message.content = Some(Content::Text(text));
}

#[cfg(test)]
mod tests {
    use pelton_chat::ToolCall;
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
        let chat = explained(&chat);
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
        let text = explained(&brief).messages[0].text().unwrap();
        assert!(text.starts_with("Be brief.\n\nYou may call"), "{text}");
    }
}
