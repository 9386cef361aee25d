//! Published templates write calls of past messages that the parser reads and the grammar allows.

use std::path::PathBuf;

use pelton_chat::{Chat, Clock, Format, Limits, Message, Parser, Reply, Rule, Template, ToolCall};
use pelton_testing::{Need, skip};
use serde_json::{Value, json};

use crate::parse;

#[test]
fn calls_that_templates_write() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/templates");
    let arguments = json!({"city": "Pa \"ris\" é", "days": 2});
    let tools = [json!({"type": "function", "function": {"name": "get_weather", "description": "",
        "parameters": {"type": "object", "required": ["city", "days"], "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"}}}}})];
    for (file, exact) in [
        ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", true),
        ("Qwen-Qwen2.5-7B-Instruct", true),
        ("Qwen-Qwen3-0.6B", true),
        ("google-gemma-4-31B-it", true),
        // The template writes arguments twice encoded where they are no string.
        ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", false),
        ("meta-llama-Llama-3.1-8B-Instruct", true),
        ("meta-llama-Llama-3.2-3B-Instruct", true),
        ("mistralai-Mistral-Nemo-Instruct-2407", false),
        // The recipient is before the channel in the template, and after it in the model's output.
        ("openai-gpt-oss-120b", false),
    ] {
        let path = folder.join(format!("{file}.jinja"));
        let Ok(source) = std::fs::read_to_string(&path) else {
            return skip(Need::Data, format_args!("{} is missing", path.display()));
        };
        let template = Template::with(&source, Clock::Fixed(0), Limits::default())
            .unwrap()
            .token("bos_token", "")
            .token("eos_token", "");
        let mut call = Message::new("assistant", "");
        call.tool_calls = vec![ToolCall::new("abcdefghi", "get_weather", arguments.clone())];
        let mut chat = Chat::new(vec![Message::new("user", "Hi")]);
        chat.tools = tools.to_vec();
        let prompt = template.render(&chat).unwrap().text();
        let mut result = Message::new("tool", "{}");
        result.tool_call_id = Some("abcdefghi".into());
        chat.messages.extend([call, result]);
        chat.add_generation_prompt = false;
        let text = template.render(&chat).unwrap().text();

        // The output of the model begins where the generation prompt ends; templates may write
        // empty reasoning there that they leave out later.
        let same = prompt.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        let format = Format::detect(&source);
        let open = format.calls.unwrap().open.first().copied().unwrap_or_default();
        // The prompt may go on with another marker that begins alike.
        let alike = (1..open.len())
            .rev()
            .find(|&n| text.as_bytes()[..same].ends_with(&open.as_bytes()[..n]));
        let output = &text[text.floor_char_boundary(same - alike.unwrap_or(0))..];
        let reply = Reply::from_events(parse(Parser::new(format, &tools), [output.as_bytes()]));
        assert_eq!(reply.tool_calls.len(), 1, "{file}: {output:?}");
        assert_eq!(reply.tool_calls[0].name, "get_weather");
        let parsed: Value = serde_json::from_str(&reply.tool_calls[0].arguments).unwrap();
        assert_eq!(parsed, arguments, "{file}: {output:?}");

        if exact {
            let grammar = format.grammar(&tools, false).unwrap().unwrap();
            let Rule::Sequence(rules) = grammar.calls else { panic!("{:?}", grammar.calls) };
            let mut at = 0;
            for rule in rules {
                if let Rule::Text(part) = rule {
                    let found = output[at..].find(&part);
                    at += found.unwrap_or_else(|| panic!("{file}: no {part:?} in {output:?}"));
                    at += part.len();
                }
            }
        }
    }
}
