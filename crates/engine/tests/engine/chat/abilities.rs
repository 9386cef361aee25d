//! Tool calls and thoughts of the built-in model, with its own template.

use pelton::chat::{Chat, Message, Reply, ToolCall};
use pelton::{FinishReason, Model};
use serde_json::{Value, json};

use super::{greedy, model, user};

fn reply(model: &Model, chat: &Chat) -> Reply {
    let mut stream = model.chat_with(chat, greedy().max_tokens(120)).unwrap();
    let reply = stream.wait().unwrap();
    assert_eq!(stream.finish_reason(), Some(FinishReason::End));
    reply
}

fn weather() -> Value {
    let city =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!({"type": "function", "function": {"name": "get_weather",
        "description": "Get the current weather in a city.", "parameters": city}})
}

#[test]
fn a_tool_is_called_and_its_result_is_told() {
    let model = model();
    let mut chat = Chat::new(user("What is the weather in Lima?"));
    chat.tools = vec![weather()];
    let called = reply(&model, &chat);
    assert_eq!((called.content.as_str(), called.tool_calls.len()), ("", 1), "{called:?}");
    let call = &called.tool_calls[0];
    assert_eq!(call.name, "get_weather");
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
    assert_eq!(arguments, json!({"city": "Lima"}));

    let mut message = Message::new("assistant", "");
    message.tool_calls = vec![ToolCall::new("1", &call.name, arguments)];
    chat.messages.push(message);
    chat.messages.push(Message::new("tool", "17 degrees, cloudy"));
    let told = reply(&model, &chat);
    assert!(told.tool_calls.is_empty(), "{told:?}");
    assert!(told.content.contains("17") && told.content.contains("cloudy"), "{told:?}");

    chat.messages = user("What is the capital of France?");
    let plain = reply(&model, &chat);
    assert!(plain.tool_calls.is_empty() && plain.content.contains("Paris"), "{plain:?}");
}

/// A thought comes where the prompt begins one, and only there.
#[test]
fn thoughts_are_asked_for() {
    let model = model();
    for (asked, answer) in [
        ("What is 7 + 8?", "15"),
        ("What is the capital of Japan?", "Tokyo"),
        ("Name three fruits.", "and"),
    ] {
        let mut chat = Chat::new(user(asked));
        let plain = reply(&model, &chat);
        assert!(plain.reasoning.is_empty() && plain.content.contains(answer), "{plain:?}");
        chat.enable_thinking = Some(true);
        let thought = reply(&model, &chat);
        assert!(!thought.reasoning.is_empty() && thought.content.contains(answer), "{thought:?}");
    }
}
