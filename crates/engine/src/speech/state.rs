//! The state of windows and hypotheses.

use pelton_speech::Window;

/// An encoded window.
#[derive(Debug)]
pub(super) struct Encoded {
    /// The pages of its keys and values.
    pub(super) pages: Vec<u32>,
    /// The keys `[positions, heads, head_dim]` of the heads that follow the audio.
    pub(super) keys: Vec<f32>,
    /// Hypotheses over it.
    pub(super) hypotheses: usize,
}

/// The state of a hypothesis.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) window: Window,
    /// Tokens that have run.
    pub(super) len: usize,
    /// The pages of their keys and values.
    pub(super) pages: Vec<u32>,
    /// Whether the executable has no tables of its pages yet.
    pub(super) is_new: bool,
    /// The first of its pages that the executable's table does not have.
    pub(super) changed: usize,
}
