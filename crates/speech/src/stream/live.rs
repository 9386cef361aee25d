//! A growing file.

use std::ops::ControlFlow;

use crate::decode::{Control, DrawKey, Place};
use crate::error::Error;
use crate::features::Features;
use crate::language::Language;
use crate::recognizer::Recognizer;
use crate::segment::{Segment, Word};
use crate::text::frame;
use crate::transcribe::{Observer, TranscribeOptions, transcribe};
use crate::vocabulary::Vocabulary;

use super::agreement::Agreement;

/// Seconds of audio above which the buffer is cut.
const LONG: f64 = 15.0;
/// Seconds of audio above which the buffer is cut without agreement: a window.
const FULL: f64 = 30.0;
/// Seconds of audio that stay then.
const KEPT: f64 = 15.0;
/// Most bytes of the text before the buffer that are a prompt.
const PROMPT: usize = 200;

/// Words that are committed by a call, and those after them that may still change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// New words that stay.
    pub committed: Vec<Word>,
    /// The rest of the newest transcript.
    pub tentative: Vec<Word>,
}

/// A live transcription. Times are seconds from the start of the audio.
#[derive(Clone, Debug)]
pub struct Stream {
    options: TranscribeOptions,
    agreement: Agreement,
    /// The start of the buffer in seconds.
    start: f64,
    /// The end of the text before the buffer.
    before: String,
    language: Option<Language>,
}

impl Stream {
    /// A stream. The options of clips, of the initial prompt and of words have no effect.
    pub fn new(options: TranscribeOptions) -> Self {
        let language = options.decode.language;
        let options = TranscribeOptions { words: true, ..options };
        Self { options, agreement: Agreement::new(), start: 0.0, before: String::new(), language }
    }

    /// The first frame that later calls read, in hundredths of a second. Features before it can go.
    pub fn first_frame(&self) -> usize {
        frame(self.start)
    }

    /// The language, once it is known.
    pub fn language(&self) -> Option<Language> {
        self.language
    }

    /// Transcribes the audio so far. Call it whenever about a second of audio has been added.
    /// Frames keep their numbers, and reading begins anew at [`first_frame`](Self::first_frame) in
    /// each call.
    ///
    /// # Errors
    ///
    /// As for [`transcribe`]; the stream can be continued afterwards.
    pub fn advance<R, F, C>(
        &mut self,
        recognizer: &mut R,
        vocabulary: &Vocabulary,
        features: &mut F,
        control: &mut C,
    ) -> Result<Update, Error<R::Error, F::Error>>
    where
        R: Recognizer + ?Sized,
        F: Features + ?Sized,
        C: Control + ?Sized,
    {
        let end = features.frames() as f64 / 100.0;
        if end <= self.start {
            return Ok(Update::default());
        }
        let mut options = self.options.clone();
        options.decode.language = self.language;
        options.clip_timestamps = vec![self.start];
        options.initial_prompt = (!self.before.is_empty()).then(|| self.before.clone());
        let found = transcribe(recognizer, vocabulary, features, &options, &mut Quiet(control))?;
        self.language = Some(found.language);
        let words = found.segments.iter().flat_map(|segment| &segment.words).cloned().collect();
        let mut committed = self.agreement.insert(words);
        if end - self.start > LONG {
            self.cut(&found.segments);
        }
        if end - self.start > FULL {
            let time = end - KEPT;
            committed.extend(self.agreement.commit_until(time));
            self.cut_at(time);
        }
        Ok(Update { committed, tentative: self.agreement.tentative().to_vec() })
    }

    /// The words that were not committed, at the end of the audio.
    pub fn finish(mut self) -> Vec<Word> {
        self.agreement.commit_until(f64::INFINITY)
    }

    /// Cuts the buffer at the latest end of a committed segment that is not the last one.
    fn cut(&mut self, segments: &[Segment]) {
        let until = self.agreement.until();
        let ends = segments.iter().rev().skip(1).map(|segment| segment.end);
        if let Some(end) = ends.into_iter().find(|&end| end <= until && end > self.start) {
            self.cut_at(end);
        }
    }

    /// Cuts the buffer. The text before becomes the prompt.
    fn cut_at(&mut self, time: f64) {
        self.start = time;
        self.before.push_str(&self.agreement.forget(time));
        let surplus = self.before.len().saturating_sub(PROMPT);
        let at = (surplus..=self.before.len()).find(|&at| self.before.is_char_boundary(at));
        self.before.drain(..at.unwrap_or(0));
    }
}

/// A control as an observer of provisional segments, which nobody gets to see.
struct Quiet<'a, C: ?Sized>(&'a mut C);

impl<C: Control + ?Sized> Control for Quiet<'_, C> {
    fn step(&mut self) -> ControlFlow<()> {
        self.0.step()
    }

    fn allowed(&mut self, place: Place<'_>) -> Option<&[u32]> {
        self.0.allowed(place)
    }

    fn draw(&mut self, logits: &[f32], temperature: f64, key: DrawKey) -> Option<u32> {
        self.0.draw(logits, temperature, key)
    }
}

impl<C: Control + ?Sized> Observer for Quiet<'_, C> {}
