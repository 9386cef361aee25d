//! Changes of a template's source at the positions of its syntax tree.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::Error;

/// Changes of a template, each made while its node is visited: that after those within it.
pub(super) struct Edits<'s> {
    pub(super) source: &'s str,
    /// Texts before an offset, the outer of two after the inner.
    starts: Vec<(usize, String)>,
    /// Bytes to be left out at an offset and the text instead, the inner of two first.
    ends: Vec<(usize, usize, Cow<'static, str>)>,
}

impl<'s> Edits<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, starts: Vec::new(), ends: Vec::new() }
    }

    /// Puts a text before an offset, where a node or its value begins.
    pub(super) fn start(&mut self, at: usize, text: String) {
        self.starts.push((at, text));
    }

    /// Puts a text at an offset, where a node or its value ends.
    pub(super) fn end(&mut self, at: usize, text: impl Into<Cow<'static, str>>) {
        self.ends.push((at, 0, text.into()));
    }

    /// Replaces the byte at an offset.
    pub(super) fn replace(&mut self, at: usize, text: &'static str) {
        self.ends.push((at, 1, text.into()));
    }

    /// The offset after white space and the characters of `also`, such as parentheses.
    pub(super) fn skip(&self, from: usize, also: &[char]) -> usize {
        let rest = &self.source[from..];
        let skipped = |c: char| c.is_whitespace() || also.contains(&c);
        from + rest.len() - rest.trim_start_matches(skipped).len()
    }

    /// The changed template.
    pub(super) fn apply(mut self) -> String {
        // the outer of two operations is visited last
        self.starts.reverse();
        self.starts.sort_by_key(|(at, _)| *at);
        self.ends.sort_by_key(|(at, ..)| *at);
        let mut source = String::with_capacity(self.source.len() * 2);
        let (mut starts, mut ends) = (self.starts.iter().peekable(), self.ends.iter().peekable());
        let mut from = 0;
        loop {
            let next = match (starts.peek(), ends.peek()) {
                (Some((start, _)), Some((end, ..))) => (*start).min(*end),
                (Some((start, _)), None) => *start,
                (None, Some((end, ..))) => *end,
                (None, None) => break,
            };
            source.push_str(&self.source[from.min(next)..next]);
            from = from.max(next);
            while let Some((_, skipped, text)) = ends.next_if(|(at, ..)| *at == next) {
                source.push_str(text);
                from = from.max(next + skipped);
            }
            while let Some((_, text)) = starts.next_if(|(at, _)| *at == next) {
                source.push_str(text);
            }
        }
        source.push_str(&self.source[from..]);
        source
    }
}

/// An offset of a span.
///
/// # Errors
/// If it has none.
pub(super) fn offset(span: &Json, field: &str) -> Result<usize, Error> {
    let offset = span[field].as_u64().and_then(|offset| usize::try_from(offset).ok());
    offset.ok_or_else(|| refused(span, "a part of it has no position"))
}

/// The error of a template that has something at a span.
pub(super) fn refused(span: &Json, reason: &str) -> Error {
    let line = span["start_line"].as_u64().and_then(|line| usize::try_from(line).ok());
    Error::Syntax { line: line.unwrap_or(0), reason: reason.to_owned() }
}

/// The offset of the end of a node.
///
/// # Errors
/// If it has none.
pub(super) fn end(node: &Json) -> Result<usize, Error> {
    offset(&node["inner"][1], "end_offset")
}
