//! Lines of a text that comes in pieces, broken between words at the width of a terminal.

use console::measure_text_width;

/// The marker around a block of code, whose lines are printed as they are.
const FENCE: &str = "```";

/// A breaker of lines. The word at the end of a piece is held back until the next piece ends it.
///
/// Escape sequences of styles have no width. A word that is wider than the terminal is
/// left to the terminal.
#[derive(Debug, Default)]
pub(crate) struct Wrap {
    /// A word that may go on, with the styles in it.
    held: String,
    /// Columns of the line that are printed.
    column: usize,
    /// Whether a word of the line is printed.
    begun: bool,
    /// Whether the line is in a block of code or at its border.
    code: bool,
    block: bool,
    /// Whether the last characters are an escape sequence that has not ended.
    escape: bool,
}

impl Wrap {
    /// The next piece of the text as far as its words have ended, for a terminal of `width`
    /// columns.
    pub(crate) fn push(&mut self, text: &str, width: usize) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            if self.escape || c == '\x1b' {
                self.held.push(c);
                self.escape = !c.is_ascii_alphabetic();
                continue;
            }
            match c {
                '\n' => {
                    self.word(&mut out, width);
                    out.push('\n');
                    (self.column, self.begun, self.code) = (0, false, self.block);
                }
                ' ' | '\t' => {
                    self.word(&mut out, width);
                    // a space after a full line would begin the next one
                    if self.column < width || self.code {
                        out.push(c);
                        self.column += 1;
                    }
                }
                // characters of two columns are words of their own, as in Chinese
                c if measure_text_width(c.encode_utf8(&mut [0; 4])) > 1 => {
                    self.word(&mut out, width);
                    self.held.push(c);
                    self.word(&mut out, width);
                }
                c => self.held.push(c),
            }
        }
        out
    }

    /// The rest of the text.
    pub(crate) fn finish(&mut self, width: usize) -> String {
        let mut out = String::new();
        self.word(&mut out, width);
        *self = Self::default();
        out
    }

    /// Writes the held word, on a line of its own if the line has no room for it.
    fn word(&mut self, out: &mut String, width: usize) {
        let columns = measure_text_width(&self.held);
        if columns > 0 && !self.begun {
            self.begun = true;
            if console::strip_ansi_codes(&self.held).starts_with(FENCE) {
                (self.block, self.code) = (!self.block, true);
            }
        }
        if !self.code && self.column > 0 && columns <= width && self.column + columns > width {
            out.push('\n');
            self.column = 0;
        }
        self.column += columns;
        out.push_str(&self.held);
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrapped(pieces: &[&str], width: usize) -> String {
        let mut wrap = Wrap::default();
        let mut out: String = pieces.iter().map(|piece| wrap.push(piece, width)).collect();
        out.push_str(&wrap.finish(width));
        out
    }

    #[test]
    fn words_are_whole() {
        for (text, expected) in [
            ("one two three four", "one two \nthree four"),
            // a full line takes no space
            ("one two four five", "one two \nfour five"),
            ("exactly 10 columns", "exactly 10\ncolumns"),
            ("longer-than-a-line x", "longer-than-a-line\nx"),
            ("a\nb", "a\nb"),
            ("日本語の文章", "日本語の文\n章"),
            ("\x1b[1mbold words here\x1b[0m", "\x1b[1mbold words\nhere\x1b[0m"),
            (
                "```\nlet a = b + c + d;\n```\none two three",
                "```\nlet a = b + c + d;\n```\none two \nthree",
            ),
        ] {
            assert_eq!(wrapped(&[text], 10), expected, "{text:?}");
        }
    }

    proptest! {
        /// Cuts change nothing, no character but spaces is lost, and no line of
        /// short words is too wide.
        #[test]
        fn any_cut_gives_the_same(text in "[ab \n]{0,60}", cut in 0usize..60) {
            let cut = cut.min(text.len());
            let out = wrapped(&[&text], 12);
            prop_assert_eq!(&out, &wrapped(&[&text[..cut], &text[cut..]], 12));
            let letters = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assert_eq!(letters(&out), letters(&text));
            let fits = |line: &str| line.len() <= 12 || !line.trim().contains(' ');
            prop_assert!(out.lines().all(fits), "{:?}", out);
        }
    }
}
