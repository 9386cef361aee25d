//! LoRA adapters (arXiv 2106.09685): low-rank additions to matrices of a model.

mod adapter;
mod gguf;
mod matrix;

pub use adapter::{Lora, LoraTensors};
pub use matrix::LoraMatrix;
