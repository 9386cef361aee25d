//! The reasons why a constraint is refused, or cannot be followed.

/// Why a constraint is refused, or cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A schema has a keyword that cannot be enforced.
    #[error(
        "the JSON schema has the keyword '{keyword}' at {path}, which is not supported{reason}"
    )]
    Keyword {
        /// The keyword.
        keyword: String,
        /// The place of the schema that has it, as a JSON pointer after `#`.
        path: String,
        /// More about it, after a comma or a colon; may be empty.
        reason: &'static str,
    },

    /// A schema is no schema, or it cannot be turned into a grammar.
    #[error("the JSON schema cannot be enforced: {0}")]
    Schema(String),

    /// A regular expression is not sound.
    #[error("the regular expression cannot be enforced: {0}")]
    Regex(String),

    /// A Lark grammar is not sound.
    #[error("the Lark grammar cannot be enforced: {0}")]
    Lark(String),

    /// A GBNF grammar is not sound.
    #[error("the GBNF grammar cannot be enforced: line {line}: {reason}")]
    Gbnf {
        /// The line, from 1.
        line: usize,
        /// The value found, and the expected one.
        reason: String,
    },

    /// A constraint is too large.
    #[error("the constraint has {found} {what}, expected at most {limit}")]
    TooLarge {
        /// Such as `bytes` or `levels`.
        what: &'static str,
        /// How many it has.
        found: usize,
        /// How many it can have.
        limit: usize,
    },

    /// A constraint was not compiled in time.
    #[error("the constraint is not compiled within 5 seconds, expected a simpler one")]
    Slow,

    /// Others are being compiled, and went on for too long.
    #[error("other constraints are being compiled, expected a request at a later time")]
    Busy,

    /// One token of the text takes too much work.
    #[error(
        "the constraint needs too much work for one token, expected a simpler one: fewer \
         alternatives, optional parts and repetitions that match the same text"
    )]
    Work,

    /// The text cannot be followed: it became too complex, or no token of the vocabulary can come.
    #[error("the constraint cannot be followed any further: {0}")]
    Stuck(String),

    /// The model's vocabulary cannot be constrained.
    #[error("the vocabulary cannot be constrained: {0}")]
    Vocabulary(String),
}
