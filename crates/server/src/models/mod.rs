//! The models of the server: by name, loaded and unloaded at run time.

mod balance;
mod encoded;
mod entry;
mod file;
mod listener;
mod load;
mod registry;
mod replicas;
mod served;
mod sleep;
mod turns;

pub(crate) use balance::{Place, REPLICAS_MAX};
pub(crate) use encoded::Encoded;
pub(crate) use entry::{Entry, Keep, Lease};
pub(crate) use file::ModelFile;
pub(crate) use load::Engines;
pub(crate) use registry::Registry;
pub(crate) use replicas::{Replica, Replicas, Run};
pub(crate) use served::{Kind, Served};
pub(crate) use sleep::Sleep;
pub(crate) use turns::Turn;
