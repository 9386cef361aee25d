//! `{"name": "f", "arguments": {…}}`, alone or in a list.

use serde_json::{Map, Value};

use super::json_stream::{JsonStream, Progress};
use super::step::{Arguments, Context, NAME, Step, after, is_name};

/// The parser of one object.
#[derive(Debug)]
pub(crate) struct Object {
    close: &'static str,
    /// Whether nothing marks the call, so that other JSON must not be taken for one.
    bare: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Up to the beginning of the arguments.
    Prefix,
    /// The arguments are passed on as they come.
    Arguments(Arguments),
    /// After the arguments.
    After(usize),
    /// In the keys after the arguments, up to an offset.
    Tail { at: usize, depth: usize, quoted: bool, escaped: bool },
    /// After the object.
    Close(usize),
    /// An object in another order, which is read to its end first.
    Whole { stream: JsonStream, at: usize },
}

impl Object {
    pub(crate) fn new(close: &'static str, bare: bool) -> Self {
        Self { close, bare, stage: Stage::Prefix }
    }

    pub(crate) fn step(&mut self, raw: &str, context: &mut Context<'_>) -> Step {
        loop {
            match &mut self.stage {
                Stage::Prefix => match prefix(raw) {
                    Prefix::More if !context.end => return Step::More,
                    Prefix::Arguments { name, at } if context.tools.allows(&name) => {
                        self.stage = Stage::Arguments(Arguments::new(at, &name));
                    }
                    Prefix::Arguments { .. } => return Step::Fail,
                    Prefix::More | Prefix::Other => {
                        self.stage = Stage::Whole { stream: JsonStream::new(), at: 0 };
                    }
                },
                Stage::Arguments(arguments) => match arguments.step(raw, context) {
                    Step::Done(at) => self.stage = Stage::After(at),
                    step => return step,
                },
                Stage::After(at) => {
                    let rest = raw[*at..].trim_start();
                    let next = raw.len() - rest.len();
                    self.stage = match rest.chars().next() {
                        Some('}') => Stage::Close(next + 1),
                        Some(',') => {
                            Stage::Tail { at: next, depth: 0, quoted: false, escaped: false }
                        }
                        // The arguments are complete, the object around them is not.
                        Some(_) => Stage::Close(*at),
                        None if context.end => return Step::Done(raw.len()),
                        None => return Step::More,
                    };
                }
                Stage::Tail { at, depth, quoted, escaped } => {
                    let mut found = None;
                    for (n, c) in raw[*at..].char_indices() {
                        match c {
                            _ if *escaped => *escaped = false,
                            '\\' if *quoted => *escaped = true,
                            '"' => *quoted = !*quoted,
                            _ if *quoted => {}
                            '{' | '[' => *depth += 1,
                            '}' | ']' if *depth > 0 => *depth -= 1,
                            '}' => {
                                found = Some(*at + n + 1);
                                break;
                            }
                            _ => {}
                        }
                    }
                    match found {
                        Some(at) => self.stage = Stage::Close(at),
                        None if context.end => return Step::Done(raw.len()),
                        None => {
                            *at = raw.len();
                            return Step::More;
                        }
                    }
                }
                Stage::Close(at) => {
                    return match after(raw, *at, &[self.close], context.end) {
                        Some(at) => Step::Done(at),
                        None => Step::More,
                    };
                }
                Stage::Whole { stream, at } => match stream.push(&raw[*at..]) {
                    Progress::Invalid(_) => return Step::Fail,
                    Progress::More if context.end => return Step::Fail,
                    Progress::More => {
                        *at = raw.len();
                        return Step::More;
                    }
                    Progress::Done(n) => {
                        let end = *at + n;
                        match call(&stream.take(), self.bare) {
                            Some((name, arguments)) if context.tools.allows(&name) => {
                                context.call(&name, arguments);
                                self.stage = Stage::Close(end);
                            }
                            _ => return Step::Fail,
                        }
                    }
                },
            }
        }
    }
}

/// The name and the arguments of an object.
pub(crate) fn call(text: &str, strict: bool) -> Option<(String, Map<String, Value>)> {
    let mut object: Map<String, Value> = serde_json::from_str(text).ok()?;
    if let Some(Value::Object(function)) = object.shift_remove("function") {
        object = function;
    }
    let name = object
        .get("name")
        .or_else(|| object.get("tool_name"))?
        .as_str()
        .filter(|name| is_name(name))?
        .to_owned();
    let arguments = match object.get("arguments").or_else(|| object.get("parameters")) {
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(Value::String(text)) => serde_json::from_str(text).ok()?,
        None | Some(Value::Null) if !strict && object.keys().all(|key| is_known(key)) => Map::new(),
        _ => return None,
    };
    Some((name, arguments))
}

/// Whether a call without arguments may have a key: others could be misspelled arguments.
fn is_known(key: &str) -> bool {
    const KNOWN: [&str; 7] =
        ["name", "arguments", "parameters", "type", "id", "tool_name", "tool_call_id"];
    KNOWN.contains(&key)
}

enum Prefix {
    /// The text so far may be the beginning of one.
    More,
    /// The name, and the offset of the arguments.
    Arguments { name: String, at: usize },
    /// Something else.
    Other,
}

/// Reads `{"name": "f", "arguments": {`.
fn prefix(raw: &str) -> Prefix {
    let mut rest = raw;
    let mut token = |texts: &[&str]| -> Option<Option<usize>> {
        rest = rest.trim_start();
        for (i, text) in texts.iter().enumerate() {
            if let Some(after) = rest.strip_prefix(text) {
                rest = after;
                return Some(Some(i));
            }
        }
        texts.iter().any(|text| text.starts_with(rest)).then_some(None)
    };
    for texts in ["{", "\"name\"", ":", "\""] {
        match token(&[texts]) {
            Some(Some(_)) => {}
            Some(None) => return Prefix::More,
            None => return Prefix::Other,
        }
    }
    let Some(quote) = rest.find(['"', '\\']) else {
        return if rest.len() <= NAME { Prefix::More } else { Prefix::Other };
    };
    let name = rest[..quote].to_owned();
    if rest[quote..].starts_with('\\') || !is_name(&name) {
        return Prefix::Other;
    }
    rest = &rest[quote + 1..];
    let mut token = |texts: &[&str]| -> Option<bool> {
        rest = rest.trim_start();
        match texts.iter().find_map(|text| rest.strip_prefix(text)) {
            Some(after) => {
                rest = after;
                Some(true)
            }
            None => texts.iter().any(|text| text.starts_with(rest)).then_some(false),
        }
    };
    for texts in [&[","][..], &["\"arguments\"", "\"parameters\""], &[":"]] {
        match token(texts) {
            Some(true) => {}
            Some(false) => return Prefix::More,
            None => return Prefix::Other,
        }
    }
    let rest = rest.trim_start();
    match rest.chars().next() {
        Some('{') => Prefix::Arguments { name, at: raw.len() - rest.len() },
        Some(_) => Prefix::Other,
        None => Prefix::More,
    }
}

/// The parser of a list of objects, or of one.
#[derive(Debug, Default)]
pub(crate) struct Array {
    /// The text after the list.
    close: &'static str,
    /// The offset after the last complete call.
    done: usize,
    at: usize,
    object: Option<JsonStream>,
    /// The position: before `[`, before an object, or after one.
    opened: bool,
    /// The offset after the list.
    closed: Option<usize>,
}

impl Array {
    pub(crate) fn new(close: &'static str) -> Self {
        Self { close, ..Self::default() }
    }

    pub(crate) fn step(&mut self, raw: &str, context: &mut Context<'_>) -> Step {
        let fail = |done| if done > 0 { Step::Done(done) } else { Step::Fail };
        loop {
            if let Some(at) = self.closed {
                return match after(raw, at, &[self.close], context.end) {
                    Some(at) => Step::Done(at),
                    None => Step::More,
                };
            }
            if let Some(stream) = &mut self.object {
                match stream.push(&raw[self.at..]) {
                    Progress::Invalid(_) => return fail(self.done),
                    Progress::More if context.end => return fail(self.done),
                    Progress::More => {
                        self.at = raw.len();
                        return Step::More;
                    }
                    Progress::Done(n) => {
                        match call(&stream.take(), false) {
                            Some((name, arguments)) if context.tools.allows(&name) => {
                                context.call(&name, arguments);
                            }
                            _ => return fail(self.done),
                        }
                        self.at += n;
                        self.done = self.at;
                        self.object = None;
                        if !self.opened {
                            self.closed = Some(self.at);
                            continue;
                        }
                    }
                }
            }
            let rest = raw[self.at..].trim_start();
            let at = raw.len() - rest.len();
            let next = rest.chars().next();
            match next {
                Some('[') if !self.opened => {
                    self.opened = true;
                    self.at = at + 1;
                }
                Some(',') if self.done > 0 && self.done == self.at => self.at = at + 1,
                Some(']') if self.done > 0 => self.closed = Some(at + 1),
                Some('{') if !self.opened && self.done == 0 => {
                    self.at = at;
                    self.object = Some(JsonStream::new());
                }
                Some('{') if self.opened && (self.done == 0 || self.at > self.done) => {
                    self.at = at;
                    self.object = Some(JsonStream::new());
                }
                None if !context.end => return Step::More,
                _ => return fail(self.done),
            }
        }
    }
}
