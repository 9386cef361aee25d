//! The characters that are replaced.

/// Whether a character changes what a terminal or a log shows: C0 and C1 control characters, DEL,
/// and bidirectional embeddings, overrides and isolates.
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Appends a text as [`text`](crate::text) shows it.
pub(crate) fn push(text: &str, out: &mut String) {
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if rest.peek() == Some(&'\n') => {}
            c if is_unsafe(c) => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
}
