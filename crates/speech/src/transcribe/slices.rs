//! Segments of a window by its timestamps.

use crate::decode::Decoded;
use crate::segment::Segment;
use crate::vocabulary::{TIMESTAMP_SECONDS, Vocabulary};

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
}

/// Cuts a window between adjacent timestamps. Tokens after the last cut are left to the next window,
/// unless a single timestamp ends them.
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
        return Sliced { segments, next, is_closed, rest: tokens.len() };
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
    let next = place.seek
        + match is_closed {
            true => place.frames,
            false => index(tokens[from - 1]) as usize * TIMESTAMP_FRAMES,
        };
    Sliced { segments, next, is_closed, rest: from }
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
