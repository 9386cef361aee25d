//! The architectures: one small table of properties each.
//!
//! To add an architecture that is built from the same ops, add a file with its table and list it in
//! [`architectures`]. If it needs a new op, add that first (see CONTRIBUTING.md).

mod architecture;
mod llama;
mod qwen2;
mod qwen3;

pub use architecture::{Architecture, Presence};

/// All architectures that are supported.
pub const fn architectures() -> &'static [Architecture] {
    &[llama::LLAMA, qwen2::QWEN2, qwen3::QWEN3]
}
