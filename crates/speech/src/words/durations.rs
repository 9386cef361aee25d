//! Words become part of segments, and durations that cannot be right are cut.

use crate::segment::{Segment, Word};
use crate::text::hundredths;

use super::punctuation::merge;
use super::timing::Timing;

/// Marks that end a sentence.
const SENTENCE_ENDS: &str = ".。!！?？";
/// The greatest median duration of a word in seconds.
const MEDIAN_MOST: f64 = 0.7;
/// Seconds by which the time of a word must be outside of its segment to be cut.
const TOLERANCE: f64 = 0.5;

/// Punctuation that belongs to a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Punctuation<'a> {
    /// Marks before a word.
    pub(crate) before: &'a str,
    /// Marks after a word.
    pub(crate) after: &'a str,
}

/// The typical duration of words, and the greatest one.
#[derive(Clone, Copy)]
struct Durations {
    median: f64,
    most: f64,
}

/// Gives the segments of a window their words and corrects the times of both. `texts` are the
/// numbers of text tokens of the segments, `offset` the start of the window, and `last_speech` the
/// end of the last word before it, all in seconds from the start of the file.
pub(crate) fn set_words(
    segments: &mut [Segment],
    texts: &[usize],
    mut timings: Vec<Timing>,
    punctuation: Punctuation<'_>,
    offset: f64,
    mut last_speech: f64,
) {
    let durations = durations(&timings);
    cut_at_sentences(&mut timings, durations);
    merge(&mut timings, punctuation.before, punctuation.after);
    let mut rest = timings.into_iter();
    for (segment, &text) in segments.iter_mut().zip(texts) {
        let mut taken = 0;
        let mut words = Vec::new();
        while taken < text
            && let Some(timing) = rest.next()
        {
            taken += timing.tokens;
            if !timing.text.is_empty() {
                words.push(Word {
                    text: timing.text,
                    start: hundredths(offset + timing.start),
                    end: hundredths(offset + timing.end),
                    probability: timing.probability,
                });
            }
        }
        if !words.is_empty() {
            cut_after_pause(&mut words, durations, last_speech);
            fit(segment, &mut words, durations.median);
            last_speech = segment.end;
        }
        segment.words = words;
    }
}

/// The median of all durations above 0, and twice as much.
fn durations(timings: &[Timing]) -> Durations {
    let lengths = timings.iter().map(|timing| timing.end - timing.start);
    let mut lengths: Vec<f64> = lengths.filter(|&length| length != 0.0).collect();
    lengths.sort_by(f64::total_cmp);
    let middle = lengths.len() / 2;
    let median = match lengths.len() {
        0 => 0.0,
        n if n % 2 == 1 => lengths[middle],
        _ => (lengths[middle - 1] + lengths[middle]) / 2.0,
    };
    let median = median.min(MEDIAN_MOST);
    Durations { median, most: median * 2.0 }
}

/// Cuts long words next to the ends of sentences.
fn cut_at_sentences(timings: &mut [Timing], durations: Durations) {
    if durations.median == 0.0 {
        // there is no duration to compare with
        return;
    }
    for i in 1..timings.len() {
        if timings[i].end - timings[i].start > durations.most {
            if SENTENCE_ENDS.contains(&*timings[i].text) {
                timings[i].end = timings[i].start + durations.most;
            } else if SENTENCE_ENDS.contains(&*timings[i - 1].text) {
                timings[i].start = timings[i].end - durations.most;
            }
        }
    }
}

/// Cuts the first two words of a segment if they are long after a pause.
fn cut_after_pause(words: &mut [Word], durations: Durations, last_speech: f64) {
    let Durations { median, most } = durations;
    let Some((first, rest)) = words.split_first_mut() else { return };
    let second = rest.first_mut();
    let paused = first.end - last_speech > median * 4.0;
    let long = first.end - first.start > most
        || second.as_ref().is_some_and(|second| second.end - first.start > most * 2.0);
    if paused && long {
        if let Some(second) = second.filter(|second| second.end - second.start > most) {
            let boundary = (second.end / 2.0).max(second.end - most);
            first.end = boundary;
            second.start = boundary;
        }
        first.start = (first.end - most).max(0.0);
    }
}

/// Makes the ends of a segment and those of its words equal. The times of the segment win if the
/// word is far outside of them.
fn fit(segment: &mut Segment, words: &mut [Word], median: f64) {
    if let Some(first) = words.first_mut() {
        if segment.start < first.end && segment.start - TOLERANCE > first.start {
            first.start = (first.end - median).min(segment.start).max(0.0);
        } else {
            segment.start = first.start;
        }
    }
    if let Some(last) = words.last_mut() {
        if segment.end > last.start && segment.end + TOLERANCE < last.end {
            last.end = (last.start + median).max(segment.end);
        } else {
            segment.end = last.end;
        }
    }
}
