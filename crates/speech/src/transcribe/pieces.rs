//! Pieces of a file that the caller has cut, such as those with voice activity.

use std::ops::Range;

use crate::decode::{detect_languages, likeliest};
use crate::error::Error;
use crate::features::Features;
use crate::language::Language;
use crate::recognizer::{Recognizer, Window};
use crate::segment::Segment;
use crate::text::strip;
use crate::vocabulary::{TIMESTAMP_SECONDS, Vocabulary};

use super::fallback::{Attempt, decode_with_fallback, is_silent};
use super::file::{FileResult, clear_if_empty, prepare};
use super::observer::Observer;
use super::options::TranscribeOptions;
use super::slices::{Place, seconds, segment, slice};
use super::transcript::Transcript;
use super::word_times::{Spoken, add_words, last_end};

/// Transcribes ranges of frames, up to `batch` of them at a time. They are ascending, and each has at most
/// the frames of a window.
///
/// A piece knows nothing of the text before it: only the initial prompt and the hot words are its
/// prompt. Text after the last timestamp stays in the piece, since no later window has it. Options of
/// clips, of conditioning and of hallucinations have no effect.
///
/// # Errors
///
/// As for [`transcribe`](super::transcribe); or a range is empty, too long or out of order.
pub fn transcribe_pieces<R, F, O>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    features: &mut F,
    pieces: &[Range<usize>],
    batch: usize,
    options: &TranscribeOptions,
    observer: &mut O,
) -> FileResult<Transcript, R, F>
where
    R: Recognizer + ?Sized,
    F: Features + ?Sized,
    O: Observer + ?Sized,
{
    let (options, mut input) = prepare(recognizer, vocabulary, features, options)?;
    let places = places(pieces, input.full).map_err(Error::Options)?;
    let batch = batch.clamp(1, recognizer.sizes().windows.max(1));
    let mut run = Run {
        vocabulary,
        options: &options,
        language: options.decode.language,
        prompt: options
            .initial_prompt
            .as_deref()
            .map(|text| vocabulary.prompt(text))
            .unwrap_or_default(),
        last_speech: 0.0,
        transcript: Transcript {
            language: options.decode.language.unwrap_or(Language::ENGLISH),
            text: String::new(),
            segments: Vec::new(),
        },
    };
    for places in places.chunks(batch) {
        let mut read = Vec::with_capacity(places.len());
        for &place in places {
            read.push(input.read(place).map_err(Error::Features)?.to_vec());
        }
        let read: Vec<&[f32]> = read.iter().map(|features| &**features).collect();
        let windows = recognizer.encode(&read).map_err(Error::Model)?;
        let result = run.batch(recognizer, &windows, places, observer);
        windows.into_iter().for_each(|window| recognizer.free_window(window));
        result.map_err(Error::widen)?;
        let done = places.last().map_or(0, |place| place.seek + place.frames);
        if observer.progress(done.min(input.content), input.content).is_break() {
            return Err(Error::Cancelled);
        }
    }
    Ok(run.transcript)
}

/// Checks ranges.
fn places(pieces: &[Range<usize>], full: usize) -> Result<Vec<Place>, String> {
    let mut end = 0;
    for piece in pieces {
        let frames = piece.end.saturating_sub(piece.start);
        if !(1..=full).contains(&frames) || piece.start < end {
            return Err(format!(
                "the piece of frames {} to {} is empty, overlaps the one before or has more than {full} frames",
                piece.start, piece.end
            ));
        }
        end = piece.end;
    }
    Ok(pieces.iter().map(|piece| Place { seek: piece.start, frames: piece.len() }).collect())
}

/// Pieces in progress.
struct Run<'a> {
    vocabulary: &'a Vocabulary,
    options: &'a TranscribeOptions,
    /// The language of all pieces, once it is known.
    language: Option<Language>,
    prompt: Vec<u32>,
    /// The end of the last word in seconds.
    last_speech: f64,
    transcript: Transcript,
}

impl Run<'_> {
    /// Decodes a batch of windows.
    fn batch<R: Recognizer + ?Sized, O: Observer + ?Sized>(
        &mut self,
        recognizer: &mut R,
        windows: &[Window],
        places: &[Place],
        observer: &mut O,
    ) -> Result<(), Error<R::Error>> {
        let languages = self.languages(recognizer, windows, observer)?;
        let attempts: Vec<Attempt> = windows
            .iter()
            .zip(places)
            .zip(&languages)
            .map(|((&window, place), &language)| Attempt {
                window,
                seek: place.seek,
                prompt: self.prompt.clone(),
                language: Some(language),
            })
            .collect();
        let decoded =
            decode_with_fallback(recognizer, self.vocabulary, self.options, &attempts, observer)?;
        for ((attempt, &place), decoded) in attempts.iter().zip(places).zip(decoded) {
            if is_silent(self.options, &decoded) {
                continue;
            }
            let mut sliced = slice(self.vocabulary, &decoded, place);
            if let Some(rest @ [first, ..]) = decoded.tokens.get(sliced.rest..) {
                let index = first.saturating_sub(self.vocabulary.first_timestamp);
                let start = place.start() + f64::from(index) * TIMESTAMP_SECONDS;
                let end = place.start() + seconds(place.frames);
                let last = segment(self.vocabulary, &decoded, place, rest, start, end.max(start));
                sliced.segments.push(last);
            }
            if self.options.words {
                let spoken = Spoken {
                    window: attempt.window,
                    place,
                    language: decoded.language,
                    task: self.options.decode.task,
                    last_speech: self.last_speech,
                };
                let segments = &mut sliced.segments;
                add_words(recognizer, self.vocabulary, self.options, segments, spoken)
                    .map_err(Error::Model)?;
                self.last_speech = last_end(segments).unwrap_or(self.last_speech);
            }
            self.emit(sliced.segments, observer)?;
        }
        Ok(())
    }

    /// The language of each window: one for all, or each its own.
    fn languages<R: Recognizer + ?Sized, O: Observer + ?Sized>(
        &mut self,
        recognizer: &mut R,
        windows: &[Window],
        observer: &mut O,
    ) -> Result<Vec<Language>, Error<R::Error>> {
        let each = self.options.multilingual && self.vocabulary.is_multilingual();
        let known =
            self.language.or((!self.vocabulary.is_multilingual()).then_some(Language::ENGLISH));
        let asked = match (each, known) {
            (true, _) => windows,
            (false, Some(_)) => &[],
            (false, None) => &windows[..windows.len().min(1)],
        };
        let found: Vec<Language> = match asked.is_empty() {
            true => Vec::new(),
            false => detect_languages(recognizer, self.vocabulary, asked)?
                .iter()
                .map(|all| likeliest(all).unwrap_or(Language::ENGLISH))
                .collect(),
        };
        let first = known.or(found.first().copied()).unwrap_or(Language::ENGLISH);
        if self.transcript.segments.is_empty() && self.language.is_none() {
            self.transcript.language = first;
            observer.language(first);
        }
        self.language = Some(first);
        Ok(if each { found } else { vec![first; windows.len()] })
    }

    /// Makes segments final.
    fn emit<M, O: Observer + ?Sized>(
        &mut self,
        segments: Vec<Segment>,
        observer: &mut O,
    ) -> Result<(), Error<M>> {
        for mut segment in segments {
            clear_if_empty(&mut segment);
            if strip(&segment.text).is_empty() {
                continue;
            }
            segment.id = self.transcript.segments.len();
            self.transcript.text.push_str(&segment.text);
            let flow = observer.segment(&segment);
            self.transcript.segments.push(segment);
            if flow.is_break() {
                return Err(Error::Cancelled);
            }
        }
        Ok(())
    }
}
