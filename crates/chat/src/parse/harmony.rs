//! gpt-oss: messages with a header that names a channel and a recipient.

use super::scan::{Begins, Found, begins, find};
use super::step::{Arguments, Context, Step, is_name};
use super::tools::Tools;

/// The most bytes of a header.
const HEADER: usize = 512;

const MESSAGE: &str = "<|message|>";

/// Markers that end a header, the first one as it should.
const HEADER_ENDS: [&str; 4] = [MESSAGE, "<|end|>", "<|return|>", "<|call|>"];

/// Markers that end a message. The last two begin the next header, if the model left out the end.
const ENDS: [&str; 5] = ["<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"];

/// The control tokens of the format, which mean something within an output.
pub(crate) const TOKENS: [&str; 4] = ["<|start|>", "<|channel|>", "<|constrain|>", MESSAGE];

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
        raw: String,
        arguments: Arguments,
    },
    /// The rest of a call whose arguments are malformed; its text so far.
    Malformed(String),
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

    /// Parses a text and returns the offset of the rest, which needs more text to be parsed.
    pub(crate) fn step(&mut self, text: &str, calls: bool, context: &mut Context<'_>) -> usize {
        let Context { events, next, tools, end, cut } = context;
        let (tools, end, cut) = (*tools, *end, *cut);
        let mut at = 0;
        loop {
            let rest = &text[at..];
            match &mut self.state {
                State::Header => match find(rest, &HEADER_ENDS, end) {
                    _ if rest.is_empty() => return at,
                    Found::Marker(0, n) if n <= HEADER && could_be_header(rest) => {
                        self.state = message(&rest[..n], calls, tools);
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
                State::Call { raw, arguments } => {
                    let (piece, found) = match find(rest, &ENDS, end) {
                        Found::Marker(which, n) => (&rest[..n], Some(which)),
                        Found::Until(n) => (&rest[..n], None),
                    };
                    raw.push_str(piece);
                    at += piece.len();
                    let end = end || found.is_some();
                    let cut = cut && found.is_none();
                    let mut context = Context { events, next, tools, end, cut };
                    match arguments.step(raw, &mut context) {
                        Step::More => {}
                        Step::Done(_) => self.state = State::Skip,
                        Step::Broken(n) => {
                            events.arguments(next.saturating_sub(1), &raw[n..]);
                            self.state = State::Malformed(std::mem::take(raw));
                        }
                        Step::Fail => {
                            let raw = std::mem::take(raw);
                            events.content(&raw);
                            self.state = State::Content;
                        }
                    }
                    if let State::Malformed(raw) = &self.state
                        && end
                    {
                        events.broken(next.saturating_sub(1), raw);
                    }
                    match found {
                        Some(which) => at += self.next_header(which),
                        None => return at,
                    }
                }
                State::Malformed(raw) => {
                    let (piece, found) = match find(rest, &ENDS, end) {
                        Found::Marker(which, n) => (&rest[..n], Some(which)),
                        Found::Until(n) => (&rest[..n], None),
                    };
                    raw.push_str(piece);
                    at += piece.len();
                    events.arguments(next.saturating_sub(1), piece);
                    if end || found.is_some() {
                        events.broken(next.saturating_sub(1), raw);
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
fn message(header: &str, calls: bool, tools: &Tools) -> State {
    // The recipient may be before or after the channel.
    let recipient = header.split_once("to=").map(|(_, rest)| {
        let end = rest.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(rest.len());
        &rest[..end]
    });
    let name = recipient.map(|name| name.strip_prefix("functions.").unwrap_or(name));
    if let Some(name) = name.filter(|name| calls && is_name(name) && tools.allows(name)) {
        return State::Call { raw: String::new(), arguments: Arguments::new(0, name) };
    }
    let channel = header.split_once("<|channel|>").map_or(header, |(_, rest)| rest);
    match channel.trim_start().starts_with("analysis") {
        true => State::Reasoning,
        false => State::Content,
    }
}
