//! One request on its way through passes.

mod stage;
mod wants;

use std::time::Duration;

use pelton_graph::{Effort, RECENT};
use pelton_sampling::Sampled;
use pelton_tokenizer::Tokenizer;
use web_time::Instant;

pub(crate) use self::stage::{AwaitedPrefix, InFlight, Pause, Running, Stage};
use super::{
    goal::Goal,
    pass::RECOMPUTE_ROWS,
    queue::Place,
    scores::PromptScores,
    speculate::{DRAFT_MAX, LookupDrafter, Proposal},
};
use crate::{
    Error,
    api::Client,
    kv::{Namespace, PageCache, SequencePages},
    vision::Pictures,
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
    /// Known tokens up to the position `end`, in the phase of decoding: tokens that were generated
    /// before a preemption, or a prompt that runs in this phase.
    Recompute {
        /// The position after the last.
        end: usize,
    },
    /// The newest token, known or not.
    Decode,
}

/// The conditions of a request beyond its tokens, which do not change.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The salt of its cached prefixes; `None` if its pages are not shared.
    pub(crate) salt: Option<u64>,
    /// Its LoRA adapters with their scales, in ascending order.
    pub(crate) loras: Vec<(u32, f32)>,
    pub(crate) client: Client,
    /// The effort of its rows after the prompt.
    pub(crate) effort: Effort,
    /// Whether the rows of the prompt have this effort too, instead of the full one.
    pub(crate) effort_in_prompt: bool,
    pub(crate) deadline: Option<Duration>,
}

/// A request that was accepted.
///
/// A row at position `p` samples the token of position `p + 1`.
pub(crate) struct Sequence {
    /// The tokens that are known: the prompt's, then generated ones.
    tokens: Vec<u32>,
    /// The rows of pictures, if there are any.
    pictures: Option<Box<Pictures>>,
    /// Tokens of the prompt.
    prompt: usize,
    /// Tokens that there may be, the prompt's included.
    most: usize,
    terms: Terms,
    goal: Goal,
    stage: Stage,
    /// Tokens of its text for which its client was charged when it started.
    charged: usize,
    /// When its newest pass was submitted.
    last_submission: Option<Instant>,
    /// The log-probabilities of its prompt, as long as they are wanted and not complete.
    scores: Option<Box<PromptScores>>,
    /// Its drafts by lookup, if tokens are drafted.
    drafter: Option<Box<LookupDrafter>>,
    /// Whether its prompt runs as rows of decoding passes.
    decodes_prompt: bool,
}

impl Sequence {
    /// A sequence of at most `most` tokens, the prompt's included.
    pub(crate) fn new(
        tokens: Vec<u32>,
        most: usize,
        terms: Terms,
        goal: Goal,
        place: Place,
    ) -> Self {
        Self {
            prompt: tokens.len(),
            tokens,
            pictures: None,
            most,
            terms,
            goal,
            stage: Stage::Waiting { place, prefix: None },
            charged: 0,
            last_submission: None,
            scores: None,
            drafter: None,
            decodes_prompt: false,
        }
    }

    /// The sequence with log-probabilities of its prompt, if they are wanted.
    pub(crate) fn with_scores(self, scores: Option<PromptScores>) -> Self {
        Self { scores: scores.map(Box::new), ..self }
    }

    /// The sequence with rows of pictures.
    pub(crate) fn with_pictures(self, pictures: Option<Box<Pictures>>) -> Self {
        Self { pictures, ..self }
    }

    /// The sequence with drafts of its tokens, if they are wanted.
    pub(crate) fn with_drafter(self, drafter: Option<Box<LookupDrafter>>) -> Self {
        Self { drafter, ..self }
    }

    /// The tokens that are known: the prompt's, then generated ones.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The tokens by which cached prefixes are found.
    pub(crate) fn identities(&self) -> &[u32] {
        self.pictures.as_ref().map_or(&self.tokens, |pictures| pictures.identities())
    }

    /// The rows of pictures, if there are any.
    pub(crate) fn pictures(&self) -> Option<&Pictures> {
        self.pictures.as_deref()
    }

    /// The rows of pictures, if there are any.
    pub(crate) fn pictures_mut(&mut self) -> Option<&mut Pictures> {
        self.pictures.as_deref_mut()
    }

    /// Tokens of the prompt.
    pub(crate) fn prompt(&self) -> usize {
        self.prompt
    }

    /// Tokens that there may be, the prompt's included.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    pub(crate) fn goal(&self) -> &Goal {
        &self.goal
    }

    pub(crate) fn goal_mut(&mut self) -> &mut Goal {
        &mut self.goal
    }

    pub(crate) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The state in its slot, while it runs.
    pub(crate) fn running(&self) -> Option<&Running> {
        match &self.stage {
            Stage::Running(running) => Some(running),
            _ => None,
        }
    }

    /// The state in its slot, while it runs.
    pub(crate) fn running_mut(&mut self) -> Option<&mut Running> {
        match &mut self.stage {
            Stage::Running(running) => Some(running),
            _ => None,
        }
    }

    /// The position after the last one that was submitted.
    pub(crate) fn submitted(&self) -> usize {
        self.running().map_or(0, Running::submitted)
    }

    /// The position after the last one whose results were taken.
    pub(crate) fn computed(&self) -> usize {
        self.running().map_or(0, Running::computed)
    }

    /// Its passes that were submitted and not taken.
    pub(crate) fn in_flight(&self) -> InFlight {
        self.stage.in_flight()
    }

    /// When its newest pass was submitted.
    pub(crate) fn last_submission(&self) -> Option<Instant> {
        self.last_submission
    }

    /// Waits for a prefix before its first start.
    pub(crate) fn await_prefix(&mut self, awaited: AwaitedPrefix) {
        if let Stage::Waiting { prefix, .. } = &mut self.stage {
            *prefix = Some(awaited);
        }
    }

    /// Whether log-probabilities of its prompt are wanted and not complete.
    pub(crate) fn is_scored(&self) -> bool {
        self.scores.is_some()
    }

    /// The source of its drafts, if tokens are drafted.
    pub(crate) fn drafter(&self) -> Option<&LookupDrafter> {
        self.drafter.as_deref()
    }

    /// The source of its drafts, if tokens are drafted.
    pub(crate) fn drafter_mut(&mut self) -> Option<&mut LookupDrafter> {
        self.drafter.as_deref_mut()
    }

    /// The number of tokens that may be drafted of it, and those by lookup. `None` if
    /// tokens are not drafted.
    pub(crate) fn propose(&mut self) -> Option<(usize, Proposal)> {
        let known = self.appended();
        let drafter = self.drafter.as_deref_mut()?;
        drafter.observe(&self.tokens);
        // the row of the newest token samples a token too
        let room = self.most.saturating_sub(self.tokens.len() + 1).min(DRAFT_MAX);
        // known tokens are to be run first
        let room = if known > RECOMPUTE_ROWS { 0 } else { room };
        Some((room, drafter.propose(&self.tokens, room)))
    }

    /// Whether its prompt runs as rows of decoding passes.
    pub(crate) fn decodes_prompt(&self) -> bool {
        self.decodes_prompt
    }

    /// Lets its prompt run as rows of decoding passes.
    pub(crate) fn decode_prompt(&mut self) {
        self.decodes_prompt = true;
    }

    /// Tokens of its text for which its client was charged.
    pub(crate) fn charged(&self) -> usize {
        self.charged
    }

    /// Takes note of the tokens of its text for which its client is charged.
    pub(crate) fn charge(&mut self, tokens: usize) {
        self.charged = tokens;
    }

    /// Tokens of its text so far.
    pub(crate) fn generated(&self) -> usize {
        self.tokens.len().saturating_sub(self.prompt)
    }

    /// Whether all of its rows have the same effort.
    pub(crate) fn is_uniform(&self) -> bool {
        self.terms.effort.is_full() || self.terms.effort_in_prompt
    }

    /// Positions of its prompt that run in the phase of prompts. Cached prefixes have
    /// run in the same phases.
    pub(crate) fn prompt_rows(&self) -> usize {
        if self.decodes_prompt { 0 } else { self.prompt }
    }

    /// The tokens that a cached prefix can replace, and one more, which is run. Generated
    /// tokens count only where their rows have the effort of the prompt. Rows whose
    /// scores are wanted are run.
    pub(crate) fn shareable(&self) -> &[u32] {
        let effort = if self.is_uniform() { self.tokens.len() } else { self.prompt };
        let scored = self.scores.as_ref().map_or(effort, |scores| scores.next_row());
        &self.identities()[..self.tokens.len().min(effort.min(scored) + 1)]
    }

    /// The namespace of its cached prefixes; `None` if its pages are not shared.
    pub(crate) fn namespace(&self) -> Option<Namespace> {
        let loras = self.terms.loras.iter().map(|&(id, scale)| (id, scale.to_bits())).collect();
        let below = self.terms.effort_in_prompt && !self.terms.effort.is_full();
        let effort = below.then(|| self.terms.effort.bits());
        Some(Namespace { salt: self.terms.salt?, loras, effort })
    }

    /// Begins to run in a slot, with pages of which the first `hit` positions are computed. Returns
    /// whether it is the first start.
    pub(crate) fn start(&mut self, slot: u32, pages: SequencePages, hit: usize) -> bool {
        // after the last token of a prompt that is only scored nothing is wanted
        let target = self.tokens.len() - usize::from(!self.generates());
        if let Goal::Values(values) = &mut self.goal {
            values.restart();
        }
        let running = Stage::Running(Running::new(slot, pages, hit, target));
        match std::mem::replace(&mut self.stage, running) {
            Stage::Waiting { place, .. } => {
                // it leaves the bounded queue
                drop(place);
                true
            }
            _ => false,
        }
    }

    /// Frees its pages and its slot, which is returned. May be called again.
    pub(crate) fn release(&mut self, kv: &mut PageCache) -> Option<u32> {
        let mut running = self.stage.leave()?;
        kv.release(running.pages_mut());
        Some(running.slot())
    }

    /// Takes note of a submitted pass up to position `end` that samples `tokens` tokens.
    pub(crate) fn submit(&mut self, end: usize, tokens: usize, pause: Option<Pause>, at: Instant) {
        if let Some(running) = self.running_mut() {
            running.submit(end, tokens, pause);
            self.last_submission = Some(at);
        }
    }

    /// Takes note that a pass was taken, which has sampled `tokens` tokens.
    pub(crate) fn take(&mut self, tokens: usize) {
        self.stage.take(tokens);
    }

    /// Takes note that its newest pass has its draw, or samples `dropped` tokens less.
    pub(crate) fn settle_draw(&mut self, dropped: usize) {
        self.stage.settle_draw(dropped);
    }

    /// Adds sampled tokens to the text; `ended` if the constraint ends it with them. Counts them in
    /// `generated`. Returns whether the text goes on: if not, its output has had the last event.
    pub(crate) fn push(
        &mut self,
        sampled: Vec<Sampled>,
        ended: bool,
        tokenizer: Option<&Tokenizer>,
        generated: &mut u64,
    ) -> bool {
        let Goal::Text { output, .. } = &mut self.goal else { return true };
        let count = sampled.len();
        for (i, sampled) in sampled.into_iter().enumerate() {
            *generated += u64::from(sampled.token.is_some());
            self.tokens.extend(sampled.token);
            if let Some(pictures) = &mut self.pictures {
                sampled.token.into_iter().for_each(|token| pictures.push(token));
            }
            let completes = ended && i + 1 == count;
            if completes {
                output.complete();
            }
            let last = completes || self.tokens.len() >= self.most;
            if !output.push(sampled, last, tokenizer) {
                return false;
            }
        }
        true
    }

    /// Draws the token after `position` from the logits `[vocab]` of its row, if its tokens
    /// are drawn on the host.
    pub(crate) fn draw_on_host(
        &mut self,
        logits: &[f32],
        tokens: usize,
        position: usize,
    ) -> Option<Sampled> {
        match &mut self.goal {
            Goal::Text { draw, .. } => {
                draw.on_host(logits, tokens, &self.tokens, position, self.prompt)
            }
            Goal::Values(_) => None,
        }
    }

    /// Whether it may have tokens after its prompt.
    pub(crate) fn generates(&self) -> bool {
        self.most > self.prompt
    }

    /// Tokens that are known or sampled in a submitted pass.
    pub(crate) fn expected(&self) -> usize {
        self.tokens.len() + self.in_flight().tokens
    }

    /// Whether tokens that were known at the start are not submitted yet.
    pub(crate) fn is_prefilling(&self) -> bool {
        self.running().is_some_and(|running| running.submitted() < running.target())
    }

    /// The rows that can be run next; `late_draws` lets a constrained sequence run ahead of its
    /// draws.
    pub(crate) fn next(&self, phases_agree: bool, late_draws: bool) -> Next {
        let Some(running) = self.running().filter(|running| !running.is_paused()) else {
            return Next::Nothing;
        };
        let (target, submitted) = (running.target(), running.submitted());
        let agree = phases_agree && self.is_uniform() && !self.decodes_prompt;
        let prompt_end = if agree { target } else { self.prompt_rows().min(target) };
        if submitted < prompt_end {
            // up to the first picture that is not seen yet
            let unseen = self.pictures.as_ref().and_then(|of| of.unseen(submitted));
            match unseen.map_or(prompt_end, |(_, row)| prompt_end.min(row)) {
                end if end > submitted => Next::Prompt { end },
                _ => Next::Nothing,
            }
        } else if submitted + 1 < target {
            Next::Recompute { end: target }
        } else if self.decodable(late_draws) > 0 {
            Next::Decode
        } else {
            Next::Nothing
        }
    }

    /// Tokens that can be sampled before further results are taken.
    pub(crate) fn decodable(&self, late_draws: bool) -> usize {
        let in_flight = self.in_flight();
        match &self.goal {
            Goal::Text { draw, .. } if draw.is_stepwise() => {
                let waits = match in_flight.tokens {
                    _ if !late_draws || !draw.can_run_ahead() => {
                        in_flight.passes > 0 || draw.is_constraint_busy()
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
                .min((RECENT - 1).saturating_sub(in_flight.tokens)),
            Goal::Values(_) => 0,
        }
    }

    /// Known tokens from the next row on.
    pub(crate) fn appended(&self) -> usize {
        self.tokens.len().saturating_sub(self.submitted())
    }

    /// Adds the results of the next rows that score tokens of the prompt, and passes the tokens on
    /// when they are complete.
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
        let prompt = self.prompt_rows();
        if let Stage::Running(running) = &mut self.stage {
            let positions = running.computed().min(shared);
            let tokens = self.pictures.as_ref().map_or(&self.tokens[..], |of| of.identities());
            kv.commit(&mut running.pages, tokens, prompt, positions);
        }
    }
}
