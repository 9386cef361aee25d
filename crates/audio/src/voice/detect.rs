//! From scores to parts with speech.

use super::change::FRAME;
use super::options::VoiceOptions;
use super::score::{Score, Scorer};
use crate::{AudioError, SAMPLE_RATE, Samples};
use std::ops::Range;

/// Frames in which the change of the spectrum is judged: 1.2 s.
const CHANGE: usize = 75;
/// Frames from one judgement to the next.
const STEP: usize = 5;

/// Frames at most by which the score falls after the speech.
const LATE: usize = 10;

/// A part of a recording with speech, in samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voice {
    /// The part with its padding. Those of a recording are ascending and disjoint.
    pub padded: Range<u64>,
    /// The speech in it.
    pub speech: Range<u64>,
}

/// The parts of a stream with speech.
///
/// # Errors
///
/// The stream could not be read.
pub fn voices<S: Samples>(source: &mut S, options: VoiceOptions) -> Result<Vec<Voice>, AudioError> {
    let mut detector = VoiceDetector::new(options);
    let mut found = Vec::new();
    while let Some(chunk) = source.next_chunk()? {
        detector.push(chunk, &mut found);
    }
    detector.finish(&mut found);
    Ok(found)
}

/// Speech that goes on.
struct Open {
    /// The first sample.
    start: u64,
    /// Scores of its frames, at most those of the greatest length.
    scores: Vec<Score>,
    /// The first sample of a pause that may be its end.
    pause: Option<u64>,
}

impl Open {
    /// The end of the speech before a pause. The network's score falls up to 0.15 s after the
    /// speech: frames that are no louder than the pause belong to it.
    fn last(&self, pause: u64) -> u64 {
        let index = ((pause - self.start) / FRAME as u64) as usize;
        let Some(quiet) = self.scores.get(index..).filter(|quiet| !quiet.is_empty()) else {
            return pause;
        };
        let floor = quiet.iter().map(|score| score.power).sum::<f32>() / quiet.len() as f32;
        let late = self.scores[..index].iter().rev().take(LATE);
        let late = late.take_while(|score| score.power <= 2.0 * floor).count();
        pause - (late * FRAME) as u64
    }
}

/// Finds the parts of a recording with speech, while it comes.
///
/// The state is bounded: a part is emitted when the padding behind it is known.
pub struct VoiceDetector {
    options: VoiceOptions,
    scorer: Scorer,
    /// Samples that were pushed.
    samples: u64,
    /// The first sample of the next frame.
    position: u64,
    open: Option<Open>,
    /// A part that has ended, without its padding.
    ended: Option<Range<u64>>,
    /// The end of the last emitted part with its padding.
    emitted: u64,
}

impl VoiceDetector {
    /// A detector at the start of a recording.
    #[must_use]
    pub fn new(options: VoiceOptions) -> Self {
        Self {
            options,
            scorer: Scorer::new(),
            samples: 0,
            position: 0,
            open: None,
            ended: None,
            emitted: 0,
        }
    }

    /// Takes the next samples at 16,000 a second, and appends the parts that are known by them to
    /// `out`.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<Voice>) {
        self.samples += samples.len() as u64;
        let mut scores = Vec::with_capacity(samples.len() / FRAME + 1);
        self.scorer.push(samples, |score| scores.push(score));
        for score in scores {
            self.frame(score, out);
        }
    }

    /// Ends the recording, and appends the last parts to `out`.
    pub fn finish(&mut self, out: &mut Vec<Voice>) {
        let mut last = None;
        self.scorer.finish(|score| last = Some(score));
        if let Some(score) = last {
            self.frame(score, out);
        }
        if let Some(open) = self.open.take() {
            let end = open.pause.map_or(self.samples, |pause| open.last(pause)).min(self.samples);
            self.end(open.start..end, &open.scores, out);
        }
        self.emit(None, out);
    }

    /// Whether speech goes on at the end of what was pushed.
    #[must_use]
    pub fn speaking(&self) -> bool {
        self.open.is_some()
    }

    fn frame(&mut self, score: Score, out: &mut Vec<Voice>) {
        let start = self.position;
        self.position += FRAME as u64;
        let Some(open) = &mut self.open else {
            if score.voice >= self.options.onset {
                self.open = Some(Open { start, scores: vec![score], pause: None });
            } else if let Some(ended) = &self.ended
                && start >= ended.end + 2 * samples(self.options.padding)
            {
                self.emit(None, out);
            }
            return;
        };
        open.scores.push(score);
        if score.voice >= self.options.onset {
            open.pause = None;
        } else if score.voice < self.options.offset {
            let pause = *open.pause.get_or_insert(start);
            if self.position - pause >= samples(self.options.least_silence) {
                if let Some(open) = self.open.take() {
                    self.end(open.start..open.last(pause), &open.scores, out);
                }
                return;
            }
        }
        let frames = open.scores.len();
        let greatest = samples(self.options.greatest - 2.0 * self.options.padding);
        if (frames * FRAME) as u64 + FRAME as u64 > greatest {
            let at = (weakest(&open.scores[frames / 2..]) + frames / 2).max(1);
            let cut = open.start + (at * FRAME) as u64;
            let part = open.start..cut;
            let scores: Vec<Score> = open.scores.drain(..at).collect();
            open.start = cut;
            open.pause = open.pause.filter(|pause| *pause >= cut);
            self.end(part, &scores, out);
        }
    }

    /// Notes a part that has ended, unless it is no speech. `scores` are those of its frames and of
    /// the pause behind it.
    fn end(&mut self, part: Range<u64>, scores: &[Score], out: &mut Vec<Voice>) {
        let frames = ((part.end - part.start) as usize).div_ceil(FRAME).min(scores.len());
        if part.end - part.start < samples(self.options.least_speech)
            || change(&scores[..frames]) < self.options.least_change
        {
            return;
        }
        self.emit(Some(part.start), out);
        self.ended = Some(part);
    }

    /// Emits the part that has ended with its padding, which goes at most halfway to the `next`
    /// part.
    fn emit(&mut self, next: Option<u64>, out: &mut Vec<Voice>) {
        let Some(part) = self.ended.take() else { return };
        let padding = samples(self.options.padding);
        let start = part.start.saturating_sub(padding).max(self.emitted);
        let mut end = (part.end + padding).min(self.samples);
        if let Some(next) = next {
            end = end.min(part.end + (next - part.end) / 2);
        }
        self.emitted = end;
        let speech = part.start.max(start)..part.end.min(end);
        out.push(Voice { padded: start..end, speech });
    }
}

impl std::fmt::Debug for VoiceDetector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VoiceDetector")
            .field("options", &self.options)
            .field("position", &self.position)
            .field("speaking", &self.speaking())
            .finish_non_exhaustive()
    }
}

/// The greatest median of the change in consecutive frames.
fn change(scores: &[Score]) -> f32 {
    let length = scores.len().min(CHANGE);
    let mut greatest = 0.0_f32;
    let mut sorted = Vec::with_capacity(length);
    for start in (0..=scores.len() - length).step_by(STEP) {
        sorted.clear();
        sorted.extend(scores[start..start + length].iter().map(|score| score.change));
        sorted.sort_by(f32::total_cmp);
        greatest = greatest.max(sorted.get(length / 2).copied().unwrap_or(0.0));
    }
    greatest
}

/// The index of the least score of voice, averaged with its neighbours: a pause is longer than a
/// frame.
fn weakest(scores: &[Score]) -> usize {
    let around = |i: usize| -> f32 {
        let near = &scores[i.saturating_sub(2)..(i + 3).min(scores.len())];
        near.iter().map(|score| score.voice).sum::<f32>() / near.len() as f32
    };
    (0..scores.len()).min_by(|a, b| around(*a).total_cmp(&around(*b))).unwrap_or(0)
}

/// Samples of a length in seconds.
fn samples(seconds: f64) -> u64 {
    (seconds * f64::from(SAMPLE_RATE)).round() as u64
}
