//! The work that a constraint is to its compiler, counted before it is compiled.
//!
//! A *part* is what costs about as much as any other: an element of a grammar, a repetition or a
//! class of a regular expression, a schema within a schema. The limits keep a compilation within
//! about a second and 256 MiB, and the computation of a mask within some tens of milliseconds.

mod lark;
mod limits;
mod regex;
mod tokens;

pub(crate) use self::{lark::check as check_lark, limits::check, regex::Size};
