//! Weights on the GPU: their layout in planes or in lines, and their upload.

mod input_major;
mod layout;
mod lines;
mod matrix;
mod shared;
mod source;
mod upload;

pub(crate) use input_major::InputMajor;
pub(crate) use layout::Layout;
pub(crate) use lines::Lines;
pub(crate) use matrix::{Matrix, Shard};
pub(crate) use shared::{SharedMatrices, Sources};
pub(crate) use upload::{Weights, resident_bytes};
