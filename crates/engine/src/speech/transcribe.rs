//! The text of audio.

use std::ops::Range;

use pelton_audio::{AudioError, MelStream, SAMPLE_RATE, Samples, VoiceOptions, voices};
use pelton_constraint::Constraint;
use pelton_speech::{
    Features, Language, Recognizer, Vocabulary,
    transcribe::{Observer, TranscribeOptions, Transcript, transcribe, transcribe_pieces},
};

use super::{constraint::Constrained, model::SpeechModel};
use crate::Error;

/// Frames of features a second.
const FRAMES: usize = 100;

/// The options of a transcription.
///
/// ```
/// use pelton::speech::Transcription;
///
/// let mut options = Transcription::default();
/// options.rules.words = true;
/// options.rules.decode.language = "de".parse().ok();
/// assert!(!options.batched);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Transcription {
    /// Whisper's rules: language, task, prompts, beams, fallback, words.
    pub rules: TranscribeOptions,
    /// Settings of the voice activity detection, by which only parts with speech are decoded.
    pub voices: Option<VoiceOptions>,
    /// Decodes the parts with speech as many at a time as the model was loaded for. A part then knows
    /// nothing of the text before it. Needs voice activity detection, by its defaults if
    /// [`voices`](Self::voices) has none.
    pub batched: bool,
    /// The texts that a window can have, such as the commands of a grammar. Texts of Whisper begin with a
    /// space, as in grammars of whisper.cpp.
    pub constraint: Option<Constraint>,
}

/// A spectrogram as the rules read it.
struct Spectrogram<S>(MelStream<S>);

impl<S: Samples> Features for Spectrogram<S> {
    type Error = AudioError;

    fn frames(&self) -> usize {
        self.0.frames()
    }

    fn read(&mut self, first: usize, out: &mut [f32]) -> Result<(), AudioError> {
        self.0.read(first, out)
    }

    fn read_with_silence(&mut self, first: usize, out: &mut [f32]) -> Result<(), AudioError> {
        self.0.read_padded(first, out)
    }
}

impl SpeechModel {
    /// Transcribes audio from its start to its end. The observer gets each segment when it is final.
    ///
    /// ```no_run
    /// use pelton::{Engine, SpeechOptions};
    /// use pelton::speech::{AudioFile, Transcription};
    ///
    /// let engine = Engine::builder().build()?;
    /// let mut model = engine.load_speech("ggml-base.bin", &SpeechOptions::default())?;
    /// let audio = AudioFile::open("talk.mp3")?;
    /// let found = model.transcribe(audio, &Transcription::default(), &mut ())?;
    /// for segment in &found.segments {
    ///     println!("{:.2} {}", segment.start, segment.text);
    /// }
    /// # Ok::<(), pelton::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Audio`] if the audio cannot be read, [`Error::Transcription`] if an option is out of its
    /// range, [`Error::Constraint`] if the constraint is not sound, [`Error::Cancelled`] if the observer asks
    /// for it. Others if the backend fails.
    pub fn transcribe<S: Samples, O: Observer + ?Sized>(
        &mut self,
        mut audio: S,
        options: &Transcription,
        observer: &mut O,
    ) -> Result<Transcript, Error> {
        let vocabulary = self.vocabulary()?;
        let sizes = self.sizes();
        let detects = match (options.voices, options.batched) {
            (Some(options), _) => Some(options),
            (None, true) => Some(VoiceOptions::default()),
            (None, false) => None,
        };
        let mut parts = None;
        if let Some(options) = detects {
            audio.rewind()?;
            parts = Some(voices(&mut audio, options)?);
            audio.rewind()?;
        }
        let mut features = Spectrogram(MelStream::new(audio, sizes.mels)?);
        let pieces = parts.map(|parts| pieces(&parts, 2 * sizes.positions, features.frames()));
        let mut rules = options.rules.clone();
        // no speech: no language can be heard either, and all was looked at
        if pieces.as_ref().is_some_and(Vec::is_empty) {
            let _ = observer.progress(features.frames(), features.frames());
            return Ok(Transcript {
                language: rules.decode.language.unwrap_or(Language::ENGLISH),
                text: String::new(),
                segments: Vec::new(),
            });
        }
        if let Some(pieces) = pieces.as_ref().filter(|_| !options.batched)
            && rules.clip_timestamps.is_empty()
        {
            let ends = pieces.iter().flat_map(|piece| [piece.start, piece.end]);
            rules.clip_timestamps = ends.map(|end| end as f64 / FRAMES as f64).collect();
        }
        let pieces = pieces.filter(|_| options.batched);
        let Some(constraint) = &options.constraint else {
            return self.run(&vocabulary, &mut features, pieces.as_deref(), &rules, observer);
        };
        let mut observer = Constrained::new(observer, self, &vocabulary, constraint)?;
        let found = self.run(&vocabulary, &mut features, pieces.as_deref(), &rules, &mut observer);
        observer.failure().map_or(found, Err)
    }

    /// Transcribes pieces in batches, or without them the clips of the rules.
    fn run<F: Features<Error = AudioError>, O: Observer + ?Sized>(
        &mut self,
        vocabulary: &Vocabulary,
        features: &mut F,
        pieces: Option<&[Range<usize>]>,
        rules: &TranscribeOptions,
        observer: &mut O,
    ) -> Result<Transcript, Error> {
        let outcome = match pieces {
            Some(pieces) => {
                let batch = self.sizes().windows;
                transcribe_pieces(self, vocabulary, features, pieces, batch, rules, observer)
            }
            None => transcribe(self, vocabulary, features, rules, observer),
        };
        outcome.map_err(of_rules)
    }
}

/// The error of a transcription as the engine's.
pub(super) fn of_rules(error: pelton_speech::Error<Error, AudioError>) -> Error {
    match error {
        pelton_speech::Error::Options(what) => Error::Transcription(what),
        pelton_speech::Error::Model(error) => error,
        pelton_speech::Error::Features(error) => error.into(),
        pelton_speech::Error::Cancelled => Error::Cancelled,
    }
}

/// Joins parts of samples, ascending and disjoint, to pieces of at most `full` frames, as long as the pauses
/// between them fit too.
fn pieces(parts: &[Range<u64>], full: usize, frames: usize) -> Vec<Range<usize>> {
    let hop = u64::from(SAMPLE_RATE) / FRAMES as u64;
    let mut all: Vec<Range<usize>> = Vec::new();
    for part in parts {
        let start = usize::try_from(part.start / hop).unwrap_or(usize::MAX);
        let end = usize::try_from(part.end.div_ceil(hop)).unwrap_or(usize::MAX).min(frames);
        let start = start.max(all.last().map_or(0, |last| last.end));
        match all.last_mut() {
            Some(last) if end.saturating_sub(last.start) <= full => last.end = last.end.max(end),
            _ => {
                // a part is at most a window long, its last frame may be beyond it
                let mut start = start;
                while start < end {
                    let next = end.min(start + full);
                    all.push(start..next);
                    start = next;
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_joined_to_windows() {
        let second = |s: u64| s * u64::from(SAMPLE_RATE);
        let parts = [second(1)..second(5), second(7)..second(20), second(28)..second(58)];
        assert_eq!(pieces(&parts, 3000, 100_000), [100..2000, 2800..5800]);
        // cut to the content
        assert_eq!(pieces(&parts, 3000, 3000), std::slice::from_ref(&(100..3000)));
        assert_eq!(pieces(&[], 3000, 3000), Vec::<Range<usize>>::new());
    }

    proptest! {
        #[test]
        fn pieces_are_ascending_and_cover_all_parts(
            lengths in prop::collection::vec((0u64..90_000, 1u64..700_000), 0..20),
        ) {
            let (mut parts, mut at) = (Vec::new(), 0);
            for (gap, length) in lengths {
                parts.push(at + gap..at + gap + length);
                at += gap + length;
            }
            let frames = (at / 160) as usize;
            let found = pieces(&parts, 3000, frames);
            for piece in &found {
                prop_assert!(piece.start < piece.end && piece.len() <= 3000 && piece.end <= frames);
            }
            prop_assert!(found.windows(2).all(|pair| pair[0].end <= pair[1].start));
            for frame in parts.iter().flat_map(|part| [part.start / 160, (part.end - 1) / 160]) {
                let frame = frame as usize;
                let covered = found.iter().any(|piece| piece.contains(&frame));
                prop_assert!(covered || frame >= frames, "{frame} of {frames} in {found:?}");
            }
        }
    }
}
