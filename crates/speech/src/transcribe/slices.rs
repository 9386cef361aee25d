//! Segments of a window by its timestamps.

use crate::decode::Decoded;
use crate::segment::Segment;
use crate::vocabulary::{TIMESTAMP_SECONDS, Vocabulary};

use super::voices::Piece;

/// Frames between two timestamps.
pub(super) const TIMESTAMP_FRAMES: usize = 2;

/// The place of a window in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The first frame.
    pub(super) seek: usize,
    /// Frames of content.
    pub(super) frames: usize,
}

impl Place {
    /// The start in seconds.
    pub(super) fn start(self) -> f64 {
        seconds(self.seek)
    }
}

/// Seconds of frames.
pub(super) fn seconds(frames: usize) -> f64 {
    (frames * 160) as f64 / 16_000.0
}

/// The segments of a window, and the frame at which the next window begins.
#[derive(Debug)]
pub(super) struct Sliced {
    pub(super) segments: Vec<Segment>,
    pub(super) next: usize,
    /// Whether the last two tokens are a text and a timestamp: nothing is said after it.
    pub(super) is_closed: bool,
    /// Index of the first token that no segment has.
    pub(super) rest: usize,
    /// Whether a text has a start and no end.
    pub(super) is_open: bool,
    /// The frame at which the last segment ends; the end of the window if its text has no end.
    pub(super) until: usize,
}

/// Cuts a window between adjacent timestamps. Tokens after the last cut are left to the next
/// window, unless a single timestamp ends them.
pub(super) fn slice(vocabulary: &Vocabulary, decoded: &Decoded, place: Place) -> Sliced {
    let tokens = &*decoded.tokens;
    let is_timestamp = |token: &u32| vocabulary.is_timestamp(*token);
    let is_closed = match tokens {
        [.., before, last] => !is_timestamp(before) && is_timestamp(last),
        _ => false,
    };
    let index = |token: u32| token.saturating_sub(vocabulary.first_timestamp);
    let time = |token: u32| place.start() + f64::from(index(token)) * TIMESTAMP_SECONDS;
    let pairs =
        (1..tokens.len()).filter(|&i| is_timestamp(&tokens[i - 1]) && is_timestamp(&tokens[i]));
    let mut cuts: Vec<usize> = pairs.collect();
    if cuts.is_empty() {
        let last = tokens.iter().rev().find(|token| is_timestamp(token)).copied();
        let duration = match last.map(index) {
            Some(index @ 1..) => f64::from(index) * TIMESTAMP_SECONDS,
            _ => seconds(place.frames),
        };
        let (start, end) = (place.start(), place.start() + duration);
        let segments = vec![segment(vocabulary, decoded, place, tokens, start, end)];
        let next = place.seek + place.frames;
        let until = match last.map(index) {
            Some(index @ 1..) if is_closed => next.min(place.seek + frames_of(index)),
            _ => next,
        };
        let is_open = !is_closed;
        return Sliced { segments, next, is_closed, rest: tokens.len(), is_open, until };
    }
    if is_closed {
        cuts.push(tokens.len());
    }
    let mut segments = Vec::with_capacity(cuts.len());
    let mut from = 0;
    for cut in cuts {
        let own = &tokens[from..cut];
        let (start, end) = (time(own[0]), time(own[own.len() - 1]));
        // without the rules of timestamps they can descend
        segments.push(segment(vocabulary, decoded, place, own, start, end.max(start)));
        from = cut;
    }
    let until = place.seek + frames_of(index(tokens[from - 1]));
    let next = if is_closed { place.seek + place.frames } else { until };
    let is_open = tokens[from..].iter().any(|&token| token < vocabulary.eot);
    let until = until.min(place.seek + place.frames);
    Sliced { segments, next, is_closed, rest: from, is_open, until }
}

impl Sliced {
    /// Lets the next window begin before the next voice of a piece, unless a text has no end. It is
    /// decoded again then.
    pub(super) fn follow_voices(&mut self, piece: &Piece) {
        if !piece.voices.is_empty() && !self.is_open {
            let from = if self.is_closed { self.until } else { self.next };
            self.next = piece.next_voice(from).unwrap_or(self.next.max(piece.frames.end));
        }
    }
}

/// The frame of a timestamp in its window.
fn frames_of(index: u32) -> usize {
    index as usize * TIMESTAMP_FRAMES
}

/// Ends the segments of a window with its content. A model may place text behind it, as it hears a
/// whole window. Such text becomes part of the segment before, so none is lost.
pub(super) fn fit(segments: &mut Vec<Segment>, place: Place) {
    let end = seconds(place.seek + place.frames);
    let mut all: Vec<Segment> = Vec::with_capacity(segments.len());
    for mut segment in segments.drain(..) {
        let is_behind = segment.start > end - TIMESTAMP_SECONDS / 2.0;
        match all.last_mut().filter(|_| is_behind) {
            Some(last) => {
                last.text.push_str(&segment.text);
                last.tokens.append(&mut segment.tokens);
                last.words.append(&mut segment.words);
                if !segment.text.is_empty() {
                    last.end = end;
                }
            }
            None => {
                if is_behind {
                    segment.start = place.start();
                }
                if !segment.text.is_empty() {
                    // it is shown for a moment at least
                    segment.end = segment.end.max(segment.start + TIMESTAMP_SECONDS);
                }
                segment.end = segment.end.min(end);
                all.push(segment);
            }
        }
    }
    *segments = all;
}

/// A segment of a window's tokens, whose id is set later.
pub(super) fn segment(
    vocabulary: &Vocabulary,
    decoded: &Decoded,
    place: Place,
    tokens: &[u32],
    start: f64,
    end: f64,
) -> Segment {
    let text: Vec<u32> = tokens.iter().copied().filter(|&token| token < vocabulary.eot).collect();
    Segment {
        id: 0,
        seek: place.seek,
        start,
        end,
        text: vocabulary.decode(&text),
        tokens: tokens.to_vec(),
        temperature: decoded.temperature,
        average_logprob: decoded.average_logprob,
        compression_ratio: decoded.compression_ratio,
        no_speech_prob: decoded.no_speech_prob,
        words: Vec::new(),
    }
}
