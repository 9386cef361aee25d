//! GBNF, llama.cpp's notation of grammars, translated to Lark.
//!
//! [`parse`] reads rules, [`lark`] writes them. A rule without recursion becomes a terminal, which
//! a lexer follows fast. Recursive rules stay rules, and their strings, classes and repetitions of
//! these are terminals. A terminal takes as many characters as it can. Texts that need a shorter
//! match in a recursive rule, as in `[a-z]* "end"`, are not allowed. No text is allowed that the
//! grammar excludes.

mod endless;
mod lark;
mod parse;
mod rules;

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
