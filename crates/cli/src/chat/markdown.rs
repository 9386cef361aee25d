//! Markdown as it comes, with the styles of a terminal.

const BOLD: &str = "\x1b[1m";
const ITALIC: &str = "\x1b[3m";
const CODE: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// The inline style of the text at a position of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Style {
    heading: bool,
    bold: bool,
    italic: bool,
    code: bool,
    quote: bool,
}

impl Style {
    /// The escape sequence that sets it.
    fn sequence(self) -> String {
        let mut sequence = RESET.to_owned();
        for (on, code) in [
            (self.heading || self.bold, BOLD),
            (self.italic, ITALIC),
            (self.code, CODE),
            (self.quote, DIM),
        ] {
            if on {
                sequence.push_str(code);
            }
        }
        sequence
    }
}

/// A renderer of headings, emphasis, code, quotes and lists in a text that comes in pieces.
///
/// Everything else is printed as it is. Text that may be a marker is held back until the next
/// character decides it. Styles end with their line.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    /// Text that is not printed yet.
    held: String,
    style: Style,
    /// Whether the beginning of the line was printed.
    inside: bool,
    /// Whether the line is in a block of code.
    block: bool,
    /// The last character that was printed on the line.
    before: Option<char>,
}

impl Markdown {
    /// The next piece of the text, rendered as far as it is decided.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let mut out = String::new();
        while self.step(&mut out, false) {}
        out
    }

    /// The rest of the text.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        while self.step(&mut out, true) {}
        if self.style != Style::default() || self.block {
            out.push_str(RESET);
        }
        *self = Self::default();
        out
    }

    /// Renders the next character or marker; whether there may be more to render.
    fn step(&mut self, out: &mut String, end: bool) -> bool {
        let Some(first) = self.held.chars().next() else { return false };
        if !self.inside {
            return self.begin_line(out, end);
        }
        if first == '\n' {
            if self.style != Style::default() {
                out.push_str(RESET);
            }
            self.style = Style::default();
            (self.inside, self.before) = (false, None);
            self.take(1);
            out.push('\n');
            return true;
        }
        if self.block || !matches!(first, '*' | '_' | '`') {
            return self.print(first, out);
        }
        if first == '`' {
            self.style.code = !self.style.code;
            self.take(1);
            out.push_str(&self.style.sequence());
            return true;
        }
        if self.style.code {
            return self.print(first, out);
        }
        // Emphasis is decided by the characters around the marker.
        let run = self.held.chars().take_while(|c| *c == first).count();
        let after = self.held.chars().nth(run);
        if after.is_none() && !end {
            return false;
        }
        let opens = after.is_some_and(|c| !c.is_whitespace());
        let closes = self.before.is_some_and(|c| !c.is_whitespace());
        let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let inner = first == '_' && word(self.before) && word(after);
        if run > 3 || inner {
            (0..run).for_each(|_| {
                self.print(first, out);
            });
            return true;
        }
        let changes = |on: bool| if on { closes } else { opens };
        let bold = run < 2 || changes(self.style.bold);
        let italic = run == 2 || changes(self.style.italic);
        match bold && italic {
            true => {
                self.style.bold ^= run >= 2;
                self.style.italic ^= run != 2;
                self.take(run);
                out.push_str(&self.style.sequence());
            }
            false => (0..run).for_each(|_| {
                self.print(first, out);
            }),
        }
        true
    }

    /// Renders the markers at the beginning of a line.
    fn begin_line(&mut self, out: &mut String, end: bool) -> bool {
        let indent = self.held.len() - self.held.trim_start_matches([' ', '\t']).len();
        let rest = &self.held[indent..];
        let Some(first) = rest.chars().next() else {
            // Only white space so far.
            if end {
                out.push_str(&std::mem::take(&mut self.held));
            }
            return false;
        };
        if first == '`' {
            let fence = rest.starts_with("```");
            if !fence && "```".starts_with(rest) && !end {
                return false;
            }
            if fence {
                let Some(line) = rest.find('\n').or(end.then_some(rest.len())) else {
                    return false;
                };
                out.push_str(DIM);
                out.push_str(&self.held[..indent + line]);
                out.push_str(RESET);
                self.block = !self.block;
                self.take(indent + line);
                self.inside = true;
                return true;
            }
        }
        self.inside = true;
        if self.block {
            out.push_str(CODE);
            self.style.code = true;
            return true;
        }
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let marker = match first {
            '#' => hashes,
            '>' | '-' | '*' | '+' => 1,
            _ => 0,
        };
        let after = rest[marker..].chars().next();
        if marker > 0 && after.is_none() && !end {
            self.inside = false;
            return false;
        }
        let is_marker = after == Some(' ') || (first == '>' && after == Some('\n'));
        if marker == 0 || !is_marker || hashes > 6 {
            return true;
        }
        out.push_str(&self.held[..indent]);
        match first {
            '#' => self.style.heading = true,
            '>' => {
                self.style.quote = true;
                out.push_str(DIM);
                out.push('│');
            }
            _ => out.push('•'),
        }
        // The space after the number signs is no part of a heading.
        self.take(indent + marker + usize::from(first == '#'));
        if first == '#' {
            out.push_str(BOLD);
        }
        true
    }

    /// Prints a character as it is.
    fn print(&mut self, c: char, out: &mut String) -> bool {
        self.take(c.len_utf8());
        self.before = Some(c);
        out.push(c);
        true
    }

    fn take(&mut self, bytes: usize) {
        self.held.drain(..bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A rendering with readable names of the styles.
    fn render(pieces: &[&str]) -> String {
        let mut markdown = Markdown::default();
        let mut out: String = pieces.iter().map(|piece| markdown.push(piece)).collect();
        out.push_str(&markdown.finish());
        let names = [(RESET, "{}"), (BOLD, "{b}"), (ITALIC, "{i}"), (CODE, "{c}"), (DIM, "{d}")];
        names.iter().fold(out, |out, (code, name)| out.replace(code, name))
    }

    #[test]
    fn what_is_rendered() {
        for (text, expected) in [
            ("plain # text\n", "plain # text\n"),
            ("## Head\nx", "{b}Head{}\nx"),
            ("#tag", "#tag"),
            ("a **b** c", "a {}{b}b{} c"),
            ("a *b* c _d_", "a {}{i}b{} c {}{i}d{}"),
            ("2 * 3 * 4", "2 * 3 * 4"),
            ("snake_case_name", "snake_case_name"),
            ("***x***", "{}{b}{i}x{}"),
            ("`a*b*` c", "{}{c}a*b*{} c"),
            ("- one\n  * two\n-3", "• one\n  • two\n-3"),
            ("> quote\ntext", "{d}│ quote{}\ntext"),
            (
                "```rust\nlet a = b * *c;\n```\n*d*",
                "{d}```rust{}\n{c}let a = b * *c;{}\n{d}```{}\n{}{i}d{}",
            ),
            ("**open\nnext", "{}{b}open{}\nnext"),
            ("-----", "-----"),
            ("1. one", "1. one"),
        ] {
            assert_eq!(render(&[text]), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(text in "[ab *_`#>\n-]{0,30}", cut in 0usize..30) {
            let cut = cut.min(text.len());
            prop_assert_eq!(render(&[&text]), render(&[&text[..cut], &text[cut..]]));
            // nothing but markers is lost
            let letters = |text: &str| text.chars().filter(|c| "ab".contains(*c)).collect::<String>();
            let mut plain = Markdown::default();
            let out = plain.push(&text) + &plain.finish();
            let out = [RESET, BOLD, ITALIC, CODE, DIM].iter().fold(out, |out, code| out.replace(code, ""));
            prop_assert_eq!(letters(&out), letters(&text));
        }
    }
}
