//! Plans on any GPU, through wgpu: Vulkan, Metal and DX12.
//!
//! The data flow is the order of the folders: `device` opens a GPU, `weights` uploads the tensors
//! of a checkpoint, and `kernels` has the WGSL templates. `lower` turns the steps of a plan into
//! dispatches at load, `persist` links those of a layer to one kernel where that is faster, and
//! `run` submits passes.
//!
//! wgpu and WGSL serve every vendor's GPUs from one source, and a build installs nothing. Kernels
//! are chosen by `Capabilities`, never by a GPU's name; `PELTON_MATRIX_CORES=off` hides matrix
//! cores, for tests and measurements.
//!
//! Passes only record dispatches: buffers, pipelines and bindings are made at load, and a test
//! counts them (`Device::made`). A profile is the exception. The functions that allocate also
//! compute the sum of a load. It is compared with the free memory first, where Vulkan reports it,
//! and a load that does not fit is refused before anything is uploaded.
//!
//! Tests run kernels with wgpu's bounds checks. In use those checks are off: indices follow from
//! shapes and from passes that the host has checked. No kernel adds floats in an order that depends
//! on time.

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

pub use device::{Adapter, Kind, adapters, choose, others_like};
pub use run::{Gpu, microbench};
