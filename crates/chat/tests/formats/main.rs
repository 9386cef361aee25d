//! Outputs of all formats, whole and in pieces.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod cuts;
mod ends;
mod garbage;
mod grammar;
mod recordings;
mod table;
mod templates;
mod types;

use pelton_chat::{Event, Format, Parser};
use serde_json::Value;

/// Parses pieces and joins the events that belong together.
pub(crate) fn parse<'p>(parser: Parser, pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<Event> {
    parse_to(parser, pieces, Parser::finish)
}

/// Parses pieces to an end, and joins the events that belong together.
pub(crate) fn parse_to<'p>(
    mut parser: Parser,
    pieces: impl IntoIterator<Item = &'p [u8]>,
    end: fn(&mut Parser) -> Vec<Event>,
) -> Vec<Event> {
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(parser.push_bytes(piece));
    }
    events.extend(end(&mut parser));
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

/// A parser of a format.
pub(crate) fn parser(format: &str, tools: &[Value]) -> Parser {
    Parser::new(Format::named(format).unwrap(), tools)
}

/// Checks what holds for the events of any output. Calls are numbered and end, and their arguments
/// are a JSON object where they are complete, and no JSON where they are not.
pub(crate) fn check(events: &[Event]) {
    let mut open: Option<(usize, String)> = None;
    let mut next = 0;
    for event in events {
        match event {
            Event::Content(text) | Event::Reasoning(text) => {
                assert!(open.is_none() && !text.is_empty());
            }
            Event::ToolCallStart { index, name } => {
                assert!(open.is_none() && !name.is_empty());
                assert_eq!(*index, next);
                next += 1;
                open = Some((*index, String::new()));
            }
            Event::ToolCallArguments { index, delta } => {
                let (open, arguments) = open.as_mut().unwrap();
                assert_eq!(index, open);
                arguments.push_str(delta);
            }
            Event::ToolCallEnd { index } => {
                let (open, arguments) = open.take().unwrap();
                assert_eq!(*index, open);
                let parsed: Value = serde_json::from_str(&arguments).unwrap_or_else(|error| {
                    panic!("{arguments:?}: {error} in {events:?}");
                });
                assert!(parsed.is_object(), "{arguments}");
            }
            Event::ToolCallBroken { index, text } => {
                let (open, arguments) = open.take().unwrap();
                assert_eq!(*index, open);
                assert!(arguments.starts_with('{') && !text.is_empty(), "{events:?}");
                let parsed = serde_json::from_str::<Value>(&arguments);
                assert!(parsed.is_err(), "{arguments:?} looks complete in {events:?}");
            }
        }
    }
    assert!(open.is_none(), "{events:?}");
}
