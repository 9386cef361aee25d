//! The models of the server: by name, loaded and unloaded at run time.

mod registry;
mod served;

pub(crate) use registry::{Entry, Lease, Registry};
pub(crate) use served::Served;
