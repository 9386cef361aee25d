//! Decoding with higher temperatures where lower ones fail.

use crate::decode::{Control, Decoded, Job, Place, decode};
use crate::error::Error;
use crate::language::Language;
use crate::recognizer::{Recognizer, Window};
use crate::vocabulary::Vocabulary;

use super::options::TranscribeOptions;

/// A window to decode.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) window: Window,
    /// The first frame.
    pub(super) seek: usize,
    pub(super) prompt: Vec<u32>,
    pub(super) language: Option<Language>,
}

/// Decodes windows, those that fail again at the next temperature. Results are in order.
pub(super) fn decode_with_fallback<R: Recognizer + ?Sized, C: Control + ?Sized>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    options: &TranscribeOptions,
    attempts: &[Attempt],
    control: &mut C,
) -> Result<Vec<Decoded>, Error<R::Error>> {
    let mut results: Vec<Option<Decoded>> = vec![None; attempts.len()];
    let mut failed: Vec<usize> = (0..attempts.len()).collect();
    for (i, &temperature) in options.temperatures.iter().enumerate() {
        if failed.is_empty() {
            break;
        }
        let decode_options = options.at(temperature);
        let job = |&at: &usize| {
            let attempt = &attempts[at];
            let mut options = decode_options.clone();
            options.language = attempt.language;
            // another temperature of the same window has other draws
            let id = (i as u64) << 48 | attempt.seek as u64;
            Job { window: attempt.window, id, options, prompt: attempt.prompt.clone() }
        };
        let jobs: Vec<Job> = failed.iter().map(job).collect();
        let decoded = decode(recognizer, vocabulary, &jobs, control)?;
        let mut again = Vec::new();
        for (at, decoded) in failed.into_iter().zip(decoded) {
            if needs_fallback(options, &decoded) {
                again.push(at);
            }
            results[at] = Some(decoded);
        }
        failed = again;
    }
    Ok(results.into_iter().flatten().collect())
}

/// Whether a window is tried again: too repetitive, or too improbable without being silent.
fn needs_fallback(options: &TranscribeOptions, decoded: &Decoded) -> bool {
    let above = |value: f64, threshold: Option<f64>| threshold.is_some_and(|most| value > most);
    let improbable = options.logprob_threshold.is_some_and(|least| decoded.average_logprob < least);
    let repetitive = above(decoded.compression_ratio, options.compression_ratio_threshold);
    let silent = improbable && above(decoded.no_speech_prob, options.no_speech_threshold);
    (repetitive || improbable) && !silent
}

/// Lets the control judge the text of a window.
pub(super) fn accept<M, C: Control + ?Sized>(
    decoded: &Decoded,
    control: &mut C,
) -> Result<(), Error<M>> {
    let place = Place { job: 0, sampled: &decoded.tokens };
    match control.decoded(place).is_break() {
        true => Err(Error::Cancelled),
        false => Ok(()),
    }
}

/// Whether a window is skipped as silent.
pub(super) fn is_silent(options: &TranscribeOptions, decoded: &Decoded) -> bool {
    let likely = options.logprob_threshold.is_some_and(|least| decoded.average_logprob > least);
    options.no_speech_threshold.is_some_and(|most| decoded.no_speech_prob > most) && !likely
}
