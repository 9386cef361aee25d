//! The loop over the windows of a file.

use std::ops::ControlFlow;

use crate::decode::{detect_languages, likeliest};
use crate::error::Error;
use crate::features::Features;
use crate::language::Language;
use crate::recognizer::{Recognizer, Window};
use crate::segment::Segment;
use crate::text::{frame, strip};
use crate::vocabulary::Vocabulary;

use super::anomalies::{Verdict, judge};
use super::fallback::{Attempt, accept, decode_with_fallback, is_silent};
use super::observer::Observer;
use super::options::TranscribeOptions;
use super::prompts::History;
use super::slices::{Place, TIMESTAMP_FRAMES, fit, slice};
use super::voices::{Piece, check};
use super::word_times::{Spoken, align, last_end};
use super::{slices, transcript::Transcript};

/// Above this temperature a text is no prompt of the next window.
const PROMPT_TEMPERATURE: f64 = 0.5;

/// A result of a call on a file.
pub(super) type FileResult<T, R, F> =
    Result<T, Error<<R as Recognizer>::Error, <F as Features>::Error>>;

/// Transcribes a file, window after window, as OpenAI's `transcribe`.
///
/// Each segment is final when [`Observer::segment`] gets it. All windows and hypotheses are freed
/// before this returns. The crate's first page lists the differences from OpenAI's results.
///
/// # Errors
///
/// An option is out of its range, the features or the recognizer failed, or the observer cancelled.
pub fn transcribe<R, F, O>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    features: &mut F,
    options: &TranscribeOptions,
    observer: &mut O,
) -> FileResult<Transcript, R, F>
where
    R: Recognizer + ?Sized,
    F: Features + ?Sized,
    O: Observer + ?Sized,
{
    let (options, input) = prepare(recognizer, vocabulary, features, options)?;
    let pieces = clips(&options.clip_timestamps, input.content);
    windows(recognizer, vocabulary, input, &pieces, &options, observer)
}

/// Transcribes pieces of a file, window after window. They are ascending, and each has any number
/// of frames.
///
/// A window whose text ends before a voice is followed by one that begins there. [`transcribe`]
/// believes a text that says it is over. Options of clips have no effect.
///
/// # Errors
///
/// As for [`transcribe`]; or a range is empty or out of order.
pub fn transcribe_voices<R, F, O>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    features: &mut F,
    pieces: &[Piece],
    options: &TranscribeOptions,
    observer: &mut O,
) -> FileResult<Transcript, R, F>
where
    R: Recognizer + ?Sized,
    F: Features + ?Sized,
    O: Observer + ?Sized,
{
    let (options, input) = prepare(recognizer, vocabulary, features, options)?;
    check(pieces, usize::MAX).map_err(Error::Options)?;
    windows(recognizer, vocabulary, input, pieces, &options, observer)
}

/// Decodes the windows of pieces.
fn windows<R, F, O>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    mut input: Input<'_, F>,
    pieces: &[Piece],
    options: &TranscribeOptions,
    observer: &mut O,
) -> FileResult<Transcript, R, F>
where
    R: Recognizer + ?Sized,
    F: Features + ?Sized,
    O: Observer + ?Sized,
{
    let language = input.language(vocabulary, options, recognizer)?;
    observer.language(language);
    let mut file = File {
        vocabulary,
        options,
        history: History::new(vocabulary, options, recognizer.sizes().context),
        language,
        last_speech: 0.0,
        segments: Vec::new(),
        content: input.content,
        full: input.full,
    };
    for piece in pieces {
        let end = piece.frames.end.min(input.content);
        let mut seek = piece.frames.start;
        while seek < end {
            let place = Place { seek, frames: input.full.min(end - seek) };
            let window = input.encode(recognizer, place)?;
            let result = file.window(recognizer, window, place, piece, observer);
            recognizer.free_window(window);
            let next = result.map_err(Error::widen)?;
            // a window always advances, whatever its times
            seek = if next > seek { next } else { seek + place.frames };
            if observer.progress(seek.min(input.content), input.content).is_break() {
                return Err(Error::Cancelled);
            }
        }
    }
    let text = vocabulary.decode(file.history.text());
    Ok(Transcript { language, text, segments: file.segments })
}

/// The features of a file, read window by window.
pub(super) struct Input<'a, F: ?Sized> {
    features: &'a mut F,
    /// Frames of content.
    pub(super) content: usize,
    /// Frames of a window.
    pub(super) full: usize,
    mels: usize,
    buffer: Vec<f32>,
}

/// Checks the options, and resolves hot words to tokens.
pub(super) fn prepare<'a, R, F>(
    recognizer: &R,
    vocabulary: &Vocabulary,
    features: &'a mut F,
    options: &TranscribeOptions,
) -> FileResult<(TranscribeOptions, Input<'a, F>), R, F>
where
    R: Recognizer + ?Sized,
    F: Features + ?Sized,
{
    options.check().map_err(Error::Options)?;
    let mut options = options.clone();
    if let Some(words) = &options.hot_words {
        options.decode.hot_words = vocabulary.prompt(words);
    }
    let sizes = recognizer.sizes();
    let full = TIMESTAMP_FRAMES * sizes.positions;
    let buffer = vec![0.0; full * sizes.mels];
    let content = features.frames();
    Ok((options, Input { features, content, full, mels: sizes.mels, buffer }))
}

impl<F: Features + ?Sized> Input<'_, F> {
    /// Reads a window, zeros after its frames.
    pub(super) fn read(&mut self, place: Place) -> Result<&[f32], F::Error> {
        self.features.read(place.seek, &mut self.buffer)?;
        if let Some(rest) = self.buffer.get_mut(place.frames * self.mels..) {
            rest.fill(0.0);
        }
        Ok(&self.buffer)
    }

    /// Reads and encodes a window.
    fn encode<R: Recognizer + ?Sized>(
        &mut self,
        recognizer: &mut R,
        place: Place,
    ) -> FileResult<Window, R, F> {
        let features = self.read(place).map_err(Error::Features)?;
        encode(recognizer, features).map_err(Error::widen)
    }

    /// The language: as given, the only one of the model, or as detected in the first window.
    pub(super) fn language<R: Recognizer + ?Sized>(
        &mut self,
        vocabulary: &Vocabulary,
        options: &TranscribeOptions,
        recognizer: &mut R,
    ) -> FileResult<Language, R, F> {
        if let Some(language) = options.decode.language {
            return Ok(language);
        }
        if !vocabulary.is_multilingual() {
            return Ok(Language::ENGLISH);
        }
        self.features.read_with_silence(0, &mut self.buffer).map_err(Error::Features)?;
        let window = encode(recognizer, &self.buffer).map_err(Error::widen)?;
        let languages = detect_languages(recognizer, vocabulary, &[window]);
        recognizer.free_window(window);
        let languages = languages.map_err(Error::widen)?;
        Ok(languages.first().and_then(|all| likeliest(all)).unwrap_or(Language::ENGLISH))
    }
}

/// Encodes a window of features.
fn encode<R: Recognizer + ?Sized>(
    recognizer: &mut R,
    features: &[f32],
) -> Result<Window, Error<R::Error>> {
    let windows = recognizer.encode(&[features]).map_err(Error::Model)?;
    let none = || Error::Options("the recognizer encoded no window of one".to_owned());
    windows.first().copied().ok_or_else(none)
}

/// A file in progress.
struct File<'a> {
    vocabulary: &'a Vocabulary,
    options: &'a TranscribeOptions,
    history: History,
    language: Language,
    /// The end of the last word in seconds.
    last_speech: f64,
    segments: Vec<Segment>,
    content: usize,
    full: usize,
}

impl File<'_> {
    /// Decodes a window. Returns the frame at which the next one begins.
    fn window<R: Recognizer + ?Sized, O: Observer + ?Sized>(
        &mut self,
        recognizer: &mut R,
        window: Window,
        place: Place,
        piece: &Piece,
        observer: &mut O,
    ) -> Result<usize, Error<R::Error>> {
        let Self { vocabulary, options, .. } = *self;
        if options.multilingual && vocabulary.is_multilingual() {
            let languages = detect_languages(recognizer, vocabulary, &[window])?;
            if let Some(found) = languages.first().and_then(|all| likeliest(all))
                && found != self.language
            {
                self.language = found;
                observer.language(found);
            }
        }
        let attempt = Attempt {
            window,
            seek: place.seek,
            prompt: self.history.prompt(),
            language: Some(self.language),
        };
        let decoded = decode_with_fallback(recognizer, vocabulary, options, &[attempt], observer)?;
        let Some(decoded) = decoded.into_iter().next() else { return Ok(place.seek) };
        if is_silent(options, &decoded) {
            return Ok(place.seek + place.frames);
        }
        accept(&decoded, observer)?;
        let mut sliced = slice(vocabulary, &decoded, place);
        if options.words {
            let spoken =
                Spoken { window, place, language: self.language, task: options.decode.task };
            let aligned =
                align(recognizer, vocabulary, &sliced.segments, spoken).map_err(Error::Model)?;
            aligned.set(options, &mut sliced.segments, self.last_speech);
            if let ControlFlow::Break(again) = self.follow_words(&mut sliced, place) {
                return Ok(again);
            }
        }
        if options.hallucination_silence_threshold.is_none() {
            sliced.follow_voices(piece);
        }
        self.emit(sliced.segments, place, observer)?;
        if !options.condition_on_previous_text || decoded.temperature > PROMPT_TEMPERATURE {
            self.history.forget();
        }
        Ok(sliced.next)
    }

    /// Moves the next window to the end of the last word, and skips silence next to invented words.
    /// Breaks with the frame from which the window is decoded again.
    fn follow_words(&mut self, sliced: &mut slices::Sliced, place: Place) -> ControlFlow<usize> {
        let spoken_until = |segments: &[Segment]| {
            last_end(segments).filter(|&end| !sliced.is_closed && end > place.start())
        };
        if let Some(end) = spoken_until(&sliced.segments) {
            sliced.next = frame(end);
        }
        if let Some(threshold) = self.options.hallucination_silence_threshold {
            if let Some(end) = spoken_until(&sliced.segments) {
                let remaining = slices::seconds(place.seek + self.full) - end;
                sliced.next = match remaining > threshold {
                    true => frame(end),
                    false => place.seek + place.frames,
                };
            }
            let Self { full, content, last_speech, .. } = *self;
            match judge(&sliced.segments, place, full, content, threshold, last_speech) {
                Verdict::Keep => {}
                Verdict::Again(seek) => return ControlFlow::Break(seek),
                Verdict::From(first, seek) => {
                    sliced.segments.truncate(first);
                    sliced.next = seek;
                }
            }
        }
        if let Some(end) = last_end(&sliced.segments) {
            self.last_speech = end;
        }
        ControlFlow::Continue(())
    }

    /// Makes segments final. Those without text or duration become empty.
    fn emit<M, O: Observer + ?Sized>(
        &mut self,
        mut segments: Vec<Segment>,
        place: Place,
        observer: &mut O,
    ) -> Result<(), Error<M>> {
        segments.iter_mut().for_each(clear_if_empty);
        fit(&mut segments, place);
        for mut segment in segments {
            segment.id = self.segments.len();
            self.history.extend(&segment.tokens);
            let flow = observer.segment(&segment);
            self.segments.push(segment);
            if flow.is_break() {
                return Err(Error::Cancelled);
            }
        }
        Ok(())
    }
}

/// Clears a segment without text or duration. It stays in the list, as in OpenAI's.
fn clear_if_empty(segment: &mut Segment) {
    if segment.start == segment.end || strip(&segment.text).is_empty() {
        segment.text.clear();
        segment.tokens.clear();
        segment.words.clear();
    }
}

/// The parts of a file to transcribe, none beyond the content.
fn clips(times: &[f64], content: usize) -> Vec<Piece> {
    let mut points: Vec<usize> = times.iter().map(|&seconds| frame(seconds)).collect();
    if points.is_empty() {
        points.push(0);
    }
    if points.len() % 2 == 1 {
        points.push(content);
    }
    let piece =
        |clip: &[usize]| Piece { frames: clip[0]..clip[1].min(content), voices: Vec::new() };
    points.chunks_exact(2).map(piece).collect()
}
