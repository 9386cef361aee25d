//! Models that are on this machine: in the hub's cache, in Pelton's folder of other downloads, and
//! in the folders of LM Studio and Ollama.

mod find;
mod folders;
mod hub;
mod lm_studio;
mod model;
mod ollama;

pub(crate) use find::{ADDRESS, downloaded, find, list};
pub use folders::Folder;
pub(crate) use folders::{folders, searched};
pub use hub::Removed;
pub(crate) use hub::remove;
pub(crate) use model::model;
pub use model::{Model, Place};
pub use ollama::projector_of_blob;
