//! Models that recognize speech: windows of features are encoded, and tokens decoded over them.
//!
//! [`SpeechModel`] is a [`Recognizer`](pelton_speech::Recognizer) on one executable. Windows and
//! hypotheses hold pages of the caches. A hypothesis that is forked shares all its pages with the
//! copy; a page that both would write to is copied at the first token that one of them appends. All
//! hypotheses of a window share the pages of its keys and values.

mod constraint;
mod encode;
mod hypotheses;
mod live;
mod model;
mod options;
mod pages;
mod pieces;
mod state;
mod transcribe;
mod unfold;
mod vocabulary;

pub use live::LiveTranscription;
pub use model::SpeechModel;
pub use options::SpeechOptions;
pub use pelton_audio::{
    AudioError, AudioFile, Cancel, Encoding, Memory, RawAudio, RawFormat, SAMPLE_RATE, Samples,
    VoiceOptions, Warning,
};
pub use pelton_speech::{
    Language, Segment, UnknownLanguage, Vocabulary, Word,
    decode::{Control, DecodeOptions, Task},
    stream::Update,
    transcribe::{Observer, TranscribeOptions, Transcript},
    write::{Format, WriteOptions, write},
};
pub use transcribe::Transcription;
