//! Pieces of a file that the caller has cut, such as those with voice activity, many at a time.

use std::collections::VecDeque;

use crate::decode::{Decoded, detect_languages, likeliest};
use crate::error::Error;
use crate::features::Features;
use crate::language::Language;
use crate::recognizer::{Recognizer, Window};
use crate::segment::Segment;
use crate::text::strip;
use crate::vocabulary::{TIMESTAMP_SECONDS, Vocabulary};

use super::fallback::{Attempt, accept, decode_with_fallback, is_silent};
use super::file::{FileResult, prepare};
use super::observer::Observer;
use super::options::TranscribeOptions;
use super::slices::{Place, fit, seconds, segment, slice};
use super::transcript::Transcript;
use super::voices::{Piece, check};
use super::word_times::{Aligned, Spoken, align, last_end};

/// Windows at most that decode a piece again from where its text ended.
const RESTS_MOST: usize = 30;
/// Tokens a second at least of a text that has no end, if it is whole. Slow speech has two.
const TOKENS_LEAST: f64 = 1.0;

/// Transcribes pieces, up to `batch` windows at a time. They are ascending, and each has at most
/// the frames of a window.
///
/// A piece knows nothing of the text before it: only the initial prompt and the hot words are its
/// prompt. Where a text ends before a voice of its piece, the rest of the piece is decoded with the
/// next batch, as often as needed. A text without an end goes to the end of its piece, unless it is
/// too short for that. Options of clips, of conditioning and of hallucinations have no effect.
///
/// # Errors
///
/// As for [`transcribe`](super::transcribe); or a range is empty, too long or out of order.
pub fn transcribe_pieces<R, F, O>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    features: &mut F,
    pieces: &[Piece],
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
    check(pieces, input.full).map_err(Error::Options)?;
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
        open: VecDeque::new(),
        transcript: Transcript {
            language: options.decode.language.unwrap_or(Language::ENGLISH),
            text: String::new(),
            segments: Vec::new(),
        },
    };
    let mut rest = pieces.iter();
    loop {
        for piece in rest.by_ref().take(batch.saturating_sub(run.waiting())) {
            let features = input.read(place_of(piece)).map_err(Error::Features)?.to_vec();
            run.open.push_back(Open::new(piece, features));
        }
        // those of the oldest pieces come first
        let next = run.open.iter().enumerate();
        let next = next.filter_map(|(at, open)| Some((at, open.next?)));
        let places: Vec<(usize, Place)> = next.take(batch).collect();
        if places.is_empty() {
            return Ok(run.transcript);
        }
        let read: Vec<&[f32]> = places.iter().map(|&(at, _)| &*run.open[at].features).collect();
        let windows = recognizer.encode(&read).map_err(Error::Model)?;
        let result = run.batch(recognizer, &windows, &places, observer);
        windows.into_iter().for_each(|window| recognizer.free_window(window));
        result.map_err(Error::widen)?;
        let done = run.finish_pieces(observer).map_err(Error::widen)?;
        if let Some(done) = done
            && observer.progress(done.min(input.content), input.content).is_break()
        {
            return Err(Error::Cancelled);
        }
    }
}

/// A piece of which windows are decoded.
struct Open<'a> {
    piece: &'a Piece,
    /// The next window; `None` if the text is whole.
    next: Option<Place>,
    /// The features of the next window. They are read once, as a file is read in ascending order.
    features: Vec<f32>,
    /// Windows so far.
    windows: usize,
    /// The texts of the windows, with the words that they will get.
    texts: Vec<(Place, Vec<Segment>, Option<Aligned>)>,
}

impl<'a> Open<'a> {
    fn new(piece: &'a Piece, features: Vec<f32>) -> Self {
        Self { piece, next: Some(place_of(piece)), features, windows: 0, texts: Vec::new() }
    }

    /// Lets the piece go on at a frame, if there is one behind the last window's start.
    fn go_on(&mut self, seek: Option<usize>, mels: usize) {
        let end = self.piece.frames.end;
        let before = self.next.map_or(end, |place| place.seek);
        let seek = seek.filter(|&seek| before < seek && seek < end && self.windows <= RESTS_MOST);
        self.next = seek.map(|seek| Place { seek, frames: end - seek });
        let Some(seek) = seek else {
            self.features = Vec::new();
            return;
        };
        let all = self.features.len();
        self.features.drain(..((seek - before) * mels).min(all));
        self.features.resize(all, 0.0);
    }
}

/// The first window of a piece.
fn place_of(piece: &Piece) -> Place {
    Place { seek: piece.frames.start, frames: piece.frames.len() }
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
    /// Pieces whose text is not final, in order.
    open: VecDeque<Open<'a>>,
    transcript: Transcript,
}

impl<'a> Run<'a> {
    /// Windows that are to be decoded.
    fn waiting(&self) -> usize {
        self.open.iter().filter(|open| open.next.is_some()).count()
    }

    /// Decodes a batch of windows: each has the index of its piece among the open ones.
    fn batch<R: Recognizer + ?Sized, O: Observer + ?Sized>(
        &mut self,
        recognizer: &mut R,
        windows: &[Window],
        places: &[(usize, Place)],
        observer: &mut O,
    ) -> Result<(), Error<R::Error>> {
        let mels = recognizer.sizes().mels;
        let languages = self.languages(recognizer, windows, observer)?;
        let attempts: Vec<Attempt> = windows
            .iter()
            .zip(places)
            .zip(&languages)
            .map(|((&window, (_, place)), &language)| Attempt {
                window,
                seek: place.seek,
                prompt: self.prompt.clone(),
                language: Some(language),
            })
            .collect();
        let decoded =
            decode_with_fallback(recognizer, self.vocabulary, self.options, &attempts, observer)?;
        for ((attempt, &(at, place)), decoded) in attempts.iter().zip(places).zip(decoded) {
            let Some(open) = self.open.get_mut(at) else { continue };
            open.windows += 1;
            if is_silent(self.options, &decoded) {
                open.go_on(None, mels);
                continue;
            }
            accept(&decoded, observer)?;
            let (segments, next) = texts(self.vocabulary, &decoded, place, open.piece);
            open.go_on(next, mels);
            // the words are before the rest
            let frames = open.next.map_or(place.frames, |rest| rest.seek - place.seek);
            let place = Place { frames, ..place };
            let aligned = match self.options.words {
                true => {
                    let (window, task) = (attempt.window, self.options.decode.task);
                    let spoken = Spoken { window, place, language: decoded.language, task };
                    let aligned = align(recognizer, self.vocabulary, &segments, spoken);
                    Some(aligned.map_err(Error::Model)?)
                }
                false => None,
            };
            open.texts.push((place, segments, aligned));
        }
        Ok(())
    }

    /// Makes the texts of pieces final, of those that are whole and have none before them that is
    /// not. Returns the frame up to which all are, if it has changed.
    fn finish_pieces<M, O: Observer + ?Sized>(
        &mut self,
        observer: &mut O,
    ) -> Result<Option<usize>, Error<M>> {
        let mut done = None;
        while let Some(open) = self.open.pop_front_if(|open| open.next.is_none()) {
            for (place, mut segments, aligned) in open.texts {
                if let Some(aligned) = aligned {
                    aligned.set(self.options, &mut segments, self.last_speech);
                    self.last_speech = last_end(&segments).unwrap_or(self.last_speech);
                }
                segments.retain(|segment| !strip(&segment.text).is_empty());
                fit(&mut segments, place);
                self.emit(segments, observer)?;
            }
            done = Some(open.piece.frames.end);
        }
        Ok(done)
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

/// The segments of a window, and the frame at which its piece goes on.
fn texts(
    vocabulary: &Vocabulary,
    decoded: &Decoded,
    place: Place,
    piece: &Piece,
) -> (Vec<Segment>, Option<usize>) {
    let sliced = slice(vocabulary, decoded, place);
    let (mut segments, next) = (sliced.segments, piece.next_voice(sliced.until));
    let Some(rest @ [first, ..]) =
        decoded.tokens.get(sliced.rest..).filter(|rest| sliced.is_open && !rest.is_empty())
    else {
        return (segments, next);
    };
    // the text behind the last time: it is whole if it ended by itself, and is not much too short
    let voices = next.map_or(0.0, |_| seconds(piece.voices_after(sliced.until)));
    let count = rest.iter().filter(|&&token| token < vocabulary.eot).count();
    if next.is_some() && !(decoded.ended && count as f64 >= voices * TOKENS_LEAST) {
        return (segments, next);
    }
    let index = first.saturating_sub(vocabulary.first_timestamp);
    let start = place.start() + f64::from(index) * TIMESTAMP_SECONDS;
    let end = place.start() + seconds(place.frames);
    segments.push(segment(vocabulary, decoded, place, rest, start, end.max(start)));
    (segments, None)
}
