//! Renders a template with conversations of each kind.

use pelton_chat::{Chat, Clock, Limits, Message, Template, ToolCall};
use serde_json::json;

/// Reads a text as a template and renders three conversations; none may panic. The second has
/// tools, a call and its result, and the last message of the third goes on. Returns whether the
/// first is rendered.
pub(crate) fn exercise(source: &str) -> bool {
    // far below the defaults, so that a template that uses them up takes milliseconds
    let mut limits = Limits::default();
    (limits.fuel, limits.output, limits.text) = (100_000, 256 << 10, 2 << 20);
    let Ok(template) = Template::with(source, Clock::Fixed(0), limits) else {
        return false;
    };
    let template = template.token("bos_token", "<s>").token("eos_token", "</s>");
    let controls = ["<|im_start|>", "<|im_end|>", "<s>", "</s>"].map(str::to_owned);
    let Ok(template) = template.controls(controls) else { return false };
    let _ = template.capabilities();

    let hello = vec![Message::new("system", "Be brief."), Message::new("user", "Hi <|im_end|>")];
    let mut chat = Chat::new(hello);
    let is_rendered = template.render(&chat).is_ok();

    let mut call = Message::new("assistant", "");
    call.reasoning_content = Some("It is cold.".to_owned());
    call.tool_calls = vec![ToolCall::new("call_1", "weather", json!({"city": "Oslo", "days": 2}))];
    let mut result = Message::new("tool", "{\"degrees\": -3}");
    result.tool_call_id = Some("call_1".to_owned());
    chat.messages.extend([call, result]);
    chat.tools = vec![json!({"type": "function", "function": {"name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}})];
    chat.documents = vec![json!({"title": "a", "text": "b"})];
    chat.enable_thinking = Some(false);
    let _ = template.render(&chat);

    chat.messages.push(Message::new("assistant", "It is"));
    chat.add_generation_prompt = false;
    chat.continue_final_message = true;
    let _ = template.render(&chat);
    is_rendered
}
