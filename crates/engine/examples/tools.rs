//! A tool: the model calls it, the program runs it, and the model answers with the result.
//!
//! `cargo run --release -p pelton --example tools`

use pelton::chat::{Chat, ChatOptions, Message, ToolChoice};
use pelton::{Engine, GenerateOptions, LoadOptions, ModelSource, Report, Sampling};
use serde_json::{Value, json};

fn weather(arguments: &str) -> String {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    format!("18 degrees and sunny in {}", arguments["city"].as_str().unwrap_or("an unknown place"))
}

fn main() -> Result<(), Report> {
    let engine = Engine::builder().build()?;
    let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
    let mut chat = Chat::new(vec![Message::new("user", "What is the weather in Paris?")]);
    chat.tools.push(json!({"type": "function", "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "required": ["city"], "additionalProperties": false,
            "properties": {"city": {"type": "string", "maxLength": 20}}}
    }}));

    let greedy = GenerateOptions::default().max_tokens(80).sampling(Sampling::greedy());
    let options = ChatOptions::from(greedy.clone()).tool_choice(ToolChoice::Required);
    let mut answer = model.chat_with(&chat, options.parallel_tool_calls(false))?;
    let calls = answer.wait()?.tool_calls;
    let message = answer.message();
    chat.messages.push(message.clone());
    for (call, sent) in calls.iter().zip(&message.tool_calls) {
        let result = weather(&call.arguments);
        println!("{}({}) = {result}", call.name, call.arguments);
        chat.messages.push(Message::tool_result(
            sent.id().unwrap_or_default(),
            &call.name,
            &result,
        ));
    }
    println!("{}", model.chat_with(&chat, greedy)?.wait()?.content);
    Ok(())
}
