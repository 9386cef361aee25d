//! Outputs that are cut or damaged anywhere: nothing is reported that the model did not write.

use pelton_chat::{Event, Parser};

use crate::recordings::{RECORDINGS, Recording};
use crate::table::tools;
use crate::{check, parse_to, parser};

/// A call as a client has it that joins the pieces of its arguments.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    name: String,
    arguments: String,
    complete: bool,
}

fn calls(events: &[Event]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for event in events {
        match event {
            Event::ToolCallStart { name, .. } => {
                calls.push(Call { name: name.clone(), arguments: String::new(), complete: false });
            }
            Event::ToolCallArguments { index, delta } => calls[*index].arguments.push_str(delta),
            Event::ToolCallEnd { index } => calls[*index].complete = true,
            _ => {}
        }
    }
    calls
}

/// The calls that a client shows after it has joined the pieces: broken calls are calls.
fn shown(events: &[Event]) -> String {
    let text = |event: &Event| match event {
        Event::Content(text) | Event::Reasoning(text) => text.clone(),
        Event::ToolCallArguments { delta, .. } => delta.clone(),
        _ => String::new(),
    };
    events.iter().map(text).collect()
}

/// A text without what arguments may lack: white space, and commas before closing brackets.
fn plain(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    text.replace(",}", "}").replace(",]", "]")
}

/// Parses a text whole, byte by byte and in threes, which must be the same.
fn events(recording: &Recording, text: &str, end: fn(&mut Parser) -> Vec<Event>) -> Vec<Event> {
    let parser = || parser(recording.format, &tools());
    let bytes = text.as_bytes();
    let whole = parse_to(parser(), [bytes], end);
    check(&whole);
    for size in [1, 3] {
        let pieces = parse_to(parser(), bytes.chunks(size), end);
        assert_eq!(pieces, whole, "{}: {text:?} in pieces of {size}", recording.format);
    }
    // no text comes twice
    for word in ["Paris", "city", "days", "oops", "cut of", "truth"] {
        let count = shown(&whole).matches(word).count();
        assert!(count <= text.matches(word).count(), "{text:?}: {whole:?}");
    }
    whole
}

/// Whether arguments are passed on as the model writes them: they are JSON in this format.
fn are_streamed(recording: &Recording) -> bool {
    ["harmony", "hermes", "mistral", "deepseek-v3", "deepseek-v3.1", "llama3"]
        .contains(&recording.format)
}

/// Whether calls of an output are JSON without escapes, and not as `TOOL.call(KEY=VALUE)`.
fn is_json(text: &str) -> bool {
    !text.contains(['\n', '\\']) && !text.contains(".call(")
}

#[test]
fn outputs_that_are_cut_anywhere() {
    let mut open = 0;
    for recording in RECORDINGS {
        let whole = calls(&events(recording, recording.output, Parser::finish));
        for (at, _) in recording.output.char_indices() {
            let text = &recording.output[..at];
            let cut = calls(&events(recording, text, Parser::cut));
            for (i, call) in cut.iter().enumerate() {
                let name = format!("{}: {text:?}: {call:?}", recording.format);
                // complete only by the model, and where it is not, the last one
                match whole.get(i) {
                    Some(whole) => {
                        assert_eq!(call.name, whole.name, "{name}");
                        assert!(whole.arguments.starts_with(&call.arguments), "{name}");
                        assert_eq!(call.complete, call.arguments == whole.arguments, "{name}");
                    }
                    // the text after the cut shows that there is no call
                    None => assert!(
                        !call.complete && plain(text).ends_with(&plain(&call.arguments)),
                        "{name}"
                    ),
                }
                assert!(call.complete || i + 1 == cut.len(), "{name}");
                open += usize::from(!call.complete);
            }
        }
    }
    assert!(open > 200, "only {open} calls were cut within their arguments");
}

/// The same output with a text in it that belongs nowhere.
#[test]
fn outputs_that_are_malformed_anywhere() {
    let mut broken = 0;
    for recording in RECORDINGS {
        for (at, _) in recording.output.char_indices() {
            for wrong in ["#", "}", "\"#", "]", "<"] {
                let (before, after) = recording.output.split_at(at);
                let text = format!("{before}{wrong}{after}");
                for end in [Parser::finish, Parser::cut] {
                    for call in calls(&events(recording, &text, end)) {
                        broken += usize::from(!call.complete);
                        if are_streamed(recording) && is_json(&text) {
                            let (text, own) = (plain(&text), plain(&call.arguments));
                            // an object with a name alone is a call without arguments
                            let alone = format!("{{\"name\":{:?}}}", call.name);
                            let has_none = own == "{}" && text.contains(&alone);
                            assert!(has_none || text.contains(&own), "{text:?}: {call:?}");
                        }
                    }
                }
            }
        }
    }
    assert!(broken > 200, "only {broken} calls broke after they had begun");
}

/// Where the answer is calls and nothing else, a cut one has no content: it would be markup.
#[test]
fn forced_calls_that_are_cut_have_no_content() {
    let (mut kept, mut left_out) = (0, 0);
    for recording in RECORDINGS {
        let whole = events(recording, recording.output, Parser::finish);
        if !matches!(whole.first(), Some(Event::ToolCallStart { .. })) {
            continue;
        }
        let first = recording.output.len() / 2;
        for at in (0..=first).filter(|at| recording.output.is_char_boundary(*at)) {
            let text = &recording.output[..at];
            let free = parse_to(parser(recording.format, &tools()), [text.as_bytes()], Parser::cut);
            let forced = parser(recording.format, &tools()).with_calls_only();
            let forced = parse_to(forced, [text.as_bytes()], Parser::cut);
            let is_content = |event: &&Event| matches!(event, Event::Content(_));
            assert!(!forced.iter().any(|event| is_content(&event)), "{text:?}: {forced:?}");
            let rest: Vec<&Event> = free.iter().filter(|event| !is_content(event)).collect();
            assert_eq!(forced.iter().collect::<Vec<_>>(), rest, "{text:?}");
            kept += usize::from(!rest.is_empty());
            left_out += usize::from(rest.len() < free.len());
        }
    }
    assert!(kept > 20 && left_out > 100, "{kept} with calls, {left_out} with content");
}

/// A cut call of a format whose arguments are written otherwise than in JSON is text.
#[test]
fn other_notations_are_text_where_they_are_cut() {
    for (format, text) in [
        ("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n"),
        ("glm4", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n"),
        ("gemma4", "<|tool_call>call:f{a:1}"),
        ("llama4", "<|python_start|>[f(a=1), f(a="),
    ] {
        let cut = parse_to(parser(format, &tools()), [text.as_bytes()], Parser::cut);
        assert!(matches!(&cut[..], [Event::Content(_)]), "{format}: {cut:?}");
    }
}
