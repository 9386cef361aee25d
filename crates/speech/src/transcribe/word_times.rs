//! The words of a window's segments.

use crate::decode::Task;
use crate::language::Language;
use crate::recognizer::{Recognizer, Window};
use crate::segment::Segment;
use crate::vocabulary::Vocabulary;
use crate::words::{Punctuation, Timing, alignment_tokens, set_words, timings};

use super::options::TranscribeOptions;
use super::slices::{Place, TIMESTAMP_FRAMES};

/// A window with what its text was decoded for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spoken {
    pub(super) window: Window,
    pub(super) place: Place,
    pub(super) language: Language,
    pub(super) task: Task,
}

/// The words of a window, before its segments have them.
#[derive(Debug)]
pub(super) struct Aligned {
    /// The numbers of text tokens of the segments.
    texts: Vec<usize>,
    timings: Vec<Timing>,
    place: Place,
}

impl Aligned {
    /// Gives the segments their words. `last_speech` is the end of the last word before the window,
    /// in seconds.
    pub(super) fn set(
        self,
        options: &TranscribeOptions,
        segments: &mut [Segment],
        last_speech: f64,
    ) {
        let punctuation = Punctuation {
            before: &options.prepend_punctuations,
            after: &options.append_punctuations,
        };
        let Self { texts, timings, place } = self;
        set_words(segments, &texts, timings, punctuation, place.start(), last_speech);
    }
}

/// Aligns the text of all segments with the window.
pub(super) fn align<R: Recognizer + ?Sized>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    segments: &[Segment],
    spoken: Spoken,
) -> Result<Aligned, R::Error> {
    let is_text = |token: &&u32| **token < vocabulary.eot;
    let texts: Vec<usize> =
        segments.iter().map(|segment| segment.tokens.iter().filter(is_text).count()).collect();
    let text: Vec<u32> =
        segments.iter().flat_map(|segment| &segment.tokens).filter(is_text).copied().collect();
    let Spoken { window, place, language, task } = spoken;
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
    Ok(Aligned { texts, timings, place })
}

/// The end of the last word, or of the last segment if there are no words.
pub(super) fn last_end(segments: &[Segment]) -> Option<f64> {
    let words = segments.iter().rev().find_map(|segment| segment.words.last());
    words.map(|word| word.end).or_else(|| segments.last().map(|segment| segment.end))
}
