//! The line comments of a Rust or WGSL source.

/// A run of comment lines of one kind, as a Markdown document.
#[derive(Debug, PartialEq)]
pub(crate) struct Comment {
    /// The number of its first line, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// The comments `//`, `///` and `//!` of a source. Lines that follow each other, with nothing else
/// on them, are one comment.
pub(crate) fn comments(source: &str) -> Vec<Comment> {
    let mut comments: Vec<Comment> = Vec::new();
    // the marker and the line of a comment that the next line may continue
    let mut open: Option<(&str, usize)> = None;
    for (at, comment) in starts(source) {
        let line = source[..at].matches('\n').count() + 1;
        let marker = ["///", "//!", "//"].into_iter().find(|marker| comment.starts_with(marker));
        let (marker, text) =
            marker.map_or(("", comment), |marker| (marker, &comment[marker.len()..]));
        let alone = source[..at].rsplit('\n').next().is_some_and(|before| before.trim().is_empty());
        match comments.last_mut().filter(|_| alone && open == Some((marker, line - 1))) {
            Some(before) => before.text.extend(["\n", text]),
            None => comments.push(Comment { line, text: text.to_owned() }),
        }
        open = alone.then_some((marker, line));
    }
    comments
}

/// The places and texts, to the ends of their lines, of all line comments outside of literals.
fn starts(source: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let length = if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            found.push((at, &rest[..length]));
            length
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with('"') {
            string(rest)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if rest.starts_with('\'') {
            character(rest)
        } else {
            // a word is passed as a whole, so that the r at its end begins no raw string
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            word.max(rest.chars().next().map_or(1, char::len_utf8))
        };
        at += length;
    }
    found
}

/// The bytes of the string literal that `rest` begins with.
fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    rest.len()
}

/// The bytes of the raw string literal that `rest` begins with, if it does.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let content = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = content.find(&end).map_or(content.len(), |at| at + end.len());
    Some(rest.len() - content.len() + length)
}

/// The bytes of the character literal that `rest` begins with, or 1 for the mark of a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(rest.len(), |at| 3 + at + 1),
        Some((_, _)) => chars.next().filter(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 1),
        None => 1,
    }
}
