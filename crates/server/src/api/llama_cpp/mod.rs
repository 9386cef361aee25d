//! The server's own state, and the paths that llama.cpp's clients know.

pub(super) mod completion;
pub(super) mod embedding;
pub(super) mod infill;
mod pictured;
pub(super) mod state;
pub(super) mod text;
