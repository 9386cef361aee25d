//! The control token that ends an output is a part of no text, wherever it comes.

use pelton_chat::{Event, FORMATS, Format, Parser};

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
