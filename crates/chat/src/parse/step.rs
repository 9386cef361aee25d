//! The types that the parsers of calls share.

use serde_json::{Map, Value};

use super::event::Events;
use super::json_stream::{JsonStream, Progress};
use super::scan::{Begins, begins};
use super::tools::Tools;

/// The most bytes of a tool's name.
pub(crate) const NAME: usize = 128;

/// How far the parser of a call has come. Offsets are in the text since the call's first marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It needs more text. Not at the end of the output.
    More,
    /// The calls are complete and end at this offset.
    Done(usize),
    /// A call was begun, and its arguments are malformed or end at this offset.
    Broken(usize),
    /// There is no call.
    Fail,
}

/// The state that the parser of a call sees and changes.
pub(crate) struct Context<'c> {
    pub(crate) events: &'c mut Events,
    /// The index of the next call.
    pub(crate) next: &'c mut usize,
    pub(crate) tools: &'c Tools,
    /// Whether the output ends after the text.
    pub(crate) end: bool,
    /// Whether it ends where the model had not ended it.
    pub(crate) cut: bool,
}

impl Context<'_> {
    /// Begins a call.
    pub(crate) fn start(&mut self, name: &str) -> usize {
        let index = *self.next;
        *self.next += 1;
        self.events.start(index, name);
        index
    }

    /// Reports a complete call.
    pub(crate) fn call(&mut self, name: &str, arguments: Map<String, Value>) {
        let index = self.start(name);
        self.events.arguments(index, &Value::Object(arguments).to_string());
        self.events.end(index);
    }
}

/// Arguments that are passed on as they come.
#[derive(Debug)]
pub(crate) struct Arguments {
    name: String,
    stream: JsonStream,
    /// The offset up to which they were read.
    at: usize,
    /// The index of the call, once it has begun.
    index: Option<usize>,
}

impl Arguments {
    pub(crate) fn new(at: usize, name: &str) -> Self {
        Self { name: name.to_owned(), stream: JsonStream::new(), at, index: None }
    }

    /// Goes on; `Done` is the offset after the arguments.
    ///
    /// The call begins with the first value of its arguments, with their end, or where the output
    /// is cut. A fault before that shows that there is no call.
    pub(crate) fn step(&mut self, raw: &str, context: &mut Context<'_>) -> Step {
        let step = match self.stream.push(&raw[self.at..]) {
            Progress::Done(n) => Step::Done(self.at + n),
            Progress::Invalid(n) => Step::Broken(self.at + n),
            Progress::More if context.end => Step::Broken(raw.len()),
            Progress::More => Step::More,
        };
        self.at = raw.len();
        let index = match self.index {
            Some(index) => index,
            None if self.stream.has_value() || context.cut && self.stream.has_begun() => {
                *self.index.insert(context.start(&self.name))
            }
            None if step == Step::More => return Step::More,
            None => return Step::Fail,
        };
        let text = match step {
            Step::Broken(_) => self.stream.rest(),
            _ => self.stream.take(),
        };
        context.events.arguments(index, &text);
        if matches!(step, Step::Done(_)) {
            context.events.end(index);
        }
        step
    }
}

/// The offset after texts that may follow, each after white space; `None` if that is not known yet.
pub(crate) fn after(raw: &str, mut at: usize, texts: &[&str], end: bool) -> Option<usize> {
    for text in texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        let rest = raw[at..].trim_start();
        match begins(rest, text) {
            Begins::Yes => at = raw.len() - rest.len() + text.len(),
            Begins::Maybe if !end => return None,
            Begins::Maybe | Begins::No => {}
        }
    }
    Some(at)
}

/// Whether a text can be the name of a tool.
pub fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    !text.is_empty() && text.len() <= NAME && text.chars().all(allowed)
}
