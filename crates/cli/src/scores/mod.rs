//! Perplexity over a text, and the divergence from saved logits.
//!
//! A text is cut into windows of `context` tokens that do not overlap. The first half of a window
//! is read only; each token of the second half but its first is scored, by the logits of the token
//! before it. This is the rule of llama.cpp's `llama-perplexity`, whose files of saved logits
//! ([`base_file`]) are read and written.

pub(crate) mod base_file;
pub(crate) mod score;
pub(crate) mod statistics;

use std::ops::Range;

use anyhow::{Result, ensure};

/// Tokens of a window where neither the command line nor a file of logits says.
pub(crate) const CONTEXT: usize = 512;

/// The least tokens of a window: one of them is scored.
pub(crate) const CONTEXT_MIN: usize = 3;

/// The rows of a window of `context` tokens whose logits are scored. Row `i`
/// predicts token `i + 1`.
pub(crate) const fn scored(context: usize) -> Range<usize> {
    context / 2..context - 1
}

/// Refuses windows in which no token would be scored.
pub(crate) fn check_context(context: usize) -> Result<()> {
    ensure!(
        context >= CONTEXT_MIN,
        "--context is {context}, expected at least {CONTEXT_MIN} tokens of a window"
    );
    Ok(())
}

/// The windows of a text of `tokens` tokens, at most `most` of them.
pub(crate) fn windows(tokens: usize, context: usize, most: Option<u32>) -> Result<usize> {
    let windows = tokens / context;
    ensure!(
        windows > 0,
        "the text has {tokens} tokens, expected at least one window of {context} (--context)"
    );
    Ok(most.map_or(windows, |most| windows.min(most as usize)))
}
