//! The models of the server: by name, loaded and unloaded at run time.

mod file;
mod registry;
mod served;

pub(crate) use file::ModelFile;
pub(crate) use registry::{Entry, Lease, Registry};
pub(crate) use served::Served;
