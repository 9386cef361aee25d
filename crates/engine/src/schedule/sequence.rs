//! One request on its way through passes.

use std::time::Duration;

use pelton_graph::{Effort, Input, PAGE, RECENT, Row, Sample, Want};
use pelton_sampling::Sampled;
use web_time::Instant;

use super::{
    goal::Goal, queue::Place, scores::PromptScores, speculate::LookupDrafter, values::WantedRows,
};
use crate::{
    Error,
    api::Client,
    kv::{Namespace, PageCache, SequencePages},
};

/// The rows that a sequence can run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing until results are taken.
    Nothing,
    /// Known tokens up to the position `end`, in the phase of prompts.
    Prompt {
        /// The position after the last.
        end: usize,
    },
    /// Known tokens up to the position `end`, in the phase of decoding: those generated before a preemption, and those
    /// of prompts that run so.
    Recompute {
        /// The position after the last.
        end: usize,
    },
    /// The newest token, known or not.
    Decode,
}

/// A request that was accepted.
///
/// A row at position `p` samples the token of position `p + 1`. Positions below `submitted` are in
/// passes that were submitted, those below `computed` in passes whose results were taken. `ahead`
/// tokens are sampled in passes that were not taken yet.
pub(crate) struct Sequence {
    /// The tokens that are known: the prompt's, then generated ones.
    pub(crate) tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub(crate) prompt: usize,
    /// Tokens that there may be, the prompt's included.
    pub(crate) most: usize,
    /// The salt of its cached prefixes; `None` if its pages are not shared.
    pub(crate) salt: Option<u64>,
    /// Its LoRA adapters with their scales, in ascending order.
    pub(crate) loras: Vec<(u32, f32)>,
    pub(crate) client: Client,
    /// Tokens of its text for which its client was charged when it started.
    pub(crate) charged: usize,
    /// The effort of its rows after the prompt, and whether that of the prompt's rows is the same
    /// instead of full.
    pub(crate) effort: Effort,
    pub(crate) effort_in_prompt: bool,
    pub(crate) deadline: Option<Duration>,
    pub(crate) goal: Goal,
    /// The place in the queue, until the first start.
    pub(crate) place: Option<Place>,
    /// The slot, while it runs.
    pub(crate) slot: Option<u32>,
    pub(crate) pages: SequencePages,
    /// Tokens that are known at the start or the resumption and have to be run before it decodes.
    target: usize,
    pub(crate) submitted: usize,
    /// When its newest pass was submitted.
    pub(crate) ran: Option<Instant>,
    pub(crate) computed: usize,
    pub(crate) ahead: usize,
    /// Passes that were not taken yet. After a preemption it is not resumed before they are.
    pub(crate) flights: usize,
    /// The running sequence, and its pages in the prefix tree, that this one waits for.
    pub(crate) waits_for: Option<(u64, usize)>,
    /// The log-probabilities of its prompt, as long as they are wanted and not complete.
    pub(crate) scores: Option<Box<PromptScores>>,
    /// The source of its drafts, if tokens are drafted.
    pub(crate) drafter: Option<Box<LookupDrafter>>,
    /// Whether a pass that verifies drafts was not taken yet: its next position is not known.
    pub(crate) verifying: bool,
    /// Whether the newest of its passes waits for its draw.
    pub(crate) awaits_draw: bool,
    /// Whether its prompt runs as rows of decoding passes.
    pub(crate) decodes_prompt: bool,
}

impl Sequence {
    /// A sequence of at most `most` tokens, the prompt's included, that shares cached prefixes with
    /// those of the same salt, if it has one.
    pub(crate) fn new(
        tokens: Vec<u32>,
        most: usize,
        salt: Option<u64>,
        deadline: Option<Duration>,
        goal: Goal,
        place: Place,
    ) -> Self {
        Self {
            prompt: tokens.len(),
            tokens,
            most,
            salt,
            loras: Vec::new(),
            client: Client::default(),
            charged: 0,
            effort: Effort::FULL,
            effort_in_prompt: false,
            deadline,
            goal,
            place: Some(place),
            slot: None,
            pages: SequencePages::new(0),
            target: 0,
            submitted: 0,
            ran: None,
            computed: 0,
            ahead: 0,
            flights: 0,
            waits_for: None,
            scores: None,
            drafter: None,
            verifying: false,
            awaits_draw: false,
            decodes_prompt: false,
        }
    }

    /// The sequence with LoRA adapters, in ascending order.
    pub(crate) fn with_loras(mut self, loras: Vec<(u32, f32)>) -> Self {
        self.loras = loras;
        self
    }

    /// The sequence with its client.
    pub(crate) fn of(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    /// Tokens of its text so far.
    pub(crate) fn generated(&self) -> usize {
        self.tokens.len().saturating_sub(self.prompt)
    }

    /// Whether all of its rows have the same effort.
    pub(crate) fn is_uniform(&self) -> bool {
        self.effort.is_full() || self.effort_in_prompt
    }

    /// The effort of the row at a position.
    pub(crate) fn effort_at(&self, position: usize) -> Effort {
        match position < self.prompt && !self.effort_in_prompt {
            true => Effort::FULL,
            false => self.effort,
        }
    }

    /// The positions of its prompt that run in the phase of prompts. Cached prefixes are those of the same phases.
    pub(crate) fn prompt_rows(&self) -> usize {
        if self.decodes_prompt { 0 } else { self.prompt }
    }

    /// Its tokens that cached prefixes can stand for, and one more, which is run: where the rows after
    /// the prompt have another effort those of the prompt, and none whose result is wanted.
    pub(crate) fn shareable(&self) -> &[u32] {
        let effort = if self.is_uniform() { self.tokens.len() } else { self.prompt };
        let scored = self.scores.as_ref().map_or(effort, |scores| scores.next_row());
        &self.tokens[..self.tokens.len().min(effort.min(scored) + 1)]
    }

    /// The namespace of its cached prefixes; `None` if its pages are not shared.
    pub(crate) fn namespace(&self) -> Option<Namespace> {
        let loras = self.loras.iter().map(|&(id, scale)| (id, scale.to_bits())).collect();
        let below = self.effort_in_prompt && !self.effort.is_full();
        let effort = below.then(|| self.effort.bits());
        Some(Namespace { salt: self.salt?, loras, effort })
    }

    /// Begins to run in a slot, with pages of which the first `hit` positions are computed.
    pub(crate) fn start(&mut self, slot: u32, pages: SequencePages, hit: usize) {
        self.slot = Some(slot);
        self.pages = pages;
        // after the last token of a prompt that is only scored nothing is wanted
        self.target = self.tokens.len() - usize::from(!self.generates());
        (self.submitted, self.computed) = (hit, hit);
        self.waits_for = None;
        if let Goal::Values(values) = &mut self.goal {
            values.restart();
        }
    }

    /// Frees its pages and its slot, which is returned. May be called again.
    pub(crate) fn release(&mut self, kv: &mut PageCache) -> Option<u32> {
        kv.release(&mut self.pages);
        (self.submitted, self.computed) = (0, 0);
        self.slot.take()
    }

    /// Whether it may have tokens after its prompt.
    pub(crate) fn generates(&self) -> bool {
        self.most > self.prompt
    }

    /// Tokens that are known or sampled in a submitted pass.
    pub(crate) fn expected(&self) -> usize {
        self.tokens.len() + self.ahead
    }

    /// Whether tokens that were known at the start are not submitted yet.
    pub(crate) fn is_prefilling(&self) -> bool {
        self.slot.is_some() && self.submitted < self.target
    }

    /// The rows that can be run next; `late_draws` lets a constrained sequence run ahead of its
    /// draws.
    pub(crate) fn next(&self, phases_agree: bool, late_draws: bool) -> Next {
        if self.slot.is_none() || self.verifying || self.awaits_draw {
            return Next::Nothing;
        }
        let agree = phases_agree && self.is_uniform() && !self.decodes_prompt;
        let prompt_end = if agree { self.target } else { self.prompt_rows().min(self.target) };
        if self.submitted < prompt_end {
            Next::Prompt { end: prompt_end }
        } else if self.submitted + 1 < self.target {
            Next::Recompute { end: self.target }
        } else if self.decodable(late_draws) > 0 {
            Next::Decode
        } else {
            Next::Nothing
        }
    }

    /// Tokens that can be sampled before further results are taken.
    pub(crate) fn decodable(&self, late_draws: bool) -> usize {
        match &self.goal {
            Goal::Text { draw, .. } if draw.is_stepwise() => {
                let waits = match self.ahead {
                    _ if !late_draws || !draw.can_run_ahead() => {
                        self.flights > 0 || draw.is_constraint_busy()
                    }
                    // its mask is known
                    0 => draw.is_constraint_busy(),
                    // its mask follows from the token that is ahead
                    1 => false,
                    _ => true,
                };
                usize::from(!waits && self.expected() < self.most)
            }
            Goal::Text { .. } => self
                .most
                .saturating_sub(self.expected())
                .min((RECENT - 1).saturating_sub(self.ahead)),
            Goal::Values(_) => 0,
        }
    }

    /// Whether the last of the rows before `end` samples a token.
    pub(crate) fn samples_at(&self, end: usize) -> bool {
        matches!(self.goal, Goal::Text { .. }) && end >= self.target && end >= self.tokens.len()
    }

    /// Known tokens from the next row on.
    pub(crate) fn appended(&self) -> usize {
        self.tokens.len().saturating_sub(self.submitted)
    }

    /// The wants of the rows `first..end` that score tokens of the prompt, as in
    /// [`wants`](Self::wants).
    pub(crate) fn score_wants(
        &self,
        first: usize,
        end: usize,
        row: usize,
    ) -> impl Iterator<Item = Want<'_>> {
        let scores = self.scores.iter().flat_map(move |scores| {
            scores.rows(first, end).map(move |position| (scores, position))
        });
        scores.map(move |(scores, position)| {
            Want::Sample(scores.sample(row + position - first, position))
        })
    }

    /// The number of rows `first..end` whose values are wanted.
    pub(crate) fn value_wants(&self, first: usize, end: usize) -> usize {
        match &self.goal {
            Goal::Text { .. } => 0,
            Goal::Values(values) => values.wanted.of(first, end, self.prompt).len(),
        }
    }

    /// The position up to which the rows from `first` on can be in a pass with `wants` wants.
    pub(crate) fn wanted_end(&self, first: usize, wants: usize) -> usize {
        let most = wants.min(RECENT);
        match (&self.scores, &self.goal) {
            (Some(scores), _) => (first.max(scores.next_row()) + most) / PAGE * PAGE,
            (None, Goal::Values(values)) if values.wanted == WantedRows::All => {
                (first + wants) / PAGE * PAGE
            }
            (None, _) => usize::MAX,
        }
    }

    /// The wants of the rows `first..end`, the first of which is row `row` of a pass, but for those
    /// that score tokens of the prompt, which come before. The last `drafts` of them are drafted
    /// tokens, which are verified: each of these rows, and the one before them, samples a token.
    pub(crate) fn wants(
        &self,
        first: usize,
        end: usize,
        row: usize,
        drafts: usize,
    ) -> Vec<Want<'_>> {
        match &self.goal {
            Goal::Text { draw, .. } if self.samples_at(end) && draw.host.is_some() => {
                vec![Want::Logits { row: (row + end - 1 - first) as u32 }]
            }
            Goal::Text { draw, .. }
                if self.samples_at(end) && draw.is_stepwise() && self.ahead > 0 =>
            {
                vec![Want::Later { row: (row + end - 1 - first) as u32 }]
            }
            Goal::Text { draw, .. } if self.samples_at(end) => (end - 1 - drafts..end)
                .map(|position| {
                    let row = row + position - first;
                    Want::Sample(draw.sample(row, position, self.prompt, &self.tokens))
                })
                .collect(),
            Goal::Text { .. } => Vec::new(),
            Goal::Values(values) => {
                let wanted = values.wanted.of(first, end, self.prompt);
                let rows = wanted.map(|position| (row + position - first) as u32);
                rows.map(|row| Want::Logits { row }).collect()
            }
        }
    }

    /// The draw of a pass that was submitted without it, whose row is at `position`. `None` if the
    /// token of the row or the one after it is not as expected, or if that one is known.
    pub(crate) fn late_sample(&self, position: usize) -> Option<Sample<'_>> {
        match &self.goal {
            Goal::Text { draw, .. } if self.tokens.len() == position + 1 => {
                Some(draw.sample(0, position, self.prompt, &self.tokens))
            }
            _ => None,
        }
    }

    /// The row at a position.
    pub(crate) fn row(&self, position: usize) -> Row {
        let input = self.tokens.get(position).map_or(Input::Sampled, |&token| Input::Token(token));
        Row { input, position: position as u32, slot: self.slot.unwrap_or(0) }
    }

    /// Adds the results of the next rows that score tokens of the prompt, and passes the tokens on when
    /// they are complete.
    ///
    /// # Errors
    ///
    /// If the logits of a row are no numbers.
    pub(crate) fn score(&mut self, sampled: Vec<Sampled>) -> Result<(), Error> {
        if let Some(scores) = &mut self.scores {
            scores.push(sampled.into_iter())?;
        }
        if let Some(scores) = self.scores.take_if(|scores| scores.is_complete())
            && let Goal::Text { output, .. } = &mut self.goal
        {
            output.prompt(scores.into_tokens());
        }
        Ok(())
    }

    /// Puts its full pages whose tokens are final into the prefix tree.
    pub(crate) fn commit(&mut self, kv: &mut PageCache) {
        let shared = if self.is_uniform() { self.tokens.len() } else { self.prompt };
        let positions = self.computed.min(shared);
        let prompt = self.prompt_rows();
        kv.commit(&mut self.pages, &self.tokens, prompt, positions);
    }
}
