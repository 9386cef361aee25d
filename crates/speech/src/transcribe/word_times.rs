//! The words of a window's segments.

use crate::decode::Task;
use crate::language::Language;
use crate::recognizer::{Recognizer, Window};
use crate::segment::Segment;
use crate::vocabulary::Vocabulary;
use crate::words::{Punctuation, alignment_tokens, set_words, timings};

use super::options::TranscribeOptions;
use super::slices::{Place, TIMESTAMP_FRAMES};

/// A window and its place, on which the times of its words depend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spoken {
    pub(super) window: Window,
    pub(super) place: Place,
    pub(super) language: Language,
    pub(super) task: Task,
    /// The end of the last word before the window, in seconds.
    pub(super) last_speech: f64,
}

/// Aligns the text of all segments with the window, and gives them their words.
pub(super) fn add_words<R: Recognizer + ?Sized>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    options: &TranscribeOptions,
    segments: &mut [Segment],
    spoken: Spoken,
) -> Result<(), R::Error> {
    let is_text = |token: &&u32| **token < vocabulary.eot;
    let texts: Vec<usize> =
        segments.iter().map(|segment| segment.tokens.iter().filter(is_text).count()).collect();
    let text: Vec<u32> =
        segments.iter().flat_map(|segment| &segment.tokens).filter(is_text).copied().collect();
    let Spoken { window, place, language, task, last_speech } = spoken;
    let timings = match text.is_empty() {
        true => Vec::new(),
        false => {
            let (mut tokens, first) = alignment_tokens(vocabulary, language, task, &text);
            tokens.truncate(recognizer.sizes().context);
            let alignment = recognizer.align(window, &tokens)?;
            let positions = place.frames / TIMESTAMP_FRAMES;
            timings(vocabulary, language, &alignment, &text, first, positions)
        }
    };
    let punctuation =
        Punctuation { before: &options.prepend_punctuations, after: &options.append_punctuations };
    set_words(segments, &texts, timings, punctuation, place.start(), last_speech);
    Ok(())
}

/// The end of the last word, or of the last segment if there are no words.
pub(super) fn last_end(segments: &[Segment]) -> Option<f64> {
    let words = segments.iter().rev().find_map(|segment| segment.words.last());
    words.map(|word| word.end).or_else(|| segments.last().map(|segment| segment.end))
}
