//! Voice activity: the parts of a recording in which people speak, and windows of them.

mod change;
mod detect;
mod options;
mod packing;
mod score;

pub use detect::{Voice, VoiceDetector, voices};
pub use options::VoiceOptions;
pub use packing::{Packing, Piece};
