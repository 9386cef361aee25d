//! The size of a grammar in Lark's notation.

use std::collections::HashMap;

use super::{
    limits::{GRAMMAR_PARTS_MAX, check as check_number},
    regex::Size,
    tokens::{Token, Tokens},
};
use crate::Error;

/// Parts of an expression that has to match together with others: their states multiply.
const AND_PARTS: usize = 100;

/// A rule or a terminal.
#[derive(Default)]
struct Definition {
    is_terminal: bool,
    /// Its own size.
    size: Size,
    /// The terminals that it refers to, each as often as it does.
    uses: Vec<usize>,
}

/// The definitions of a grammar by their names.
#[derive(Default)]
struct Grammar<'t> {
    names: HashMap<&'t str, usize>,
    definitions: Vec<Definition>,
    /// Elements of all of them.
    parts: usize,
}

/// Refuses a grammar that is too large.
pub(crate) fn check(text: &str) -> Result<(), Error> {
    let grammar = Grammar::read(text)?;
    check_number("elements", grammar.parts, GRAMMAR_PARTS_MAX)?;
    for size in grammar.sizes() {
        size.check()?;
    }
    Ok(())
}

impl<'t> Grammar<'t> {
    fn read(text: &'t str) -> Result<Self, Error> {
        let mut grammar = Self::default();
        // statements before the first definition belong to none
        let mut current = grammar.index("");
        let (mut begins, mut candidate) = (true, None);
        for token in Tokens::new(text) {
            let began = std::mem::replace(&mut begins, token == Token::Line);
            match token {
                Token::Line => candidate = None,
                Token::Operator if began => begins = true,
                Token::Colon => {
                    if let Some(name) = candidate.take() {
                        current = grammar.index(name);
                    }
                }
                Token::Name(name) => {
                    if began {
                        candidate = Some(name);
                    }
                    let used = grammar.index(name);
                    if !began && grammar.definitions[used].is_terminal {
                        grammar.definitions[current].uses.push(used);
                    }
                    grammar.parts += 1;
                }
                Token::Text { bytes, ignores_case } => {
                    let parts = if ignores_case { bytes } else { 0 };
                    grammar.add(current, Size { parts, bytes });
                }
                Token::Regex { body, ignores_case } => {
                    let size = Size::of(body, ignores_case);
                    size.check()?;
                    grammar.add(current, size);
                }
                Token::Operator => grammar.add(current, Size { parts: 1, bytes: 0 }),
                Token::And => grammar.add(current, Size { parts: AND_PARTS, bytes: 0 }),
                Token::Json => grammar.parts += 1,
            }
        }
        Ok(grammar)
    }

    fn index(&mut self, name: &'t str) -> usize {
        let next = self.definitions.len();
        let index = *self.names.entry(name).or_insert(next);
        if index == next {
            let first = name.trim_start_matches('_').chars().next();
            let is_terminal = first.is_some_and(|c| c.is_ascii_uppercase());
            self.definitions.push(Definition { is_terminal, ..Definition::default() });
        }
        index
    }

    fn add(&mut self, definition: usize, size: Size) {
        self.parts += 1;
        let whole = &mut self.definitions[definition].size;
        *whole = whole.and(size);
    }

    /// The sizes of the terminals with all that they refer to.
    fn sizes(&self) -> Vec<Size> {
        let mut sizes: Vec<Option<Size>> = vec![None; self.definitions.len()];
        for start in 0..self.definitions.len() {
            if !self.definitions[start].is_terminal {
                continue;
            }
            // a terminal, and how many of its uses were looked at
            let mut path = vec![(start, 0)];
            while let Some((index, next)) = path.pop() {
                let definition = &self.definitions[index];
                if next == 0 {
                    if sizes[index].is_some() {
                        continue;
                    }
                    // one that refers to itself has no size: the compiler refuses it
                    sizes[index] = Some(Size::default());
                }
                if let Some(&used) = definition.uses.get(next) {
                    path.extend([(index, next + 1), (used, 0)]);
                    continue;
                }
                let used = definition.uses.iter().filter_map(|&used| sizes[used]);
                sizes[index] = Some(used.fold(definition.size, Size::and));
            }
        }
        sizes.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_have_the_sizes_of_what_they_refer_to() {
        let doubling = |count: usize| {
            let more: String =
                (1..=count).map(|i| format!("T{i}: T{} T{}\n", i - 1, i - 1)).collect();
            format!("start: T{count}\nT0: \"a\"?\n{more}")
        };
        assert!(check(&doubling(9)).is_ok());
        for count in [10, 200] {
            let refused = check(&doubling(count));
            assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
        }
        assert!(check("start: A\nA: A A \"a\"?\n").is_ok());
        let long = format!("start: {}", "\"a\" ".repeat(GRAMMAR_PARTS_MAX));
        assert!(check(&long).is_err());
        assert!(check(&format!("start: {}", "a ".repeat(5000))).is_ok());
        assert!(check(&format!("start: /{}/", "a?".repeat(1001))).is_err());
        assert!(check(&format!("start: A\nA: {}", "\"a\"? ".repeat(1001))).is_err());
    }
}
