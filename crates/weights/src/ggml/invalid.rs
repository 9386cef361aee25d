//! The error of a field.

use crate::Problem;

/// The error of a field, with the value found and the expected one.
pub(super) fn invalid(field: &str, found: impl ToString, expected: impl ToString) -> Problem {
    Problem::GgmlField {
        field: field.to_owned(),
        found: found.to_string(),
        expected: expected.to_string(),
    }
}
