//! A word of a window, before it becomes part of a segment.

/// A word of a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Timing {
    /// The text with the space before it; empty once it is merged into another word.
    pub(crate) text: String,
    /// The number of its tokens.
    pub(crate) tokens: usize,
    /// Seconds from the start of the window.
    pub(crate) start: f64,
    /// Seconds from the start of the window.
    pub(crate) end: f64,
    /// The mean probability of its tokens.
    pub(crate) probability: f64,
}
