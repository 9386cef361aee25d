//! The reasons why a constraint is refused, or cannot be followed.

/// Why a constraint is refused, or cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not yet built.
    #[error("constraints are not wired yet")]
    Unfinished,
}
