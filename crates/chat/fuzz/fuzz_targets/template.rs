//! Any text as a chat template, with a conversation that has tools and a call.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pelton_chat::{Chat, Message, Template};
use serde_json::json;

fuzz_target!(|source: &str| {
    let Ok(template) = Template::new(source) else { return };
    let mut chat = Chat::new(vec![Message::new("system", "Be brief."), Message::new("user", "Hi")]);
    chat.tools = vec![json!({"type": "function", "function": {"name": "f", "parameters": {}}})];
    let _ = template.capabilities();
    let _ = template.render(&chat);
});
