//! Times of transcripts.

/// Milliseconds of seconds, as Python's `round` gives them; none below zero.
pub(crate) fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round_ties_even().max(0.0) as u64
}

/// `hh:mm:ss.mmm` of seconds, with hours only if there are some or they are always wanted.
pub(crate) fn clock(seconds: f64, hours: bool, marker: char) -> String {
    let all = milliseconds(seconds);
    let (hour, minute) = (all / 3_600_000, all / 60_000 % 60);
    let (second, rest) = (all / 1000 % 60, all % 1000);
    if hours || hour > 0 {
        format!("{hour:02}:{minute:02}:{second:02}{marker}{rest:03}")
    } else {
        format!("{minute:02}:{second:02}{marker}{rest:03}")
    }
}
