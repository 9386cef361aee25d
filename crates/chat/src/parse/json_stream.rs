//! A JSON object that comes in pieces, repaired and passed on while it is valid.

use serde_json::Value;

/// Limit of containers within each other: fewer than the readers of JSON allow.
const DEPTH: usize = 100;

/// The token that is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The object itself.
    Start,
    /// A key or the end of the object.
    KeyOrEnd,
    Key,
    Colon,
    Value,
    /// A value or the end of the array.
    ValueOrEnd,
    CommaOrEnd,
    /// Within a number, `true`, `false` or `null`.
    Literal,
    String {
        is_key: bool,
    },
    Done,
}

/// How far a [`JsonStream`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All of the text belongs to the object, which is not complete.
    More,
    /// The object is complete; it ended at this offset of the text.
    Done(usize),
    /// The character at this offset cannot follow.
    Invalid(usize),
}

/// Checks an object character by character.
///
/// White space between tokens is left out. Control characters in strings are escaped, unknown
/// escapes are kept as their characters, and a comma before a closing bracket is left out. The text
/// that was passed on is a JSON object once [`Progress::Done`] says so, and the beginning of one
/// before.
#[derive(Debug)]
pub(crate) struct JsonStream {
    state: State,
    /// Open containers: `}` or `]` for each.
    stack: Vec<char>,
    /// Text that is not yet known to be part of a valid object: a comma, a key, a literal.
    held: String,
    /// An escape sequence that is not complete.
    escape: String,
    out: String,
    has_value: bool,
}

impl JsonStream {
    pub(crate) fn new() -> Self {
        let (held, escape, out) = (String::new(), String::new(), String::new());
        let (state, stack, has_value) = (State::Start, Vec::new(), false);
        Self { state, stack, held, escape, out, has_value }
    }

    /// The text that has become valid since the last call.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// The text since the last [`JsonStream::take`], with what is held: where no more comes.
    pub(crate) fn rest(&mut self) -> String {
        let escape = std::mem::take(&mut self.escape);
        self.commit();
        self.out.push_str(&escape);
        self.take()
    }

    /// Whether the object has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.state != State::Start
    }

    /// Whether the first value of the object has begun, or the object is complete.
    pub(crate) fn has_value(&self) -> bool {
        self.has_value
    }

    /// Goes on with a piece of text.
    pub(crate) fn push(&mut self, text: &str) -> Progress {
        for (at, c) in text.char_indices() {
            if !self.char(c) {
                return Progress::Invalid(at);
            }
            if self.state == State::Done {
                return Progress::Done(at + c.len_utf8());
            }
        }
        Progress::More
    }

    /// Passes on what is held.
    fn commit(&mut self) {
        self.has_value |= !self.stack.is_empty();
        self.out.push_str(&self.held);
        self.held.clear();
    }

    fn char(&mut self, c: char) -> bool {
        if let State::String { is_key } = self.state {
            return self.string(c, is_key);
        }
        if self.state == State::Literal {
            if c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.') {
                self.held.push(c);
                return self.held.len() < 4096;
            }
            if !self.end_literal() {
                return false;
            }
        }
        if c.is_ascii_whitespace() {
            return true;
        }
        match (self.state, c) {
            (State::Start | State::Value | State::ValueOrEnd, '{') => {
                self.open('}', State::KeyOrEnd)
            }
            (State::Value | State::ValueOrEnd, '[') => self.open(']', State::ValueOrEnd),
            (State::Value | State::ValueOrEnd, '"') => {
                self.held.push('"');
                self.commit();
                self.state = State::String { is_key: false };
                true
            }
            (State::Value | State::ValueOrEnd, '-' | '0'..='9' | 't' | 'f' | 'n') => {
                self.held.push(c);
                self.state = State::Literal;
                true
            }
            (State::Key | State::KeyOrEnd, '"') => {
                self.held.push('"');
                self.state = State::String { is_key: true };
                true
            }
            (State::Colon, ':') => {
                self.held.push(':');
                self.state = State::Value;
                true
            }
            (State::CommaOrEnd, ',') => {
                self.held.push(',');
                self.state =
                    if self.stack.last() == Some(&'}') { State::Key } else { State::Value };
                true
            }
            (_, '}' | ']') => self.end(c),
            _ => false,
        }
    }

    fn open(&mut self, close: char, state: State) -> bool {
        self.held.push(if close == '}' { '{' } else { '[' });
        self.commit();
        self.stack.push(close);
        self.state = state;
        self.stack.len() <= DEPTH
    }

    fn end(&mut self, c: char) -> bool {
        let is_empty = matches!(self.state, State::KeyOrEnd | State::ValueOrEnd);
        let after_comma = self.held == "," && matches!(self.state, State::Key | State::Value);
        if self.stack.last() != Some(&c)
            || !(is_empty || after_comma || self.state == State::CommaOrEnd)
        {
            return false;
        }
        self.held.clear();
        self.stack.pop();
        self.has_value = true;
        self.out.push(c);
        self.state = if self.stack.is_empty() { State::Done } else { State::CommaOrEnd };
        true
    }

    fn end_literal(&mut self) -> bool {
        let start = self.held.rfind([',', ':']).map_or(0, |at| at + 1);
        // Readers of JSON refuse a number that is too large for an f64.
        if serde_json::from_str::<Value>(&self.held[start..]).is_err() {
            return false;
        }
        self.commit();
        self.state = State::CommaOrEnd;
        true
    }

    fn string(&mut self, c: char, is_key: bool) -> bool {
        if !self.escape.is_empty() {
            return self.in_escape(c);
        }
        let text = if is_key { &mut self.held } else { &mut self.out };
        match c {
            '\\' => self.escape.push('\\'),
            '"' => {
                text.push('"');
                self.state = if is_key { State::Colon } else { State::CommaOrEnd };
            }
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
        true
    }

    /// Collects an escape sequence: two characters, six for `\u`, twelve for a surrogate pair.
    fn in_escape(&mut self, c: char) -> bool {
        self.escape.push(c);
        let unit = |text: &str| u16::from_str_radix(text, 16).ok();
        let n = self.escape.chars().count();
        let digits = self.escape.starts_with("\\u");
        let valid = match n {
            2 if matches!(c, '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => {
                let escape = std::mem::take(&mut self.escape);
                self.text(&escape);
                return true;
            }
            2 if c == 'u' => true,
            2 => {
                // No JSON: the backslash stands for itself, save before a quotation mark.
                self.escape.clear();
                if c != '\'' {
                    self.text("\\\\");
                }
                let State::String { is_key } = self.state else { return false };
                return self.string(c, is_key);
            }
            7 => c == '\\',
            8 => c == 'u',
            _ => digits && c.is_ascii_hexdigit(),
        };
        if !valid && n < 7 {
            return false;
        }
        let high = || self.escape.get(2..6).and_then(unit);
        let is_high = high().is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
        let is_low = |unit: u16| (0xdc00..0xe000).contains(&unit);
        match n {
            6 if is_high => {}
            6 => {
                let lone = high().is_none_or(is_low);
                let escape = std::mem::take(&mut self.escape);
                self.text(if lone { "\\ufffd" } else { &escape });
            }
            12 if valid => {
                let escape = std::mem::take(&mut self.escape);
                if escape.get(8..12).and_then(unit).is_some_and(is_low) {
                    self.text(&escape);
                } else {
                    // Two halves that do not belong together.
                    self.text("\\ufffd");
                    return escape[6..].chars().all(|c| self.char(c));
                }
            }
            _ if !valid => {
                let escape = std::mem::take(&mut self.escape);
                self.text("\\ufffd");
                return escape[6..].chars().all(|c| self.char(c));
            }
            _ => {}
        }
        true
    }

    fn text(&mut self, text: &str) {
        match self.state {
            State::String { is_key: true } => self.held.push_str(text),
            _ => self.out.push_str(text),
        }
    }
}
