//! Plans on any GPU, through wgpu: Vulkan, Metal and DX12.
//!
//! The data flow is the order of the folders: `device` opens a GPU, `weights` uploads the tensors of
//! a checkpoint, `kernels` has the WGSL templates, `lower` turns the steps of a plan into dispatches
//! at load, `persist` links those of a layer to one kernel where that is faster, and `run` submits
//! passes.

mod device;
mod kernels;
mod lower;
mod persist;
mod run;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod translate;
mod weights;

pub use device::{Adapter, Kind, adapters, choose};
pub use run::{executable::Gpu, microbench};
