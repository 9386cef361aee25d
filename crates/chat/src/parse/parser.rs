//! The parser of an output.

use serde_json::Value;

use super::call::Call;
use super::event::{Event, Events};
use super::harmony::{self, Harmony};
use super::scan::{Begins, Found, begins, find};
use super::step::{Context, Step};
use super::tools::Tools;
use crate::format::{Body, Format};

/// Bytes that are parsed at once, so that the cost of a long text does not grow with its square.
const CHUNK: usize = 4096;

/// A streaming parser of a model's output.
///
/// Text comes in pieces of any size, and the events do not depend on the cuts. Text that may begin
/// a marker is held back until the next piece decides it. Malformed calls become content (or
/// [`Event::ToolCallBroken`], if a value of their arguments was reported); nothing is an error.
///
/// ```
/// use pelton_chat::{Event, Format, Parser};
///
/// let mut parser = Parser::new(Format::named("hermes").unwrap(), &[]);
/// let mut events = parser.push("Let me see.\n<tool");
/// events.extend(parser.push("_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>"));
/// events.extend(parser.finish());
/// assert_eq!(
///     events,
///     [
///         Event::Content("Let me see.".into()),
///         Event::ToolCallStart { index: 0, name: "get_time".into() },
///         Event::ToolCallArguments { index: 0, delta: "{}".into() },
///         Event::ToolCallEnd { index: 0 },
///     ]
/// );
/// ```
#[derive(Debug)]
pub struct Parser {
    format: &'static Format,
    tools: Tools,
    /// Whether calls are parsed.
    calls: bool,
    /// Bytes of a character that is not complete.
    bytes: Vec<u8>,
    /// Text that is not parsed yet.
    pending: String,
    /// White space and markers of sections, which are content if text follows.
    held: String,
    reasoning: bool,
    /// Whether white space is left out: at the beginning of a section.
    lead: bool,
    /// Whether reasoning may begin: nothing but white space has come since the start or a call.
    fresh: bool,
    call: Option<Open>,
    /// A call whose arguments are malformed: its text so far.
    malformed: Option<String>,
    next: usize,
    /// Whether the first complete call is the last event.
    one_call: bool,
    /// Whether that call has come.
    done: bool,
    /// Whether the answer is calls and nothing else.
    calls_only: bool,
    /// Whether the output ends where the model had not ended it.
    cut: bool,
    harmony: Option<Harmony>,
    events: Events,
}

/// A call that has begun.
#[derive(Debug)]
struct Open {
    call: Call,
    /// The text before the call's: white space, markers of sections, the call's marker.
    before: String,
    /// The length of the call's own marker.
    marker: usize,
    raw: String,
}

/// The meaning of a marker.
#[derive(Clone, Copy)]
enum Marker {
    ReasoningClose,
    Call,
    SectionOpen,
    SectionClose,
    End,
}

impl Parser {
    /// A parser of outputs in a format, with the tools of the request: values without quotation
    /// marks become what the tools' schemas say.
    pub fn new(format: &'static Format, tools: &[Value]) -> Self {
        let harmony = format.calls.is_some_and(|calls| calls.body == Body::Harmony);
        Self {
            format,
            tools: Tools::new(tools),
            calls: true,
            bytes: Vec::new(),
            pending: String::new(),
            held: String::new(),
            reasoning: false,
            lead: false,
            fresh: true,
            call: None,
            malformed: None,
            next: 0,
            one_call: false,
            done: false,
            calls_only: false,
            cut: false,
            harmony: harmony.then(Harmony::new),
            events: Events::default(),
        }
    }

    /// Says that the prompt ends within reasoning: see [`Format::is_reasoning`].
    #[must_use]
    pub fn in_reasoning(mut self, yes: bool) -> Self {
        self.reasoning = yes;
        self.lead = yes;
        self
    }

    /// Says that the output continues a message of the assistant with this text, which may end
    /// within reasoning. Nothing of it is reported.
    #[must_use]
    pub fn continuing(mut self, text: &str) -> Self {
        match &mut self.harmony {
            Some(harmony) => harmony.begin_answer(),
            None => {
                self.push(text);
                self.bytes.clear();
                self.pending.clear();
                self.held.clear();
                self.call = None;
                self.malformed = None;
                self.next = 0;
                self.done = false;
                self.fresh &= text.trim().is_empty();
                self.lead &= text.trim().is_empty();
            }
        }
        self
    }

    /// Leaves tool calls in the content, for requests without tools.
    #[must_use]
    pub fn without_calls(mut self) -> Self {
        self.calls = false;
        self
    }

    /// Ends the events with the first complete call, for requests that allow one: see
    /// [`is_done`](Self::is_done).
    #[must_use]
    pub fn with_one_call(mut self) -> Self {
        self.one_call = true;
        self
    }

    /// Says that the answer is calls and nothing else. An output that is cut before a call has
    /// begun then has no content: its rest is markup.
    #[must_use]
    pub fn with_calls_only(mut self) -> Self {
        self.calls_only = true;
        self
    }

    /// Whether the one call that is allowed is complete. The rest of the output has no events, so
    /// the model need not write it.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the output so far ends within reasoning.
    pub fn is_reasoning(&self) -> bool {
        match &self.harmony {
            Some(harmony) => harmony.is_reasoning(),
            None => self.reasoning,
        }
    }

    /// Parses the next piece of text.
    pub fn push(&mut self, text: &str) -> Vec<Event> {
        let mut rest = text;
        while !rest.is_empty() {
            let piece = &rest[..rest.floor_char_boundary(CHUNK)];
            rest = &rest[piece.len()..];
            self.pending.push_str(piece);
            self.parse(false);
        }
        self.take()
    }

    /// Parses the next bytes, which may end within a character. Bytes that are not UTF-8 become
    /// U+FFFD.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.bytes.extend_from_slice(bytes);
        let mut text = String::new();
        let mut at = 0;
        while let Err(error) = std::str::from_utf8(&self.bytes[at..]) {
            let valid = at + error.valid_up_to();
            text.push_str(&String::from_utf8_lossy(&self.bytes[at..valid]));
            at = valid;
            let Some(len) = error.error_len() else { break };
            text.push('\u{fffd}');
            at += len;
        }
        if let Ok(rest) = std::str::from_utf8(&self.bytes[at..]) {
            text.push_str(rest);
            at = self.bytes.len();
        }
        self.bytes.drain(..at);
        self.push(&text)
    }

    /// Parses a control token. It is not content if the format does not know it, and the end of a
    /// turn is never a part of a text.
    pub fn push_control(&mut self, token: &str) -> Vec<Event> {
        let is_end = self.format.ends.contains(&token);
        let known = |marker: &str| marker.contains(token) || token.contains(marker);
        let is_parsed = match &self.harmony {
            Some(_) => is_end || harmony::TOKENS.contains(&token),
            None if is_end => false,
            None => {
                let is_within_call = self.call.is_some() || self.malformed.is_some();
                is_within_call || self.markers(true).iter().any(|(marker, _)| known(marker))
            }
        };
        if is_parsed { self.push(token) } else { Vec::new() }
    }

    /// Parses the control token that ends the output. It is a part of no text, whatever the format
    /// knows: vocabularies have several.
    pub fn push_end(&mut self, token: &str) -> Vec<Event> {
        match self.harmony {
            Some(_) => self.push_control(token),
            None => Vec::new(),
        }
    }

    /// The events since the last call.
    fn take(&mut self) -> Vec<Event> {
        let mut events = self.events.take();
        if self.done {
            events.clear();
        }
        let is_end = |event: &Event| matches!(event, Event::ToolCallEnd { .. });
        if self.one_call
            && let Some(at) = events.iter().position(is_end)
        {
            events.truncate(at + 1);
            self.done = true;
        }
        events
    }

    /// Parses the end of the output. The parser is not used after it.
    pub fn finish(&mut self) -> Vec<Event> {
        if !self.bytes.is_empty() {
            self.bytes.clear();
            self.pending.push('\u{fffd}');
        }
        self.parse(true);
        if !self.lead || !self.held.trim().is_empty() {
            self.emit_held();
        }
        self.take()
    }

    /// Parses the end of an output that the model had not ended, such as at a limit of tokens. A
    /// call that it was within is [`Event::ToolCallBroken`] or content. The parser is not used
    /// after it.
    pub fn cut(&mut self) -> Vec<Event> {
        self.cut = true;
        let mut events = self.finish();
        if self.calls_only {
            events.retain(|event| !matches!(event, Event::Content(_)));
        }
        events
    }

    fn parse(&mut self, end: bool) {
        if let Some(harmony) = &mut self.harmony {
            let (events, next, cut) = (&mut self.events, &mut self.next, self.cut);
            let mut context = Context { events, next, tools: &self.tools, end, cut };
            let read = harmony.step(&self.pending, self.calls, &mut context);
            self.pending.drain(..read);
            return;
        }
        loop {
            let go_on = match (self.call.take(), self.malformed.take()) {
                (Some(open), _) => self.parse_call(open, end),
                (None, Some(text)) => self.parse_malformed(text, end),
                (None, None) => self.parse_text(end),
            };
            if !go_on {
                return;
            }
        }
    }

    /// The markers that are looked for.
    fn markers(&self, all: bool) -> Vec<(&'static str, Marker)> {
        let mut markers = Vec::new();
        if let Some(reasoning) = self.format.reasoning {
            if self.reasoning || all {
                markers.push((reasoning.close, Marker::ReasoningClose));
            }
            if all {
                markers.push((reasoning.open, Marker::End));
            }
        }
        if self.reasoning && !all {
            return markers;
        }
        if let Some(calls) = self.format.calls.filter(|_| self.calls) {
            markers.extend(calls.open.iter().map(|&open| (open, Marker::Call)));
            for &(open, close) in calls.sections {
                markers.extend([(open, Marker::SectionOpen), (close, Marker::SectionClose)]);
            }
        }
        markers.extend(self.format.ends.iter().map(|&end| (end, Marker::End)));
        markers
    }

    /// Parses text up to a marker; whether there may be more to parse.
    fn parse_text(&mut self, end: bool) -> bool {
        if self.is_bare_allowed() {
            // A call without a marker may only follow white space, or a semicolon after another.
            let is_skipped = |c: char| c.is_whitespace() || (c == ';' && self.next > 0);
            let at = self.pending.find(|c| !is_skipped(c)).unwrap_or(self.pending.len());
            self.held.extend(self.pending.drain(..at));
            let python = self.format.calls.is_some_and(|calls| calls.body == Body::Python);
            if self.pending.starts_with(if python { '[' } else { '{' }) {
                self.open("", true);
                return true;
            }
        }
        if let Some(reasoning) = self.format.reasoning.filter(|_| self.fresh && !self.reasoning) {
            // Reasoning may only follow white space.
            let at = self.pending.len() - self.pending.trim_start().len();
            self.held.extend(self.pending.drain(..at));
            match begins(&self.pending, reasoning.open) {
                Begins::Yes => {
                    self.pending.drain(..reasoning.open.len());
                    self.section(true);
                    return true;
                }
                Begins::Maybe if !end => return false,
                Begins::Maybe | Begins::No => {}
            }
        }
        let markers = self.markers(false);
        let texts: Vec<&str> = markers.iter().map(|(text, _)| *text).collect();
        let (at, found) = match find(&self.pending, &texts, end) {
            Found::Marker(which, at) => (at, Some(markers[which])),
            Found::Until(at) => (at, None),
        };
        let rest = self.pending.split_off(at);
        let text = std::mem::replace(&mut self.pending, rest);
        self.emit(&text);
        let Some((marker, meaning)) = found else { return false };
        self.pending.drain(..marker.len());
        match meaning {
            Marker::ReasoningClose => self.section(false),
            // After a call the end of its section is expected.
            Marker::SectionClose if self.next > 0 && self.lead => self.held.clear(),
            Marker::SectionOpen | Marker::SectionClose => self.held.push_str(marker),
            Marker::End => {}
            Marker::Call => self.open(marker, false),
        }
        true
    }

    fn is_bare_allowed(&self) -> bool {
        self.fresh
            && self.calls
            && !self.reasoning
            && self.format.calls.is_some_and(|calls| calls.bare)
    }

    fn open(&mut self, marker: &'static str, bare: bool) {
        let call = self.format.calls.and_then(|calls| Call::new(&calls, self.format.ends, bare));
        let mut before = std::mem::take(&mut self.held);
        before.push_str(marker);
        if let Some(call) = call {
            self.call = Some(Open { call, before, marker: marker.len(), raw: String::new() });
        }
    }

    /// Begins reasoning, or the text after it.
    fn section(&mut self, reasoning: bool) {
        self.held.clear();
        self.reasoning = reasoning;
        self.lead = true;
        self.fresh = !reasoning;
    }

    /// Goes on with a call; whether there may be more to parse.
    fn parse_call(&mut self, mut open: Open, end: bool) -> bool {
        open.raw.push_str(&std::mem::take(&mut self.pending));
        let (events, next, cut) = (&mut self.events, &mut self.next, self.cut);
        let mut context = Context { events, next, tools: &self.tools, end, cut };
        let step = open.call.step(&open.raw, &mut context);
        match step {
            Step::More => {
                self.call = Some(open);
                return false;
            }
            Step::Done(at) => {
                self.pending = open.raw.split_off(at);
                self.lead = true;
                self.fresh = true;
            }
            Step::Broken(at) => {
                self.pending = open.raw.split_off(at);
                self.malformed = Some(open.before + &open.raw);
            }
            Step::Fail => {
                let text = open.before.split_off(open.before.len() - open.marker);
                self.held = open.before;
                if end {
                    self.emit(&(text + &open.raw));
                    return false;
                }
                match text.is_empty() {
                    // Without a marker the first character is what looked like a call.
                    true => {
                        let first = open.raw.chars().next().map_or(0, char::len_utf8);
                        self.pending = open.raw.split_off(first);
                        self.emit(&open.raw);
                    }
                    false => {
                        self.pending = open.raw;
                        self.emit(&text);
                    }
                }
            }
        }
        true
    }

    /// Goes on with a call whose arguments are malformed, up to its end: it is passed on as it is.
    /// Whether there may be more to parse.
    fn parse_malformed(&mut self, mut text: String, end: bool) -> bool {
        let close = self.format.calls.map_or("", |calls| calls.close);
        let markers = self.markers(false);
        let mut ends: Vec<&str> = markers.iter().map(|(text, _)| *text).collect();
        ends.extend(Some(close).filter(|close| !close.is_empty()));
        let (at, found) = match find(&self.pending, &ends, end) {
            Found::Marker(which, at) => (at, Some(ends[which])),
            Found::Until(at) => (at, None),
        };
        let index = self.next.saturating_sub(1);
        self.events.arguments(index, &self.pending[..at]);
        text.extend(self.pending.drain(..at));
        if found.is_none() && !end {
            self.malformed = Some(text);
            return false;
        }
        if found == Some(close) {
            text.extend(self.pending.drain(..close.len()));
        }
        self.events.broken(index, &text);
        (self.lead, self.fresh) = (true, true);
        true
    }

    /// Reports text, except for the white space at its end.
    fn emit(&mut self, text: &str) {
        let (body, space) = text.split_at(text.trim_end().len());
        if !body.is_empty() {
            let body = match self.lead && self.held.trim().is_empty() {
                true => {
                    self.held.clear();
                    body.trim_start()
                }
                false => body,
            };
            self.emit_held();
            match self.reasoning {
                true => self.events.reasoning(body),
                false => self.events.content(body),
            }
            self.lead = false;
            self.fresh = false;
        }
        self.held.push_str(space);
    }

    fn emit_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        match self.reasoning {
            true => self.events.reasoning(&held),
            false => self.events.content(&held),
        }
    }
}
