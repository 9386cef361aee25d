//! Recordings in pieces, and the detection of formats.

use std::path::PathBuf;

use pelton_chat::{Event, FORMATS, Format, Parser, Reply};
use pelton_testing::{Need, skip};
use serde_json::{Value, json};

use crate::recordings::RECORDINGS;
use crate::{check, parse, parser};

/// The tools of the recordings: `write` has values that look like numbers and are strings.
pub(crate) fn tools() -> Vec<Value> {
    let tool = |name: &str, properties: Value| {
        json!({"type": "function", "function": {"name": name, "parameters":
            {"type": "object", "properties": properties}}})
    };
    vec![
        tool("get_weather", json!({"city": {"type": "string"}, "days": {"type": "integer"}})),
        tool("get_time", json!({})),
        tool("write", json!({"text": {"type": "string"}, "id": {"type": ["string", "null"]}})),
        tool("brave_search", json!({"query": {"type": "string"}})),
        tool("f", json!({})),
    ]
}

#[test]
fn recordings_mean_the_same_however_they_are_cut() {
    for recording in RECORDINGS {
        let bytes = recording.output.as_bytes();
        let parser = || parser(recording.format, &tools());
        let whole = parse(parser(), [bytes]);
        check(&whole);
        let reply = Reply::from_events(whole.clone());
        let calls: Vec<(&str, &str)> =
            reply.tool_calls.iter().map(|c| (c.name.as_str(), c.arguments.as_str())).collect();
        let name = format!("{}: {:?}", recording.format, recording.output);
        assert_eq!(calls, recording.calls, "{name}: {whole:?}");
        assert_eq!(reply.reasoning, recording.reasoning, "{name}");
        assert_eq!(reply.content, recording.content, "{name}");
        for at in 0..=bytes.len() {
            let (a, b) = bytes.split_at(at);
            assert_eq!(parse(parser(), [a, b]), whole, "{name} cut at {at}");
        }
        assert_eq!(parse(parser(), bytes.chunks(1)), whole, "{name} byte by byte");
        assert_eq!(parse(parser(), bytes.chunks(3)), whole, "{name} in threes");
    }
    for format in FORMATS {
        let count = RECORDINGS.iter().filter(|r| r.format == format.name).count();
        assert!(count >= 1, "{} has no recording", format.name);
    }
}

#[test]
fn arguments_are_streamed() {
    let mut parser = parser("hermes", &[]);
    parser.push("<tool_call>{\"name\": \"f\", \"arguments\": {\"text\": \"");
    let events = parser.push("abc");
    assert_eq!(events, [Event::ToolCallArguments { index: 0, delta: "abc".into() }]);
}

/// Nothing of a call is reported before its name is that of a tool and its arguments have a value.
#[test]
fn calls_are_known_before_they_begin() {
    let text = "<tool_call>{\"name\": \"unknown\", \"arguments\": {\"a\": 1}}</tool_call>";
    for format in FORMATS.iter().filter(|format| format.calls.is_some()) {
        for recording in RECORDINGS.iter().filter(|recording| recording.format == format.name) {
            let other = vec![json!({"type": "function", "function": {"name": "other"}})];
            let events = parse(parser(format.name, &other), [recording.output.as_bytes()]);
            let is_text = |event: &Event| matches!(event, Event::Content(_) | Event::Reasoning(_));
            assert!(events.iter().all(is_text), "{}: {events:?}", recording.output);
        }
    }
    let events = parse(parser("hermes", &tools()), [text.as_bytes()]);
    assert_eq!(events, [Event::Content(text.into())]);
    let mut parser = parser("hermes", &tools());
    assert_eq!(parser.push("<tool_call>{\"name\": \"f\", \"arguments\": {\"text\":"), []);
    let events = parser.push(" no}}</tool_call>");
    assert!(matches!(&events[..], [Event::Content(_)]), "{events:?}");
}

#[test]
fn reasoning_that_the_prompt_began() {
    let format = Format::named("hermes").unwrap();
    let prompt = "<|im_start|>assistant\n<think>\n";
    let parser = || Parser::new(format, &[]).in_reasoning(format.is_reasoning(prompt));
    let reply = Reply::from_events(parse(parser(), [&b"Hm.\n</think>\n\nHello"[..]]));
    assert_eq!((reply.reasoning.as_str(), reply.content.as_str()), ("Hm.", "Hello"));
    // A call within the reasoning is not carried out.
    let text = b"Maybe <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>?";
    let reply = Reply::from_events(parse(parser(), [&text[..]]));
    assert!(reply.tool_calls.is_empty() && reply.content.is_empty());
}

#[test]
fn calls_are_content_without_tools() {
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    let parser = Parser::new(Format::named("hermes").unwrap(), &[]).without_calls();
    assert_eq!(parse(parser, [text.as_bytes()]), [Event::Content(text.into())]);
}

#[test]
fn control_tokens_without_meaning_are_left_out() {
    let mut parser = parser("hermes", &[]);
    let mut events = parser.push("Hi");
    events.extend(parser.push_control("<|endoftext|>"));
    events.extend(parser.push_control("<tool_call>"));
    events.extend(parser.push("{\"name\": \"f\", \"arguments\": {}}"));
    events.extend(parser.push_control("</tool_call>"));
    events.extend(parser.push_control("<|im_end|>"));
    events.extend(parser.finish());
    let reply = Reply::from_events(events);
    assert_eq!((reply.content.as_str(), reply.tool_calls.len()), ("Hi", 1));
}

#[test]
fn formats_of_published_templates() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/templates");
    for (file, expected) in [
        ("CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command"),
        ("HuggingFaceTB-SmolLM3-3B", "think"),
        ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"),
        ("Qwen-Qwen2.5-7B-Instruct", "hermes"),
        ("Qwen-Qwen3-0.6B", "hermes"),
        ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-v3"),
        ("google-gemma-2-2b-it", "plain"),
        ("google-gemma-4-31B-it", "gemma4"),
        ("ibm-granite-granite-3.3-2B-Instruct", "granite"),
        ("meta-llama-Llama-3.1-8B-Instruct", "llama3"),
        ("meta-llama-Llama-3.2-3B-Instruct", "llama3"),
        ("microsoft-Phi-3.5-mini-instruct", "plain"),
        ("mistralai-Mistral-Nemo-Instruct-2407", "mistral-array"),
        ("openai-gpt-oss-120b", "harmony"),
    ] {
        let path = folder.join(format!("{file}.jinja"));
        let Ok(source) = std::fs::read_to_string(&path) else {
            return skip(Need::Data, format_args!("{} is missing", path.display()));
        };
        assert_eq!(Format::detect(&source).name, expected, "{file}");
    }
}
