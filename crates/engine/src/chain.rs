//! One sequence that decodes alone: its passes are submitted in chains, in which the backend chooses
//! each token and feeds it into the next pass by itself.
//!
//! The host reads a part while the next one runs, so the device never waits for the host. Parts
//! grow, so that the first tokens come at once, and later ones at a low cost each. What was run
//! past the end of a text is never looked at, and its place in the caches goes back to the pool
//! with the sequence's pages.

use pelton_graph::NO_TOKEN;
use pelton_tokenizer::Tokenizer;

use crate::{Error, runner::Runner, sequence::Sequence};

/// The longest part: that a command comes is noticed once a part, and what it costs to submit and
/// read one is little beside as many passes.
const LONGEST: usize = 32;

/// Whether a sequence that is alone can be run in a chain.
pub(crate) fn serves(runner: &Runner, sequence: &Sequence) -> bool {
    runner.has_chains() && sequence.decodes() && sequence.choice().is_some()
}

/// Runs a sequence that [`serves`] until it ends, or, once `interrupted`, until the parts that
/// were submitted have been read. Returns whether it goes on.
pub(crate) fn run(
    runner: &mut Runner,
    sequence: &mut Sequence,
    tokenizer: Option<&Tokenizer>,
    interrupted: impl FnMut() -> bool,
) -> bool {
    let goes_on = drive(runner, sequence, tokenizer, interrupted);
    runner.end_chain();
    goes_on.unwrap_or_else(|error| sequence.fail(Error::Pass(error.to_string())))
}

fn drive(
    runner: &mut Runner,
    sequence: &mut Sequence,
    tokenizer: Option<&Tokenizer>,
    mut interrupted: impl FnMut() -> bool,
) -> Result<bool, Error> {
    let (Some(slot), Some(choice), &[token]) =
        (&sequence.slot, sequence.choice(), sequence.waiting())
    else {
        return Ok(true);
    };
    runner.begin_chain(slot, sequence.done, token, &choice)?;
    let mut left = sequence.left();
    let mut part = 1;
    // parts that have been submitted and not read: one ahead of the one that is read
    let mut ahead = 0;
    let mut ends = false;
    loop {
        while ahead < 2 && left > 0 {
            ends |= interrupted();
            if ends {
                break;
            }
            let n = part.min(left);
            runner.extend_chain(n)?;
            left -= n;
            ahead += 1;
            part = (2 * part).min(LONGEST);
        }
        if ahead == 0 {
            return Ok(true);
        }
        for &token in runner.read_chain()? {
            sequence.done += 1;
            if !sequence.push((token != NO_TOKEN).then_some(token), tokenizer) {
                return Ok(false);
            }
        }
        ahead -= 1;
    }
}

/// All `n` tokens of a chain that was begun.
pub(crate) fn all(runner: &mut Runner, n: usize) -> Result<Vec<u32>, Error> {
    let mut tokens = Vec::with_capacity(n);
    let (mut submitted, mut part) = (0, 1);
    while tokens.len() < n {
        // one part ahead of the one that is read
        for _ in 0..if submitted == 0 { 2 } else { 1 } {
            let next = part.min(n - submitted);
            if next > 0 {
                runner.extend_chain(next)?;
                submitted += next;
                part = (2 * part).min(LONGEST);
            }
        }
        tokens.extend_from_slice(runner.read_chain()?);
    }
    Ok(tokens)
}
