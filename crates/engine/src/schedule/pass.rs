//! A pass over rows of several sequences: planned, then submitted.

use std::time::Duration;

use pelton_graph::{Phase, Ticket, Want};
use pelton_sampling::Sampled;
use web_time::Instant;

/// The most known rows of one sequence in a decoding pass. Up to this number every backend computes
/// each row with the bits that it has alone.
pub(super) const RECOMPUTE_ROWS: usize = 16;

/// A drafted token that is not known yet.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// Drafted tokens of one sequence.
#[derive(Debug)]
pub(super) struct Draft {
    /// [`UNKNOWN`] as long as they are not known.
    pub(super) tokens: Vec<u32>,
    /// Tokens that the pass has room for.
    pub(super) most: usize,
    /// Whether a drafter drafted them, and not the lookup.
    pub(super) by_model: bool,
    /// The position of the first token in the drafter's sequence, where the tokens are not known:
    /// the pass finds them there, and its results have them.
    pub(super) at: Option<u32>,
}

/// Rows of one sequence in a pass.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: u64,
    /// The position of the first row.
    pub(super) first: usize,
    /// Rows.
    pub(super) count: usize,
    /// Rows that score a token of the prompt. Their samples come before the others.
    pub(super) scores: usize,
    /// The last rows that sample a token.
    pub(super) samples: usize,
    /// Rows whose values are wanted.
    pub(super) values: usize,
    /// Drafted tokens, one for each of the last rows.
    pub(super) drafts: Vec<u32>,
    /// Whether a drafter drafted them, and not the lookup.
    pub(super) by_model: bool,
    /// The position of the first drafted token in the drafter's sequence, where the tokens were not
    /// known at the submission.
    pub(super) at: Option<u32>,
}

impl Entry {
    pub(super) fn new(id: u64, first: usize, count: usize, samples: bool) -> Self {
        Self {
            id,
            first,
            count,
            scores: 0,
            samples: usize::from(samples),
            values: 0,
            drafts: Vec::new(),
            by_model: false,
            at: None,
        }
    }

    /// The newest `known` tokens of a sequence, from position `first` on, and a
    /// draft of the next ones.
    pub(super) fn verifying(id: u64, first: usize, known: usize, draft: Draft) -> Self {
        let Draft { tokens: drafts, by_model, at, most: _ } = draft;
        let (count, samples) = (known + drafts.len(), drafts.len() + 1);
        Self { id, first, count, scores: 0, samples, values: 0, drafts, by_model, at }
    }

    /// The position after the last row.
    pub(super) fn end(&self) -> usize {
        self.first + self.count
    }

    /// Takes note of what its rows want: `scores` tokens of the prompt, and `wants`.
    pub(super) fn expect(&mut self, scores: usize, wants: &[Want<'_>]) {
        self.scores = scores;
        self.values = wants.iter().filter(|want| matches!(want, Want::Logits { .. })).count();
        if self.values > 0 {
            // a sequence whose token is drawn on the host wants logits
            self.samples = 0;
        }
    }

    /// Lets its rows sample nothing. Returns the number of tokens that they were to sample.
    pub(super) fn sample_nothing(&mut self) -> usize {
        std::mem::take(&mut self.samples)
    }

    /// The number of drafted tokens that were sampled too, in their order.
    pub(super) fn accepted(&self, sampled: &[Sampled]) -> usize {
        let pairs = self.drafts.iter().zip(sampled);
        pairs.take_while(|(draft, sampled)| sampled.token == Some(**draft)).count()
    }
}

/// A pass to be submitted.
#[derive(Debug)]
pub(super) struct PlannedPass {
    pub(super) phase: Phase,
    pub(super) entries: Vec<Entry>,
    pub(super) repeat: u32,
    /// The time in which a drafter drafted for it, before it was submitted.
    pub(super) drafting: Duration,
    /// Whether a drafter finds the hidden states of its rows on the device.
    pub(super) leaves_hidden: bool,
}

impl PlannedPass {
    /// A pass of entries; `None` without any.
    pub(super) fn new(phase: Phase, entries: Vec<Entry>, repeat: u32) -> Option<Self> {
        let (drafting, leaves_hidden) = (Duration::ZERO, false);
        let pass = Self { phase, entries, repeat, drafting, leaves_hidden };
        (!pass.entries.is_empty()).then_some(pass)
    }

    /// The pass with the time in which its drafts were drafted.
    pub(super) fn drafted_in(self, drafting: Duration) -> Self {
        Self { drafting, ..self }
    }

    /// Decides whether a drafter finds the hidden states of its rows on the device.
    pub(super) fn leave_hidden(&mut self, leaves: bool) {
        self.leaves_hidden = leaves;
    }

    /// The rows of all entries, of one repeat.
    pub(super) fn rows(&self) -> usize {
        self.entries.iter().map(|entry| entry.count).sum()
    }

    /// Drafted tokens in all.
    pub(super) fn drafted(&self) -> usize {
        self.entries.iter().map(|entry| entry.drafts.len()).sum()
    }

    /// Whether it finds drafted tokens on the device.
    pub(super) fn finds_drafts(&self) -> bool {
        self.entries.iter().any(|entry| entry.at.is_some())
    }

    /// Whether a sequence has rows in it.
    pub(super) fn has(&self, id: u64) -> bool {
        self.entries.iter().any(|entry| entry.id == id)
    }

    /// Takes note of the drafted tokens that it has found on the device.
    pub(super) fn know_drafts(&mut self, mut found: &[u32]) {
        for entry in self.entries.iter_mut().filter(|entry| entry.at.is_some()) {
            let (own, others) = found.split_at(entry.drafts.len().min(found.len()));
            entry.drafts[..own.len()].copy_from_slice(own);
            found = others;
        }
    }
}

/// A pass that was submitted and not taken.
pub(super) struct SubmittedPass {
    pub(super) ticket: Ticket,
    pub(super) plan: PlannedPass,
    /// When it was submitted.
    pub(super) at: Instant,
    /// Whether its token is not drawn yet.
    pub(super) awaits_draw: bool,
}

impl SubmittedPass {
    /// Takes note that its token is drawn, or will not be.
    pub(super) fn settle_draw(&mut self) {
        self.awaits_draw = false;
    }
}
