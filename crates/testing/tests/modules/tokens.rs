//! A lexer for Rust source, sufficient to find module declarations, imports and paths.

/// An identifier, `::` or a single punctuation character, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Token {
    pub(crate) fn is_identifier(&self) -> bool {
        self.text.starts_with(|c: char| c == '_' || c.is_alphabetic())
    }
}

/// Splits source text into tokens. Comments, literals and lifetimes are omitted.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { chars: source.chars().collect(), at: 0, line: 1 };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next() {
        tokens.push(token);
    }
    tokens
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Lexer {
    fn peek(&self, offset: usize) -> char {
        self.chars.get(self.at + offset).copied().unwrap_or('\0')
    }

    fn bump(&mut self) -> char {
        let c = self.peek(0);
        self.line += usize::from(c == '\n');
        self.at += 1;
        c
    }

    fn next(&mut self) -> Option<Token> {
        while self.at < self.chars.len() {
            let line = self.line;
            let text = match (self.peek(0), self.peek(1)) {
                ('/', '/') => {
                    while self.at < self.chars.len() && self.peek(0) != '\n' {
                        self.bump();
                    }
                    continue;
                }
                ('/', '*') => {
                    self.block_comment();
                    continue;
                }
                ('"', _) => {
                    self.string();
                    continue;
                }
                ('\'', _) => {
                    self.quote();
                    continue;
                }
                (':', ':') => {
                    self.at += 2;
                    "::".to_owned()
                }
                (c, _) if c == '_' || c.is_alphanumeric() => {
                    let word = self.word();
                    if self.is_literal_prefix(&word) {
                        self.prefixed_string(&word);
                        continue;
                    }
                    if word.starts_with(|c: char| c.is_ascii_digit()) {
                        continue;
                    }
                    word
                }
                (c, _) => {
                    self.bump();
                    if c.is_whitespace() {
                        continue;
                    }
                    c.to_string()
                }
            };
            return Some(Token { text, line });
        }
        None
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while self.peek(0) == '_' || self.peek(0).is_alphanumeric() {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    /// Whether the word that ends here is the prefix of a string: `b"`, `r"`, `br#"`.
    fn is_literal_prefix(&self, word: &str) -> bool {
        let mut after = 0;
        while word.contains('r') && self.peek(after) == '#' {
            after += 1;
        }
        matches!(word, "b" | "c" | "r" | "br" | "cr") && self.peek(after) == '"'
    }

    fn prefixed_string(&mut self, prefix: &str) {
        if !prefix.contains('r') {
            return self.string();
        }
        let mut hashes = 0;
        while self.peek(0) == '#' {
            self.bump();
            hashes += 1;
        }
        self.bump();
        while self.at < self.chars.len() {
            if self.bump() == '"' && (0..hashes).all(|i| self.peek(i) == '#') {
                self.at += hashes;
                return;
            }
        }
    }

    fn string(&mut self) {
        self.bump();
        while self.at < self.chars.len() {
            match self.bump() {
                '\\' => {
                    self.bump();
                }
                '"' => return,
                _ => {}
            }
        }
    }

    /// Skips a character literal or a lifetime.
    fn quote(&mut self) {
        self.bump();
        if self.peek(0) == '\\' {
            self.at += 2;
            while self.at < self.chars.len() && self.bump() != '\'' {}
        } else if self.peek(1) == '\'' {
            self.bump();
            self.bump();
        } else {
            self.word();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => {
                    depth += 1;
                    self.at += 2;
                }
                ('*', '/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return;
                    }
                }
                _ => {
                    self.bump();
                }
            }
        }
    }
}
