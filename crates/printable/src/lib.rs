//! Text that others wrote, made safe for terminals, logs and error messages.
//!
//! Others are models, files, servers of tools, hubs and HTTP clients. Their text may have control
//! characters, with which it moves a terminal's cursor, sets its title or its clipboard, or forges
//! a line of a log. Bidirectional overrides (Unicode Standard Annex 9) show a text in another order
//! than it has.
//!
//! | function | result | use |
//! |---|---|---|
//! | [`text`] | the lines stay, other such characters are U+FFFD | answers, documents |
//! | [`line()`] | one line, such characters are escapes | errors, log lines, cells of tables |
//! | [`json`] | JSON of the same value | log lines in JSON |
//! | [`Writer`] | bytes as [`text`] shows them, whatever the pieces | standard output |

mod replace;
mod writer;

use std::borrow::Cow;

pub use replace::is_unsafe;
pub use writer::Writer;

use replace::push;

/// Whether a character ends a line for some reader of a log.
fn ends_line(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

/// A text whose line breaks and tabs stay. A carriage return before a line break is left out. Every
/// other [unsafe](is_unsafe) character is U+FFFD.
pub fn text(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_unsafe(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    push(text, &mut out);
    Cow::Owned(out)
}

/// A text as one line. [Unsafe](is_unsafe) characters and ends of lines are written as Rust writes
/// them in a literal: `\n`, `\u{1b}`.
pub fn line(text: &str) -> Cow<'_, str> {
    let is_escaped = |c| is_unsafe(c) || ends_line(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A line of JSON in which [unsafe](is_unsafe) characters are escapes of the same value. JSON has
/// them within strings only, but for the line break at the end, which stays.
pub fn json(line: &str) -> Cow<'_, str> {
    let is_escaped = |c| (is_unsafe(c) && c != '\n') || ends_line(c);
    if !line.contains(is_escaped) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        match is_escaped(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The characters of ECMA-48 and of Unicode Standard Annex 9, section 2, of which none is left.
    const ALL: [std::ops::RangeInclusive<u32>; 4] =
        [0..=0x1f, 0x7f..=0x9f, 0x202a..=0x202e, 0x2066..=0x2069];

    #[test]
    fn every_control_character_is_replaced() {
        for c in ALL.into_iter().flatten().filter_map(char::from_u32) {
            let given = format!("a{c}b");
            let kept = matches!(c, '\n' | '\t');
            let expected = if kept { given.clone() } else { "a\u{fffd}b".to_owned() };
            assert_eq!(text(&given), expected, "{c:?}");
            assert_eq!(line(&given), format!("a{}b", c.escape_default()), "{c:?}");
        }
        let plain = "é 日本 \u{200f}שלום 👩\u{200d}👩 \u{fffd}";
        assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain));
        assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain));
    }

    #[test]
    fn lines_cannot_be_forged() {
        let forged = "llama\r\nerror: all is well\u{2028}x\u{1b}]52;c;YQ==\u{7}";
        let expected = "llama\\r\\nerror: all is well\\u{2028}x\\u{1b}]52;c;YQ==\\u{7}";
        assert_eq!(line(forged), expected);
        assert_eq!(text("a\r\nb\rc\r"), "a\nb\u{fffd}c\u{fffd}");
    }

    #[test]
    fn json_keeps_its_value() {
        let given = "{\"a\":\"\u{9b}31m\u{202e}\u{2029}é\"}\n";
        assert_eq!(json(given), "{\"a\":\"\\u009b31m\\u202e\\u2029é\"}\n");
    }
}
