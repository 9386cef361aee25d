//! Bodies of requests: strict JSON, and its fields by type and range.

mod fields;
mod json;

pub(crate) use fields::{Fields, ids, kind};
pub(crate) use json::parse;
