//! Marks that keep the control tokens of messages apart from those of the template.
//!
//! A text of a message may contain the text of a control token, such as `<|im_end|>`. Before
//! rendering, each such text is put between two marks: private-use characters that occur in no
//! input. The template passes them on like any other character. The rendered text is split at them,
//! and the tokenizer encodes the text between them as plain text. (transformers does the same with
//! `sanitize_control_tokens`.) Parts of a control token at the ends of a text are marked too: two
//! texts never join into one.
//!
//! Some templates delete something in the middle of a text and so join its ends. For those, a
//! second rendering replaces the first characters of control tokens in messages (`<`, `[`) with
//! private-use characters, its *twins*. Every control token in its result is the template's. If the
//! two results do not have the same control tokens in the same order, the second is used.

use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use minijinja::State;
use serde_json::{Map, Value};

use super::segment::Segment;
use crate::Error;

/// The variable that holds the marks while a template runs.
pub(super) const VARIABLE: &str = "_pelton_marks";

/// The marks of the current rendering: characters that trimming passes over.
pub(super) fn of(state: &State<'_, '_>) -> String {
    state.lookup(VARIABLE).map(|marks| marks.to_string()).unwrap_or_default()
}

/// The texts of control tokens.
#[derive(Debug)]
pub(super) struct Controls {
    texts: Vec<String>,
    exact: AhoCorasick,
    /// Templates may change the case of a text, so marks ignore it.
    any_case: AhoCorasick,
    /// The first characters of the texts, if they are punctuation.
    firsts: Vec<char>,
}

impl Controls {
    pub(super) fn new(texts: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        let texts: Vec<String> = texts.into_iter().filter(|t| !t.trim().is_empty()).collect();
        let build = |any_case| {
            AhoCorasickBuilder::new()
                .match_kind(MatchKind::LeftmostLongest)
                .ascii_case_insensitive(any_case)
                .build(&texts)
                .map_err(|error| {
                    Error::Invalid(format!("the control tokens cannot be searched for: {error}"))
                })
        };
        let (exact, any_case) = (build(false)?, build(true)?);
        let firsts: BTreeSet<char> = texts.iter().filter_map(|text| text.chars().next()).collect();
        let firsts = firsts.into_iter().filter(|c| !c.is_alphanumeric() && *c != '_').collect();
        Ok(Self { texts, exact, any_case, firsts })
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The places of a control token in a text.
    pub(super) fn find(&self, text: &str, token: &str) -> Vec<Range<usize>> {
        let found = self.exact.find_iter(text);
        found.map(|m| m.range()).filter(|range| &text[range.clone()] == token).collect()
    }

    /// The control tokens of a text, in its order.
    fn sequence<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> Vec<usize> {
        let find = |text: &'t str| self.exact.find_iter(text).map(|m| m.pattern().as_usize());
        texts.into_iter().flat_map(find).collect::<Vec<_>>()
    }

    /// Whether a text ends with the beginning of a control token, at least two bytes of it.
    fn ends_partially(&self, text: &str) -> bool {
        self.texts.iter().any(|token| {
            token.char_indices().skip(1).any(|(n, _)| n >= 2 && text.ends_with(&token[..n]))
        })
    }

    /// Whether a text begins with the end of a control token, at least two bytes of it.
    fn starts_partially(&self, text: &str) -> bool {
        self.texts.iter().any(|token| {
            token
                .char_indices()
                .skip(1)
                .any(|(n, _)| token.len() - n >= 2 && text.starts_with(&token[n..]))
        })
    }
}

/// Private-use characters that occur in no input.
#[derive(Debug)]
pub(super) struct Marks {
    /// Before a control token.
    open: char,
    /// After a control token, and where two texts must not join.
    close: char,
    /// After the text of the message that is to be continued.
    pub(super) resume: char,
    /// In place of a picture that the template does not write.
    pub(super) image: char,
    /// First characters of control tokens and what replaces them in the second rendering.
    twins: Vec<(char, char)>,
}

impl Marks {
    /// Marks that are not in `used`.
    pub(super) fn choose(used: &BTreeSet<char>, controls: &Controls) -> Result<Self, Error> {
        let mut free = ('\u{f0000}'..='\u{ffffd}').filter(|c| !used.contains(c));
        let mut next = || {
            free.next()
                .ok_or_else(|| Error::Invalid("the messages use all private-use characters".into()))
        };
        Ok(Self {
            open: next()?,
            close: next()?,
            resume: next()?,
            image: next()?,
            twins: controls
                .firsts
                .iter()
                .map(|&c| Ok((c, next()?)))
                .collect::<Result<_, Error>>()?,
        })
    }

    /// The value of [`VARIABLE`].
    pub(super) fn variable(&self) -> String {
        String::from_iter([self.open, self.close, self.resume, self.image])
    }

    /// A text with marks around its control tokens.
    pub(super) fn mark(&self, text: &str, controls: &Controls) -> String {
        let mut out = String::with_capacity(text.len());
        if controls.starts_partially(text) {
            out.push(self.close);
        }
        let mut from = 0;
        for found in controls.any_case.find_iter(text) {
            out.push_str(&text[from..found.start()]);
            out.push(self.open);
            out.push_str(&text[found.range()]);
            out.push(self.close);
            from = found.end();
        }
        out.push_str(&text[from..]);
        if from < text.len() && controls.ends_partially(&text[from..]) {
            out.push(self.close);
        }
        out
    }

    /// A text with twins for the first characters of control tokens.
    pub(super) fn twin(&self, text: &str) -> String {
        let twin =
            |c| self.twins.iter().find(|(first, _)| *first == c).map_or(c, |(_, twin)| *twin);
        text.chars().map(twin).collect()
    }

    /// Whether the second rendering would differ from the first.
    pub(super) fn has_twins(&self, text: &str) -> bool {
        self.twins.iter().any(|(first, _)| text.contains(*first))
    }

    /// The segments of the first rendering, or `None` if the second is to be used instead.
    pub(super) fn split(
        &self,
        marked: &str,
        twinned: Option<&str>,
        controls: &Controls,
    ) -> Option<Vec<Segment>> {
        let segments = self.split_marked(marked, controls);
        if let Some(twinned) = twinned {
            let own = segments.iter().filter(|s| s.control_tokens).map(|s| s.text.as_str());
            if controls.sequence(own) != controls.sequence([twinned]) {
                return None;
            }
        }
        Some(segments)
    }

    fn split_marked(&self, marked: &str, controls: &Controls) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut opened = false;
        let mut rest = marked;
        loop {
            let at = rest.find([self.open, self.close, self.image]);
            let piece = &rest[..at.unwrap_or(rest.len())];
            let mark = rest[piece.len()..].chars().next();
            let whole = |m: aho_corasick::Match| m.range() == (0..piece.len());
            let is_marked = opened
                && mark == Some(self.close)
                && controls.any_case.find(piece).is_some_and(whole);
            if !piece.is_empty() {
                segments.push(Segment::text(piece, !is_marked));
            }
            let Some(mark) = mark else { return segments };
            if mark == self.image {
                segments.push(Segment { image: Some(0), ..Segment::text("", true) });
            }
            opened = mark == self.open;
            rest = &rest[piece.len() + mark.len_utf8()..];
        }
    }

    /// The segments of the second rendering: a control token that begins with a twin is plain text.
    pub(super) fn split_twinned(&self, twinned: &str, controls: &Controls) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut text = String::new();
        // The end of a message's control token, in bytes of `text`.
        let mut chars = twinned.char_indices();
        while let Some((at, c)) = chars.next() {
            if c == self.image {
                if !text.is_empty() {
                    segments.push(Segment::text(std::mem::take(&mut text), true));
                }
                segments.push(Segment { image: Some(0), ..Segment::text("", true) });
                continue;
            }
            let Some(&(first, _)) = self.twins.iter().find(|(_, twin)| *twin == c) else {
                text.push(c);
                continue;
            };
            let after: String = twinned[at + c.len_utf8()..]
                .chars()
                .map(|c| self.twins.iter().find(|(_, t)| *t == c).map_or(c, |(first, _)| *first))
                .take(controls.texts.iter().map(String::len).max().unwrap_or(0))
                .collect();
            let from_here = format!("{first}{after}");
            match controls.exact.find(&from_here).filter(|found| found.start() == 0) {
                None => text.push(first),
                Some(found) => {
                    if !text.is_empty() {
                        segments.push(Segment::text(std::mem::take(&mut text), true));
                    }
                    let token = from_here[found.range()].to_owned();
                    for _ in token.chars().skip(1) {
                        chars.next();
                    }
                    segments.push(Segment::text(token, false));
                }
            }
        }
        if !text.is_empty() {
            segments.push(Segment::text(text, true));
        }
        segments
    }
}

/// A value with `change` applied to all its strings, keys included.
pub(super) fn change_strings(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.iter().map(|item| change_strings(item, change)).collect(),
        Value::Object(map) => Value::Object(change_map(map, change)),
        other => other.clone(),
    }
}

/// As [`change_strings`], of a map.
pub(super) fn change_map(
    map: &Map<String, Value>,
    change: &dyn Fn(&str) -> String,
) -> Map<String, Value> {
    map.iter().map(|(key, value)| (change(key), change_strings(value, change))).collect()
}

/// Whether `test` holds for a string of a value, keys included.
pub(super) fn any_string(value: &Value, test: &mut dyn FnMut(&str) -> bool) -> bool {
    match value {
        Value::String(text) => test(text),
        Value::Array(items) => items.iter().any(|item| any_string(item, test)),
        Value::Object(map) => map.iter().any(|(key, item)| test(key) || any_string(item, test)),
        _ => false,
    }
}

/// Which ends of a text are trimmed.
#[derive(Clone, Copy)]
pub(super) enum Ends {
    Both,
    Left,
    Right,
}

/// A text without white space, or without the characters of `set`, at its ends. Marks are passed
/// over and kept.
pub(super) fn trim(text: &str, set: Option<&str>, marks: &str, ends: Ends) -> String {
    // Python counts the separators from U+001C to U+001F as white space, Rust does not.
    let trimmed = |c: char| match set {
        Some(set) => set.contains(c),
        None => c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c),
    };
    let mut middle = text;
    let (mut before, mut after) = (String::new(), Vec::new());
    if matches!(ends, Ends::Both | Ends::Left) {
        while let Some(c) = middle.chars().next().filter(|c| marks.contains(*c) || trimmed(*c)) {
            if marks.contains(c) {
                before.push(c);
            }
            middle = &middle[c.len_utf8()..];
        }
    }
    if matches!(ends, Ends::Both | Ends::Right) {
        while let Some(c) = middle.chars().next_back().filter(|c| marks.contains(*c) || trimmed(*c))
        {
            if marks.contains(c) {
                after.push(c);
            }
            middle = &middle[..middle.len() - c.len_utf8()];
        }
    }
    before.push_str(middle);
    before.extend(after.into_iter().rev());
    before
}
