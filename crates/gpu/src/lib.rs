//! Plans on any GPU, through wgpu: Vulkan, Metal and DX12.

mod adapters;
mod attention;
mod chain;
mod device;
mod executable;
mod linear;
mod lower;
mod matmul;
pub mod measure;
mod memory;
mod prepare;
mod profile;
mod repack;
mod rope_store;
mod sample;
mod simple;
mod source;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod translate;
mod tuning;
mod weights;

pub use adapters::{Adapter, Kind, adapters, choose};
pub use executable::{FUSIONS, Gpu};
