//! The control token that ends an output is a part of no text, wherever it comes.

use pelton_chat::{Body, Calls, Event, FORMATS, Format, Parser, Separator};
use serde_json::json;

use crate::recordings::RECORDINGS;
use crate::table::tools;
use crate::{check, parse, parser};

/// The events of a text, after which the model ends the output by a control token.
fn ended(mut parser: Parser, text: &str, token: &str, push: Push) -> Vec<Event> {
    let mut events = parser.push(text);
    events.extend(push(&mut parser, token));
    events.extend(parser.finish());
    check(&events);
    parse_again(events)
}

type Push = fn(&mut Parser, &str) -> Vec<Event>;

/// Joins pieces of the same text.
fn parse_again(events: Vec<Event>) -> Vec<Event> {
    let mut joined: Vec<Event> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (Some(Event::Content(last)), Event::Content(text)) => last.push_str(&text),
            (Some(Event::Reasoning(last)), Event::Reasoning(text)) => last.push_str(&text),
            (
                Some(Event::ToolCallArguments { delta: last, .. }),
                Event::ToolCallArguments { delta, .. },
            ) => last.push_str(&delta),
            (_, event) => joined.push(event),
        }
    }
    joined
}

#[test]
fn thinking_that_is_ended() {
    for format in FORMATS.iter().filter(|format| format.reasoning.is_some()) {
        let open = format.reasoning.unwrap().open;
        for token in format.ends.iter().copied().chain(["<|endoftext|>"]) {
            for push in [Parser::push_control as Push, Parser::push_end] {
                let name = format!("{} {token}", format.name);
                let expected = [Event::Reasoning("abc".into())];
                let began = ended(Parser::new(format, &[]), &format!("{open}abc"), token, push);
                assert_eq!(began, expected, "{name}");
                let within = Parser::new(format, &[]).in_reasoning(true);
                assert_eq!(ended(within, "abc", token, push), expected, "{name}");
            }
        }
    }
    let text = "<|channel|>analysis<|message|>abc";
    for token in ["<|return|>", "<|end|>", "<|call|>", "<|endoftext|>"] {
        let harmony = || parser("harmony", &[]);
        for push in [Parser::push_control as Push, Parser::push_end] {
            assert_eq!(ended(harmony(), text, token, push), [Event::Reasoning("abc".into())]);
            let text = "<|channel|>final<|message|>abc";
            assert_eq!(ended(harmony(), text, token, push), [Event::Content("abc".into())]);
        }
    }
}

/// An end after any part of an output is as if the output were that part.
#[test]
fn outputs_that_are_ended_anywhere() {
    for recording in RECORDINGS {
        let format = Format::named(recording.format).unwrap();
        for (at, _) in recording.output.char_indices() {
            let text = &recording.output[..at];
            let parser = || parser(recording.format, &tools());
            let expected = parse(parser(), [text.as_bytes()]);
            for token in format.ends {
                for push in [Parser::push_control as Push, Parser::push_end] {
                    let events = ended(parser(), text, token, push);
                    let shown = |events: &[Event]| format!("{events:?}").matches(token).count();
                    assert_eq!(shown(&events), shown(&expected), "{}: {text:?}", format.name);
                    // a header of gpt-oss without a message is a text only if nothing ends it
                    if format.name != "harmony" {
                        assert_eq!(events, expected, "{}: {text:?} {token}", format.name);
                    }
                }
            }
        }
    }
}

/// A request that allows one call has the first complete one, and nothing after it.
#[test]
fn one_call_ends_the_events() {
    let mut several = 0;
    for recording in RECORDINGS {
        let all = parse(parser(recording.format, &tools()), [recording.output.as_bytes()]);
        let is_end = |event: &Event| matches!(event, Event::ToolCallEnd { .. });
        let first = all.iter().position(is_end);
        for size in [1, 3, 4096] {
            let mut parser = parser(recording.format, &tools()).with_one_call();
            let mut events = Vec::new();
            for piece in recording.output.as_bytes().chunks(size) {
                events.extend(parser.push_bytes(piece));
                assert_eq!(parser.is_done(), events.iter().any(is_end));
            }
            events.extend(parser.finish());
            let expected = &all[..first.map_or(all.len(), |at| at + 1)];
            assert_eq!(parse_again(events), expected, "{}", recording.format);
        }
        several += usize::from(all.iter().filter(|event| is_end(event)).count() > 1);
    }
    assert!(several > 5, "{several} recordings have several calls");
}

/// The body of a call of `f` with an integer.
fn body(body: Body, value: usize) -> String {
    match body {
        Body::Object { arguments } => {
            format!("{{\"name\": \"f\", \"{arguments}\": {{\"a\": {value}}}}}")
        }
        Body::Named { prefix, separator, id, is_numbered, suffix } => {
            let number = id.filter(|_| is_numbered).map_or(String::new(), |id| format!("{id}0"));
            format!("{prefix}f{number}{separator}{{\"a\": {value}}}{suffix}")
        }
        Body::Elements { name_end, parameter, parameter_end, value_end } => {
            let separator = match parameter_end {
                Separator::Text(first, second) => format!("{first}{second}"),
                Separator::Typed { json, .. } => json.to_owned(),
            };
            format!("f{name_end}{parameter}a{separator}{value}{value_end}")
        }
        Body::Gemma => format!("call:f{{a:{value}}}"),
        Body::Array { .. } | Body::Python | Body::Harmony => {
            panic!("{body:?} is written as a whole")
        }
    }
}

/// An output with two calls, in one list where the format has lists.
fn two_calls(calls: &Calls) -> String {
    let object = |value| body(Body::Object { arguments: "arguments" }, value);
    let one = |body: &str| {
        let open = calls.open.first().unwrap();
        format!("{open}{}{body}{}{}", calls.padding, calls.padding, calls.close)
    };
    let sections = |text: &str| match calls.sections.first() {
        Some((open, close)) => format!("{open}{}{text}{}{close}", calls.margin, calls.margin),
        None => text.to_owned(),
    };
    match calls.body {
        Body::Array { .. } => one(&format!("[{}, {}]", object(1), object(2))),
        Body::Python => one("[f(a=1), f(a=2)]"),
        Body::Harmony => [1, 2]
            .map(|value| {
                format!(
                    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{{\"a\": {value}}}<|call|>"
                )
            })
            .join("<|start|>assistant"),
        other => {
            let both = [1, 2].map(|value| one(&body(other, value)));
            match calls.section_each {
                true => both.map(|call| sections(&call)).join(calls.between),
                false => sections(&both.join(calls.between)),
            }
        }
    }
}

/// Two calls in every format, also where both come in one piece: the first arrives, and nothing
/// after it.
#[test]
fn one_call_of_two_in_every_format() {
    let tools = [json!({"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}}}}})];
    let mut formats = 0;
    for format in FORMATS {
        let Some(calls) = &format.calls else { continue };
        let text = two_calls(calls);
        let count = |events: &[Event]| {
            events.iter().filter(|event| matches!(event, Event::ToolCallEnd { .. })).count()
        };
        let both = parse(Parser::new(format, &tools), [text.as_bytes()]);
        assert_eq!(count(&both), 2, "{}: {text}\n{both:?}", format.name);
        for before in ["", "Let me see.\n"] {
            // a call without a marker begins an output
            let text = format!("{}{text}", if format.name == "harmony" { "" } else { before });
            for size in [1, 2, 7, 4096] {
                let mut parser = Parser::new(format, &tools).with_one_call();
                let mut events = Vec::new();
                for piece in text.as_bytes().chunks(size) {
                    events.extend(parser.push_bytes(piece));
                    assert_eq!(parser.is_done(), count(&events) == 1, "{}", format.name);
                }
                events.extend(parser.push_control(format.ends[0]));
                events.extend(parser.finish());
                check(&events);
                let calls: Vec<Event> = parse_again(events)
                    .into_iter()
                    .filter(|event| !matches!(event, Event::Content(_)))
                    .collect();
                let one = [
                    Event::ToolCallStart { index: 0, name: "f".into() },
                    Event::ToolCallArguments { index: 0, delta: "{\"a\":1}".into() },
                    Event::ToolCallEnd { index: 0 },
                ];
                assert_eq!(calls, one, "{} in pieces of {size}: {text}", format.name);
            }
        }
        formats += 1;
    }
    assert!(formats > 11, "{formats}");
}
