//! The tokens of a grammar in Lark's notation.

use serde_json::{Deserializer, Value};

/// A token. Tokens that say nothing about the size of a grammar are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A rule's or a terminal's name, or a word.
    Name(&'t str),
    /// A text in quotation marks.
    Text { bytes: usize, ignores_case: bool },
    /// A regular expression between slashes.
    Regex { body: &'t str, ignores_case: bool },
    /// A repetition or a negation.
    Operator,
    /// The sign between expressions all of which have to match.
    And,
    /// A colon, before which a definition's name is.
    Colon,
    /// The end of a line.
    Line,
    /// A value of JSON.
    Json,
}

/// The tokens of a grammar; what no grammar has is skipped.
pub(super) struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { rest: text }
    }

    /// Takes bytes up to where `ends` holds.
    fn until(&mut self, ends: impl Fn(char) -> bool) -> &'t str {
        let (taken, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Takes a text that a sign ends, with backslashes before signs that do not.
    fn quoted(&mut self, sign: char) -> &'t str {
        let mut is_escaped = false;
        let end = self.rest[1..].find(|c: char| {
            let ends = c == sign && !is_escaped || c == '\n' && sign == '"';
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let (body, rest) = match end {
            Some(end) if self.rest[1 + end..].starts_with(sign) => {
                (&self.rest[1..=end], &self.rest[end + 2..])
            }
            Some(end) => (&self.rest[1..=end], &self.rest[1 + end..]),
            None => (&self.rest[1..], ""),
        };
        self.rest = rest;
        body
    }

    /// Whether a flag after a text says that its case is ignored.
    fn ignores_case(&mut self) -> bool {
        self.until(|c| !"imslux".contains(c)).contains('i')
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        loop {
            let first = self.rest.chars().next()?;
            match first {
                '#' => {
                    self.until(|c| c == '\n');
                }
                '/' if self.rest.starts_with("//") => {
                    self.until(|c| c == '\n');
                }
                '/' => {
                    let body = self.quoted('/');
                    return Some(Token::Regex { body, ignores_case: self.ignores_case() });
                }
                '"' => {
                    let bytes = self.quoted('"').len();
                    let ignores_case = self.rest.starts_with('i');
                    return Some(Token::Text { bytes, ignores_case });
                }
                '%' => {
                    self.rest = &self.rest[1..];
                    let word = self.until(|c| !c.is_ascii_alphabetic());
                    if ["json", "regex"].contains(&word) {
                        let mut values = Deserializer::from_str(self.rest).into_iter::<Value>();
                        if let Some(Ok(_)) = values.next() {
                            self.rest = &self.rest[values.byte_offset()..];
                        }
                        return Some(Token::Json);
                    }
                }
                c if c.is_ascii_alphabetic() || c == '_' => {
                    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    return Some(Token::Name(self.until(|c| !is_part(c))));
                }
                c => {
                    self.rest = &self.rest[c.len_utf8()..];
                    match c {
                        ':' => return Some(Token::Colon),
                        '&' => return Some(Token::And),
                        '\n' => return Some(Token::Line),
                        '?' | '*' | '+' | '~' | '{' | '<' | '[' => return Some(Token::Operator),
                        _ => {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_grammars() {
        let text = "?r: \"a\\\"b\"i | /c\\/d[x]/i+ # \"x\"\nT: %json {\"a\": \"b\"} // y\n\"é";
        let text_of = |bytes, ignores_case| Token::Text { bytes, ignores_case };
        assert_eq!(
            Tokens::new(text).collect::<Vec<_>>(),
            [
                Token::Operator,
                Token::Name("r"),
                Token::Colon,
                text_of(4, true),
                Token::Name("i"),
                Token::Regex { body: "c\\/d[x]", ignores_case: true },
                Token::Operator,
                Token::Line,
                Token::Name("T"),
                Token::Colon,
                Token::Json,
                Token::Line,
                text_of(2, false),
            ]
        );
    }
}
