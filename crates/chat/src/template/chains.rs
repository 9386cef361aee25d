//! The limit of how deeply the syntax tree of a template nests through chains.
//!
//! minijinja limits parentheses and blocks within each other. Each filter of `a|b|c`, each operator
//! of `a + b + c` and each `elif` of an `if` makes its tree deeper too, and these it does not
//! limit.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::Error;

/// The greatest depth that chains make. Templates of published models stay below 50.
const DEPTH: usize = 400;

/// Blocks and parentheses within each other, more than the parser reads.
const NESTING: usize = 200;

/// Checks a template. One that is not valid is left to the parser.
///
/// # Errors
/// If its chains are too long.
pub(super) fn check(source: &str, syntax: SyntaxConfig) -> Result<(), Error> {
    let mut depth = Depth::default();
    let mut is_first = false;
    for (token, span) in tokenize(source, false, syntax).map_while(Result::ok) {
        match (&token, is_first) {
            (Token::Ident("elif"), true) => depth.branch(),
            (Token::Ident("if"), true) => depth.branches.push(0),
            (Token::Ident("endif"), true) => drop(depth.branches.pop()),
            _ => depth.operator(&token),
        }
        is_first = matches!(token, Token::BlockStart);
        if depth.branches.len().max(depth.parts.len()) > NESTING {
            return Ok(());
        }
        if depth.is_exceeded() {
            let reason = format!(
                "an expression or an `if` has a chain of more than {DEPTH} parts, divide it with `set`"
            );
            return Err(Error::Syntax { line: span.start_line.into(), reason });
        }
    }
    Ok(())
}

/// The greatest depth that a token can have.
#[derive(Default)]
struct Depth {
    /// For each open `if`, how often it has `elif`.
    branches: Vec<usize>,
    /// For each open parenthesis of the block, the parts since the last comma and the most before
    /// it.
    parts: Vec<(usize, usize)>,
}

impl Depth {
    fn branch(&mut self) {
        if let Some(count) = self.branches.last_mut() {
            *count += 1;
        }
    }

    fn operator(&mut self, token: &Token<'_>) {
        match token {
            Token::VariableStart | Token::BlockStart => self.parts = vec![(0, 0)],
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => self.parts.push((0, 0)),
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                let (count, most) = self.parts.pop().unwrap_or_default();
                self.add(count.max(most) + 1);
            }
            Token::Comma | Token::Colon => {
                if let Some((count, most)) = self.parts.last_mut() {
                    *most = (*most).max(std::mem::take(count));
                }
            }
            Token::Ident("and" | "or" | "not" | "is" | "in" | "if" | "else")
            | Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::FloorDiv
            | Token::Pow
            | Token::Mod
            | Token::Dot
            | Token::Tilde
            | Token::Pipe
            | Token::Eq
            | Token::Ne
            | Token::Gt
            | Token::Gte
            | Token::Lt
            | Token::Lte => self.add(1),
            _ => {}
        }
    }

    fn add(&mut self, parts: usize) {
        if let Some((count, _)) = self.parts.last_mut() {
            *count += parts;
        }
    }

    fn is_exceeded(&self) -> bool {
        let parts = self.parts.iter().map(|(count, most)| count.max(most));
        self.branches.iter().chain(parts).sum::<usize>() > DEPTH
    }
}
