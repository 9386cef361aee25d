//! GPUs: their adapters, capabilities and memory, and the open device.

mod adapters;
mod boxes;
mod buffer_list;
mod capabilities;
mod checks;
mod counted;
mod handle;
mod memory;
mod mirror;
mod pipeline;
mod source;
mod wait;

pub use adapters::{Adapter, Kind, adapters, choose, others_like};
pub(crate) use boxes::{Inbox, Outbox, Word};
pub(crate) use buffer_list::BufferList;
pub(crate) use capabilities::Capabilities;
pub(crate) use checks::Checks;
pub(crate) use counted::counted;
pub(crate) use handle::Device;
pub(crate) use mirror::Mirror;
pub(crate) use pipeline::Kernel;
#[cfg(test)]
pub(crate) use source::BROWSER_PRELUDE;
pub(crate) use source::KernelSource;
pub(crate) use wait::Submission;
