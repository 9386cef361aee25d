//! The caller's view of a transcription.

use std::ops::ControlFlow;

use crate::decode::Control;
use crate::language::Language;
use crate::segment::Segment;

/// Callbacks of a transcription, in addition to those of its windows. Every method has a default;
/// `()` observes nothing.
pub trait Observer: Control {
    /// Called with the language of a file, and with each change of it.
    fn language(&mut self, language: Language) {
        let _ = language;
    }

    /// Called with each segment when it is final, in order. [`ControlFlow::Break`] cancels.
    fn segment(&mut self, segment: &Segment) -> ControlFlow<()> {
        let _ = segment;
        ControlFlow::Continue(())
    }

    /// Called after each window with the number of frames done and of all frames, in hundredths of
    /// a second. [`ControlFlow::Break`] cancels.
    fn progress(&mut self, done: usize, all: usize) -> ControlFlow<()> {
        let _ = (done, all);
        ControlFlow::Continue(())
    }
}

impl Observer for () {}
