//! Bodies of requests: strict JSON, and its fields by type and range.

mod body;
mod count;
mod fields;
mod json;

pub(crate) use body::{Bodies, Held};
pub(crate) use fields::{Fields, ids, integer, kind};
pub(crate) use json::{parse, parse_body};
