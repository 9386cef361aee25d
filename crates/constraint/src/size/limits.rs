//! Limits of grammars and of regular expressions.

use crate::Error;

/// Limit of parts of one regular expression, or of one terminal with all terminals that it refers
/// to.
pub(super) const PARTS_MAX: usize = 1000;
/// Limit of bytes of the literal text of one.
pub(super) const BYTES_MAX: usize = 64 << 10;
/// Limit of elements of all rules and terminals of a grammar.
pub(super) const GRAMMAR_PARTS_MAX: usize = 60_000;

/// Refuses a number above a limit.
pub(crate) fn check(what: &'static str, found: usize, limit: usize) -> Result<(), Error> {
    match found > limit {
        true => Err(Error::TooLarge { what, found, limit }),
        false => Ok(()),
    }
}
