//! gpt-oss: messages with a header that names a channel and a recipient.

use super::event::Events;
use super::scan::{Begins, Found, begins, find};
use super::step::{Arguments, Context, Step, is_name};
use super::tools::Tools;

/// Bytes of a header, at most.
const HEADER: usize = 512;

const MESSAGE: &str = "<|message|>";

/// Markers that end a header, the first one as it should.
const HEADER_ENDS: [&str; 4] = [MESSAGE, "<|end|>", "<|return|>", "<|call|>"];

/// Markers that end a message. The last two begin the next header, if the model left out the end.
const ENDS: [&str; 5] = ["<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"];

/// The parser.
#[derive(Debug)]
pub(crate) struct Harmony {
    state: State,
}

#[derive(Debug)]
enum State {
    Header,
    Content,
    Reasoning,
    /// The JSON of a call; its text so far.
    Call {
        name: String,
        raw: String,
        arguments: Option<Arguments>,
    },
    /// After the arguments of a call.
    Skip,
}

impl Harmony {
    /// A parser of what follows `<|start|>assistant`.
    pub(crate) fn new() -> Self {
        Self { state: State::Header }
    }

    /// Begins within the text of an answer.
    pub(crate) fn begin_answer(&mut self) {
        self.state = State::Content;
    }

    /// Whether the text is reasoning.
    pub(crate) fn is_reasoning(&self) -> bool {
        matches!(self.state, State::Reasoning)
    }

    /// Parses a text and returns the rest, which needs more text to be parsed.
    pub(crate) fn step(
        &mut self,
        text: &str,
        end: bool,
        calls: bool,
        events: &mut Events,
        next: &mut usize,
        tools: &Tools,
    ) -> usize {
        let mut at = 0;
        loop {
            let rest = &text[at..];
            match &mut self.state {
                State::Header => match find(rest, &HEADER_ENDS, end) {
                    _ if rest.is_empty() => return at,
                    Found::Marker(0, n) if n <= HEADER && could_be_header(rest) => {
                        self.state = message(&rest[..n], calls);
                        at += n + MESSAGE.len();
                    }
                    // A header without a message, such as the end of the output.
                    Found::Marker(which, n) if which > 0 && rest[..n].trim().is_empty() => {
                        at += n + HEADER_ENDS[which].len();
                    }
                    Found::Until(_) if !end && rest.len() <= HEADER && could_be_header(rest) => {
                        return at;
                    }
                    _ => {
                        let first = rest.chars().next().map_or(0, char::len_utf8);
                        events.content(&rest[..first]);
                        at += first;
                        self.state = State::Content;
                    }
                },
                State::Content | State::Reasoning => {
                    let (text, found) = match find(rest, &ENDS, end) {
                        Found::Marker(which, n) => (&rest[..n], Some(which)),
                        Found::Until(n) => (&rest[..n], None),
                    };
                    match self.state {
                        State::Reasoning => events.reasoning(text),
                        _ => events.content(text),
                    }
                    at += text.len();
                    let Some(which) = found else { return at };
                    at += self.next_header(which);
                }
                State::Call { name, raw, arguments } => {
                    let (piece, found) = match find(rest, &ENDS, end) {
                        Found::Marker(which, n) => (&rest[..n], Some(which)),
                        Found::Until(n) => (&rest[..n], None),
                    };
                    raw.push_str(piece);
                    at += piece.len();
                    let is_end = end || found.is_some();
                    let mut context = Context { events, next, tools, end: is_end };
                    let step = match arguments {
                        Some(arguments) => arguments.step(raw, &mut context),
                        None => match raw.trim_start().chars().next() {
                            Some('{') => {
                                let index = context.start(name);
                                let arguments = arguments.insert(Arguments::new(0, index));
                                arguments.step(raw, &mut context)
                            }
                            None if !is_end => Step::More,
                            _ => Step::Fail,
                        },
                    };
                    match step {
                        Step::More => {}
                        Step::Done(_) => self.state = State::Skip,
                        Step::Broken(n) => {
                            events.broken(next.saturating_sub(1), &raw[..n]);
                            let raw = raw.split_off(n);
                            events.content(&raw);
                            self.state = State::Content;
                        }
                        Step::Fail => {
                            let raw = std::mem::take(raw);
                            events.content(&raw);
                            self.state = State::Content;
                        }
                    }
                    match found {
                        Some(which) => at += self.next_header(which),
                        None => return at,
                    }
                }
                State::Skip => match find(rest, &ENDS, end) {
                    Found::Marker(which, n) => {
                        at += n;
                        at += self.next_header(which);
                    }
                    Found::Until(n) => return at + n,
                },
            }
        }
    }

    /// Begins the next header; returns the length of the marker if it is not part of it.
    fn next_header(&mut self, which: usize) -> usize {
        self.state = State::Header;
        if which < 3 { ENDS[which].len() } else { 0 }
    }
}

/// Whether a text may begin a header: a marker, the role, or the recipient.
fn could_be_header(text: &str) -> bool {
    let text = text.trim_start();
    let parts = ["<|start|>", "<|channel|>", "<|constrain|>", "assistant", "to="];
    let mut parts = parts.iter().chain(&HEADER_ENDS);
    text.is_empty() || parts.any(|part| begins(text, part) != Begins::No)
}

/// The state after a header.
fn message(header: &str, calls: bool) -> State {
    // The recipient may be before or after the channel.
    let recipient = header.split_once("to=").map(|(_, rest)| {
        let end = rest.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(rest.len());
        &rest[..end]
    });
    let name = recipient.map(|name| name.strip_prefix("functions.").unwrap_or(name));
    if let Some(name) = name.filter(|name| calls && is_name(name)) {
        return State::Call { name: name.to_owned(), raw: String::new(), arguments: None };
    }
    let channel = header.split_once("<|channel|>").map_or(header, |(_, rest)| rest);
    match channel.trim_start().starts_with("analysis") {
        true => State::Reasoning,
        false => State::Content,
    }
}
