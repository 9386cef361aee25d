//! GBNF, llama.cpp's notation of grammars, translated to Lark.
//!
//! [`parse`] reads rules, [`lark`] writes them. A rule without recursion becomes a terminal, which a
//! lexer follows fast; only recursive rules stay rules. In those, neighbouring parts without recursion
//! are joined to one terminal.

mod lark;
mod parse;

use crate::Error;

/// The Lark grammar of a GBNF grammar.
///
/// ```
/// let lark = pelton_constraint::gbnf_to_lark("root ::= \"a\"+")?;
/// assert!(lark.starts_with("start: "));
/// # Ok::<(), pelton_constraint::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Gbnf`] with the line of what is not sound.
pub fn gbnf_to_lark(grammar: &str) -> Result<String, Error> {
    let rules = parse::parse(grammar)?;
    Ok(lark::write(&rules))
}

/// A part of a rule.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    /// A text.
    Text(String),
    /// One character of these ranges, or of all others.
    Class { negated: bool, ranges: Vec<(char, char)> },
    /// A rule, by its index.
    Rule(usize),
    /// A token as Lark writes it, such as `<[7]>`.
    Token(String),
    /// All of them.
    Sequence(Vec<Part>),
    /// One of them.
    Choice(Vec<Part>),
    /// So often; without a maximum any number.
    Repeat { part: Box<Part>, min: usize, max: Option<usize> },
}

/// Rules by index; the first is `root`.
#[derive(Debug, Default)]
struct Rules {
    /// Each with the line of its definition.
    rules: Vec<(Part, usize)>,
}
