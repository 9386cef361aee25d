//! Words that look invented, next to silence.

use crate::segment::{Segment, Word};
use crate::text::frame;

use super::slices::{Place, seconds};

/// Marks that do not count as words, as one text.
const PUNCTUATION: &str = "\"'“¿([{-\"'.。,，!！?？:：”)]}、";
/// Words of a segment that are looked at.
const WORDS: usize = 8;
/// A segment is invented if the scores of its words have this sum.
const SCORE: f64 = 3.0;
/// Seconds next to the ends of a window that count as silent.
const EDGE: f64 = 2.0;

/// The part of a window that is skipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Nothing.
    Keep,
    /// All: the window is decoded again from this frame.
    Again(usize),
    /// The segments from this index on; the next window begins at this frame.
    From(usize, usize),
}

/// How long, short or improbable a word is.
fn score(word: &Word) -> f64 {
    let duration = word.end - word.start;
    let mut score = 0.0;
    if word.probability < 0.15 {
        score += 1.0;
    }
    if duration < 0.133 {
        score += (0.133 - duration) * 15.0;
    }
    if duration > 2.0 {
        score += duration - 2.0;
    }
    score
}

/// Whether a segment's words look invented.
fn is_anomaly(segment: &Segment) -> bool {
    if segment.words.is_empty() {
        return false;
    }
    let words = segment.words.iter().filter(|word| !PUNCTUATION.contains(&*word.text));
    let scores: Vec<f64> = words.take(WORDS).map(score).collect();
    let sum: f64 = scores.iter().sum();
    sum >= SCORE || sum + 0.01 >= scores.len() as f64
}

/// Judges the segments of a window of a file of `content` frames. `full` is the number of frames of
/// a whole window, `threshold` the seconds of silence, `last_speech` the end of the last word
/// before.
pub(super) fn judge(
    segments: &[Segment],
    place: Place,
    full: usize,
    content: usize,
    threshold: f64,
    last_speech: f64,
) -> Verdict {
    let window_end = seconds(place.seek + full);
    let next_spoken = |from: usize| segments[from..].iter().find(|next| !next.words.is_empty());
    if let Some(first) = next_spoken(0).filter(|first| is_anomaly(first)) {
        let gap = first.start - place.start();
        if gap > threshold {
            return Verdict::Again(place.seek + frame(gap));
        }
    }
    let mut last_end = last_speech;
    for (i, segment) in segments.iter().enumerate() {
        if segment.words.is_empty() {
            continue;
        }
        if is_anomaly(segment) {
            let next = next_spoken(i + 1);
            let next_start = match next.and_then(|next| next.words.first()) {
                Some(word) => word.start,
                None => place.start() + seconds(place.frames),
            };
            let silent_before = segment.start - last_end > threshold
                || segment.start < threshold
                || segment.start - place.start() < EDGE;
            let silent_after = next_start - segment.end > threshold
                || next.is_some_and(is_anomaly)
                || window_end - segment.end < EDGE;
            if silent_before && silent_after {
                let seek = match seconds(content) - segment.end < threshold {
                    true => content,
                    false => frame((place.start() + 1.0).max(segment.start)),
                };
                return Verdict::From(i, seek);
            }
        }
        last_end = segment.end;
    }
    Verdict::Keep
}
