//! Bodies of responses: server-sent events, lines of JSON, whole bodies, identifiers.

mod ids;
mod reply;
mod stream;

pub(crate) use ids::new_id;
pub(crate) use reply::{Part, Sink, WholeCalls, grow, send};
pub(crate) use stream::{Broken, Format, Frames, respond, stream};
