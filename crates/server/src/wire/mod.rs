//! Bodies of responses: server-sent events, lines of JSON, identifiers.

mod ids;
mod stream;

pub(crate) use ids::new_id;
pub(crate) use stream::{Broken, Format, Frames, stream};
