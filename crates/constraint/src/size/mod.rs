//! An estimate of the work to compile a constraint, made before it is compiled.
//!
//! The unit is a *part*. Parts cost about the same: an element of a grammar, a repetition or a
//! class of a regular expression. `schema/size.rs` counts the parts of schemas. The limits keep a
//! compilation within about a second and 256 MiB, and the computation of a mask within some tens of
//! milliseconds.

mod lark;
mod limits;
mod regex;
mod tokens;

pub(crate) use self::{lark::check as check_lark, limits::check, regex::Size};
