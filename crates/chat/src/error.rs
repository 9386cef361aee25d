//! Errors of templates and of the messages given to them.

/// Why a chat could not be rendered. Each is one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The template is not valid Jinja, or has what no template may have, such as an import.
    #[error("the chat template has an error in line {line}: {reason}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// Its fault.
        reason: String,
    },
    /// The template called `raise_exception`: it does not support this conversation.
    #[error("the chat template refuses the conversation: {0}")]
    Raised(String),
    /// An operation of the template failed.
    #[error("the chat template failed in line {line}: {reason}")]
    Failed {
        /// Counted from 1; 0 where it is not known.
        line: usize,
        /// The failure.
        reason: String,
    },
    /// The template exceeded one of [`Limits`](crate::Limits).
    #[error("the chat template exceeds the limit of {limit} {what}")]
    Limit {
        /// The limit.
        limit: u64,
        /// The thing that is counted.
        what: &'static str,
    },
    /// A message, a tool or an option is not valid.
    #[error("{0}")]
    Invalid(String),
}
