//! The text of audio.

use pelton_audio::{AudioError, MelStream, Samples, VoiceOptions, voices};
use pelton_constraint::Constraint;
use pelton_speech::{
    Features, Language, Recognizer, Vocabulary,
    transcribe::{
        Observer, Piece, TranscribeOptions, Transcript, transcribe, transcribe_pieces,
        transcribe_voices,
    },
};

use super::{
    constraint::Constrained,
    model::SpeechModel,
    pieces::{clips, pieces},
};
use crate::Error;

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
    /// Decodes the parts with speech as many at a time as the model was loaded for. A part then
    /// knows nothing of the text before it. Needs voice activity detection, by its defaults if
    /// [`voices`](Self::voices) has none.
    pub batched: bool,
    /// The texts that a window can have, such as the commands of a grammar. Texts of Whisper begin
    /// with a space, as in grammars of whisper.cpp.
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
    /// Transcribes audio from its start to its end. The observer gets each segment when it is
    /// final.
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
    /// [`Error::Audio`] if the audio cannot be read, [`Error::Transcription`] if an option is
    /// out of its range, [`Error::RequestOption`] if the model does not know the language.
    /// [`Error::Constraint`] if the constraint is not sound, or if the text of a window
    /// cannot be one of its texts. [`Error::Cancelled`] if the observer asks for it. Others
    /// if the backend fails.
    pub fn transcribe<S: Samples, O: Observer + ?Sized>(
        &mut self,
        mut audio: S,
        options: &Transcription,
        observer: &mut O,
    ) -> Result<Transcript, Error> {
        let vocabulary = self.vocabulary()?;
        options.rules.check().map_err(Error::Transcription)?;
        self.check_language(&vocabulary, options.rules.decode.language)?;
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
        let frames = features.frames();
        let mut work = match parts {
            None => Work::Whole,
            Some(parts) => {
                let clips = clips(&options.rules.clip_timestamps, frames);
                let pieces = pieces(&parts, &clips, 2 * sizes.positions);
                if options.batched { Work::Batches(pieces) } else { Work::Voices(pieces) }
            }
        };
        // no speech: no language can be heard either
        if work.pieces().is_some_and(|pieces| pieces.is_empty()) {
            let language = options.rules.decode.language.unwrap_or(Language::ENGLISH);
            observer.language(language);
            return match observer.progress(frames, frames).is_break() {
                true => Err(Error::Cancelled),
                false => Ok(Transcript { language, text: String::new(), segments: Vec::new() }),
            };
        }
        let Some(constraint) = &options.constraint else {
            return self.run(&vocabulary, &mut features, &work, &options.rules, observer);
        };
        // a window is a whole text of the constraint, so none is decoded for the rest of one
        work.pieces().into_iter().flatten().for_each(|piece| piece.voices.clear());
        let mut observer = Constrained::new(observer, self, &vocabulary, constraint)?;
        let found = self.run(&vocabulary, &mut features, &work, &options.rules, &mut observer);
        observer.failure().map_or(found, Err)
    }

    /// Transcribes the whole audio, or pieces of it.
    fn run<F: Features<Error = AudioError>, O: Observer + ?Sized>(
        &mut self,
        vocabulary: &Vocabulary,
        features: &mut F,
        work: &Work,
        rules: &TranscribeOptions,
        observer: &mut O,
    ) -> Result<Transcript, Error> {
        let outcome = match work {
            Work::Whole => transcribe(self, vocabulary, features, rules, observer),
            Work::Voices(pieces) => {
                transcribe_voices(self, vocabulary, features, pieces, rules, observer)
            }
            Work::Batches(pieces) => {
                let batch = self.sizes().windows;
                transcribe_pieces(self, vocabulary, features, pieces, batch, rules, observer)
            }
        };
        outcome.map_err(of_rules)
    }
}

/// The parts of the audio that are decoded, and how.
enum Work {
    /// The clips of the rules, one window after the other.
    Whole,
    /// Pieces with voices, one window after the other.
    Voices(Vec<Piece>),
    /// Pieces with voices, many windows at a time.
    Batches(Vec<Piece>),
}

impl Work {
    fn pieces(&mut self) -> Option<&mut Vec<Piece>> {
        match self {
            Self::Whole => None,
            Self::Voices(pieces) | Self::Batches(pieces) => Some(pieces),
        }
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
