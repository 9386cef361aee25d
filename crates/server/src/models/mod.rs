//! The models of the server: by name, loaded and unloaded at run time.

mod entry;
mod file;
mod listener;
mod registry;
mod served;

pub(crate) use entry::{Entry, Keep, Lease};
pub(crate) use file::ModelFile;
pub(crate) use listener::Turn;
pub(crate) use registry::{Engines, Registry};
pub(crate) use served::{Kind, Served};
