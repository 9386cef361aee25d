//! The result of a transcription.

use crate::language::Language;
use crate::segment::Segment;

/// The text of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// The language: as given, or as detected in the first window.
    pub language: Language,
    /// The whole text.
    pub text: String,
    /// The segments, in order.
    pub segments: Vec<Segment>,
}
