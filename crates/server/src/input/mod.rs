//! Bodies of requests: strict JSON, forms with a file, and their fields by type and range.

mod body;
mod count;
mod fields;
mod form;
mod json;

pub(crate) use body::{Bodies, Held};
pub(crate) use fields::{Fields, ids, integer, kind};
pub(crate) use form::{Form, FormFile};
pub(crate) use json::{parse, parse_body};
