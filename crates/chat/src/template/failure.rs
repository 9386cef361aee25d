//! Errors of minijinja as those of the crate.

use std::error::Error as _;

use crate::Error;

/// An error of the parser or the compiler.
pub(super) fn syntax(error: &minijinja::Error) -> Error {
    Error::Syntax { line: error.line().unwrap_or(0), reason: reason(error) }
}

/// The kind and the detail of an error, and those of its causes.
pub(super) fn reason(error: &minijinja::Error) -> String {
    let mut reason = match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.kind().to_string(),
    };
    if let Some(cause) = error.source() {
        reason.push_str(": ");
        reason.push_str(&cause.to_string());
    }
    reason.replace('\n', " ")
}
