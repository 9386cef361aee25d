//! The speed of two models, measured in turns.

use std::time::Instant;

use anyhow::Result;
use pelton::Session;

/// Rounds of which the fastest counts: other work on the machine only ever slows a round.
const ROUNDS: usize = 3;
/// Tokens that a round decodes at most.
const DECODED: usize = 32;

/// Tokens per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Speed {
    /// The first half of a window, read as a prompt.
    pub(super) prompt: f64,
    /// The tokens decoded after it.
    pub(super) decode: f64,
}

/// The speeds of both models on the tokens of a window.
pub(super) fn measure(sessions: &mut [Session; 2], window: &[u32]) -> Result<[Speed; 2]> {
    let (prompt, rest) = window.split_at(window.len() / 2);
    let count = DECODED.min(rest.len());
    let mut speeds = [Speed::default(); 2];
    for _ in 0..ROUNDS {
        for (session, speed) in sessions.iter_mut().zip(&mut speeds) {
            session.truncate(0);
            let begin = Instant::now();
            session.run(prompt)?;
            let read = Instant::now();
            session.decode(rest[0], count)?;
            let rate = |tokens: usize, from: Instant, to: Instant| {
                tokens as f64 / (to - from).as_secs_f64().max(f64::MIN_POSITIVE)
            };
            speed.prompt = speed.prompt.max(rate(prompt.len(), begin, read));
            speed.decode = speed.decode.max(rate(count, read, Instant::now()));
        }
    }
    Ok(speeds)
}
