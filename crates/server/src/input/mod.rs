//! Bodies of requests: strict JSON, forms with a file, and their fields by type and range.

mod body;
mod count;
pub(crate) mod extras;
mod fields;
mod form;
mod json;
mod kind;
mod metadata;
mod unknown;

pub(crate) use body::{Bodies, Held};
pub(crate) use fields::{Fields, check_keys, ids, integer};
pub(crate) use form::{Form, FormFile};
pub(crate) use json::{cost_max, cost_of, parse, parse_body};
pub(crate) use kind::kind;
pub(crate) use metadata::metadata;
