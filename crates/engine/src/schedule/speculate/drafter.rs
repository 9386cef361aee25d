//! A model that drafts tokens for another one.

use pelton_graph::Sample;
use pelton_sampling::Draw;

use crate::{
    Error,
    schedule::{goal::DrawOptions, runner::Runner},
};

/// The most rows of one sequence that run in one pass of the phase of decoding; more are a
/// prompt's.
pub(crate) const DECODE_ROWS: usize = 16;

/// A model that drafts the next tokens of running sequences with passes of its own: a draft model,
/// or the head of the model's file. Its slots are those of the model.
///
/// For each pass with drafts the scheduler calls [`begin`](Self::begin). Then it calls
/// [`finish`](Self::finish), or the pass of the model finds the tokens on the device, if
/// the two are [paired](Self::pair). The other methods are for drafters that read hidden
/// states of the model.
pub(crate) trait Drafter: Send {
    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// Makes the model its partner. Returns whether the backend has partners.
    fn pair(&mut self, model: &mut Runner) -> bool;

    /// Begins a draft of the next `count` tokens of sequences. Returns for each the position of the
    /// first, at which the partner finds it; `None` for a sequence that has no draft now.
    ///
    /// # Errors
    ///
    /// If a pass fails.
    fn begin(&mut self, asks: &[Ask<'_>], count: usize) -> Result<Vec<Option<u32>>, Error>;

    /// Waits for the draft that has begun: its tokens, with their requests.
    ///
    /// # Errors
    ///
    /// If a pass failed.
    fn finish(&mut self) -> Result<Vec<(u64, Vec<u32>)>, Error>;

    /// Elements of a hidden state; `None` if it reads none.
    fn hidden_width(&self) -> Option<usize> {
        None
    }

    /// Takes note of the hidden states of a sequence from position `first` on.
    fn keep(&mut self, _id: u64, _slot: u32, _first: usize, _states: States<'_>) {}

    /// The sequences whose hidden states are rows of the model's newest pass, with their slots. The
    /// rows have to run before the model's next pass.
    fn kept(&self) -> Vec<(u64, u32)> {
        Vec::new()
    }

    /// Runs the rows of a sequence whose hidden states are rows of the model's newest pass.
    ///
    /// # Errors
    ///
    /// If a pass fails.
    fn run_kept(&mut self, _id: u64, _slot: u32, _tokens: &[u32]) -> Result<(), Error> {
        Ok(())
    }

    /// Runs the waiting rows of a sequence if there are at least `least`. The newest row stays, as
    /// a draft begins with it.
    ///
    /// # Errors
    ///
    /// If a pass fails.
    fn follow(
        &mut self,
        _id: u64,
        _slot: u32,
        _tokens: &[u32],
        _least: usize,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// The hidden states of positions of a sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) enum States<'a> {
    /// `[positions, hidden]`, on the host.
    Given(&'a [f32]),
    /// As many rows of the model's newest pass, and the first of them.
    Rows { first: usize, count: usize },
}

/// A sequence whose next tokens are to be drafted.
pub(crate) struct Ask<'a> {
    /// The request.
    pub(crate) id: u64,
    /// Its slot.
    pub(crate) slot: u32,
    /// All of its tokens.
    pub(crate) tokens: &'a [u32],
    /// Tokens of the prompt.
    pub(crate) prompt: usize,
    /// How its tokens are drawn. Drafts are drawn with the same noise, which lets two distributions
    /// that are alike draw the same token most often (Gumbel coupling).
    pub(crate) draw: &'a DrawOptions,
}

impl<'a> Ask<'a> {
    /// The draw of the token after `position`, in row `row` of a pass.
    pub(crate) fn sample(&self, row: usize, position: usize, vocab: usize) -> Sample<'a> {
        let sample = self.draw.sample(row, position, self.prompt, self.tokens);
        // tokens that the draft lacks cost acceptance only
        let known = sample.draw.bias.iter().all(|&(token, _)| (token as usize) < vocab);
        let bias = if known { sample.draw.bias } else { &[] };
        Sample { draw: Draw { bias, mask: None, log_probs: None, ..sample.draw }, ..sample }
    }
}
