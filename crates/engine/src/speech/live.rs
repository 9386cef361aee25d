//! Live transcription: text of audio that still comes.

use pelton_audio::{AudioError, LogMel, SAMPLE_RATE, log_mel};
use pelton_speech::{
    Features, Language, Recognizer, Word,
    decode::Control,
    stream::{Stream, Update},
    transcribe::TranscribeOptions,
};

use super::{model::SpeechModel, transcribe::of_rules};
use crate::Error;

/// Samples of a frame of features.
const HOP: usize = SAMPLE_RATE as usize / 100;

/// A live transcription: audio is pushed, and words come out once two transcripts in succession
/// agree on them (LocalAgreement-2). It keeps at most some 30 seconds of audio.
pub struct LiveTranscription {
    stream: Stream,
    /// Samples from frame `first` on.
    samples: Vec<f32>,
    first: usize,
    /// The least number of new samples with which it is worth to transcribe again.
    step: usize,
    /// Samples that were pushed since the last transcript.
    new: usize,
}

/// The spectrogram of the audio that is kept.
struct Kept {
    mel: LogMel,
    first: usize,
}

impl Features for Kept {
    type Error = AudioError;

    fn frames(&self) -> usize {
        self.first + self.mel.frames()
    }

    fn read(&mut self, first: usize, out: &mut [f32]) -> Result<(), AudioError> {
        self.mel.read(first.saturating_sub(self.first), out)
    }

    fn read_with_silence(&mut self, first: usize, out: &mut [f32]) -> Result<(), AudioError> {
        self.mel.read_padded(first.saturating_sub(self.first), out)
    }
}

impl LiveTranscription {
    /// A transcription that transcribes again whenever `seconds` of audio have come; about 1 is
    /// usual.
    pub fn new(rules: TranscribeOptions, seconds: f64) -> Self {
        let step = (seconds.max(0.1) * f64::from(SAMPLE_RATE)) as usize;
        Self { stream: Stream::new(rules), samples: Vec::new(), first: 0, step, new: 0 }
    }

    /// The language, once it is known.
    pub fn language(&self) -> Option<Language> {
        self.stream.language()
    }

    /// Adds samples in [-1, 1] at 16,000 a second.
    pub fn push(&mut self, samples: &[f32]) {
        self.samples.extend_from_slice(samples);
        self.new += samples.len();
    }

    /// Whether enough audio has come since the last transcript.
    pub fn is_due(&self) -> bool {
        self.new >= self.step
    }

    /// Transcribes the audio that is kept, and returns the words that are final now and those
    /// that may still change.
    ///
    /// # Errors
    ///
    /// As for [`SpeechModel::transcribe`].
    pub fn advance<C: Control + ?Sized>(
        &mut self,
        model: &mut SpeechModel,
        control: &mut C,
    ) -> Result<Update, Error> {
        self.new = 0;
        let vocabulary = model.vocabulary()?;
        model.check_language(&vocabulary, self.stream.language())?;
        let mel = log_mel(&self.samples, model.sizes().mels)?;
        let mut kept = Kept { mel, first: self.first };
        let update =
            self.stream.advance(model, &vocabulary, &mut kept, control).map_err(of_rules)?;
        let past = self.stream.first_frame().saturating_sub(self.first);
        let past = past.min(self.samples.len() / HOP);
        self.samples.drain(..past * HOP);
        self.first += past;
        Ok(update)
    }

    /// Ends it, and returns the words that were not final.
    pub fn finish(self) -> Vec<Word> {
        self.stream.finish()
    }
}
