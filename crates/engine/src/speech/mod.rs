//! Models that recognize speech: windows of features are encoded, and tokens decoded over them.
//!
//! [`SpeechModel`] is a [`Recognizer`](pelton_speech::Recognizer) on one executable. Windows and
//! hypotheses hold pages of the caches. A hypothesis that is forked shares all its pages with the copy;
//! a page that both would write to is copied at the first token that one of them appends. All
//! hypotheses of a window share the pages of its keys and values.

mod encode;
mod hypotheses;
mod model;
mod options;
mod pages;
mod state;
mod unfold;

pub use model::SpeechModel;
pub use options::SpeechOptions;
