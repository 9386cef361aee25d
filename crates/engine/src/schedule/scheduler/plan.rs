//! The plan of the next pass.
//!
//! All decoding sequences share one decoding pass with one row each; over several devices each
//! of as many cohorts has its own. Passes over prompts alternate with decoding passes, so a
//! decoding sequence waits for at most one of them (`turns.rs`). Where more sequences decode
//! than `Pipeline::exact_rows`, their rows are in the passes over prompts, which read the
//! weights once for both.
//!
//! While the same sequences decode and nothing else is waiting, submissions grow from 1 to 2, 4 and
//! so on up to `Pipeline::repeat` passes, as long as a submission takes at most 5 ms. This saves
//! the cost of submission and readback, and bounds the wait of a new request. Tokens that were
//! computed past the end of a text are dropped with their positions.

use pelton_graph::{MAX_REPEAT, PAGE, Phase};

use super::Scheduler;
use crate::schedule::{
    pass::{Entry, PlannedPass, RECOMPUTE_ROWS, SubmittedPass},
    sequence::{Next, Sequence},
    turns::Turn,
};

/// Positions up to which a row decodes in a pass with prompts: their kernels do not split its
/// positions, which takes longer than a pass of its own far from the start.
const MIXED_POSITIONS: usize = 8192;

/// Running sequences by the rows that they can run next. Known tokens have the position
/// after their last one.
#[derive(Default)]
struct Runnable {
    decode: Vec<u64>,
    prompts: Vec<(u64, usize)>,
    recompute: Vec<(u64, usize)>,
}

impl Scheduler {
    /// The next pass, with pages for all of its rows.
    pub(super) fn plan(&mut self) -> Option<PlannedPass> {
        // a plan comes to nothing where its sequences are preempted: then less is left to plan
        for _ in 0..=2 * self.requests.running_ids().len() + 2 {
            let Runnable { mut decode, prompts, recompute } = self.runnable();
            self.keep_cohort(&mut decode);
            if self.waits_for_drafts(&decode) {
                decode.clear();
            }
            let fill = self.turns.fill(!prompts.is_empty(), !recompute.is_empty());
            let mixes = fill == Some(Turn::Prompt) && self.mixes(&decode);
            let turn = match mixes {
                true => Turn::Prompt,
                false => self.turns.next(fill, !decode.is_empty())?,
            };
            let pass = match turn {
                Turn::Decode => self.plan_decode(decode, fill.is_none()),
                Turn::Prompt if self.resources.plan.whole_sequences => self.plan_whole(&prompts),
                Turn::Prompt if mixes => self.plan_mixed(&decode, prompts),
                Turn::Prompt => self.plan_prompts(prompts),
                Turn::Recompute => self.plan_recompute(recompute),
            };
            self.turns.took(turn);
            if pass.is_some() {
                return pass;
            }
        }
        None
    }

    /// Whether a sequence can decode in the next pass.
    pub(super) fn decodes_next(&self) -> bool {
        !self.runnable().decode.is_empty()
    }

    fn runnable(&self) -> Runnable {
        let (agree, late) = (self.resources.runner.pipeline.phases_agree, self.draws_late());
        let mut runnable = Runnable::default();
        for (id, sequence) in self.requests.running() {
            match sequence.next(agree, late) {
                Next::Nothing => {}
                Next::Prompt { end } => runnable.prompts.push((id, end)),
                Next::Recompute { end } => runnable.recompute.push((id, end)),
                Next::Decode => runnable.decode.push(id),
            }
        }
        runnable
    }

    /// A pass over the newest tokens of sequences and drafts of the next ones. `alone` says that
    /// nothing else is to be run.
    fn plan_decode(&mut self, mut ids: Vec<u64>, alone: bool) -> Option<PlannedPass> {
        let limits = &self.resources.limits;
        let rows = limits.rows.min(self.resources.runner.pipeline.exact_rows);
        ids.truncate(limits.rows.min(limits.wants));
        let (mut drafts, drafting) = self.drafts(&mut ids);
        // repeats run one row of each sequence
        let known = |id: u64| self.requests.get(id).map_or(1, |s| s.appended().max(1));
        let single = drafts.is_empty() && ids.iter().all(|&id| known(id) == 1);
        let each = drafts.iter().map(|(&id, draft)| draft.tokens.len() + known(id) - 1);
        let drafted: usize = each.sum();
        let repeat = if single { self.repeat_of(&ids, alone) } else { 1 };
        let mut spare = rows.saturating_sub(ids.len() + drafted);
        let mut entries = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(sequence) = self.requests.get_running(id) else { continue };
            let first = sequence.submitted();
            // more than one row where a constraint has appended tokens
            let known = sequence.appended().max(1);
            let entry = match drafts.remove(&id) {
                Some(draft) => Entry::verifying(id, first, known, draft),
                None => {
                    let count = known.min(RECOMPUTE_ROWS).min(spare + 1);
                    spare -= count - 1;
                    Entry::new(id, first, count, sequence.samples_at(first + count))
                }
            };
            if self.reserve(id, first, entry.end() - 1 + repeat as usize) {
                entries.push(entry);
            }
        }
        Some(self.pass(Phase::Decode, entries, repeat)?.drafted_in(drafting))
    }

    /// Keeps those whose turn it is. Over several devices the others have passes of their own in
    /// flight, so that no device waits for the one after it.
    fn keep_cohort(&self, ids: &mut Vec<u64>) {
        let stages = self.resources.runner.pipeline.stages;
        if stages < 2 {
            return;
        }
        // a sequence of one of the last passes would wait for its token on the way
        let decoding = self.passes.iter().rev().filter(|pass| pass.plan.phase == Phase::Decode);
        let recent: Vec<&SubmittedPass> = decoding.take(stages - 1).collect();
        let last = recent.len();
        let waits = |id| recent.iter().any(|pass| pass.plan.has(id));
        // each has its turn, whatever the passes over prompts between
        let ran = |id| self.requests.get(id).and_then(Sequence::last_submission);
        ids.sort_by_key(|&id| (waits(id), ran(id)));
        let free = ids.iter().filter(|&&id| !waits(id)).count();
        ids.truncate(match free {
            0 => (ids.len() / stages).max(1),
            _ => ids.len().div_ceil(stages).min(free.div_ceil(stages - last)),
        });
        ids.sort_unstable();
    }

    /// How many decoding passes one submission runs: 1, 2, 4 and so on while the same sequences
    /// decode and nothing else is to be run.
    fn repeat_of(&mut self, ids: &[u64], alone: bool) -> u32 {
        let most = self.resources.runner.pipeline.repeat.clamp(1, MAX_REPEAT);
        let grown = self.turns.repeat(ids, alone, most, self.timing.timely_repeats());
        let late = self.draws_late();
        let sequences = || self.requests.of(ids);
        let decodable = sequences().map(|sequence| sequence.decodable(late)).min().unwrap_or(1);
        let mut repeat = grown.min(u32::try_from(decodable).unwrap_or(u32::MAX)).max(1);
        let fits = |repeat: u32| {
            let running = sequences().filter_map(Sequence::running);
            let reach = running.map(|r| (r.pages(), r.submitted() + repeat as usize));
            self.resources.kv.can_grow(reach)
        };
        while repeat > 1 && !fits(repeat) {
            repeat /= 2;
        }
        repeat
    }

    /// Whether these sequences decode in one pass with rows of prompts. More of them than have the
    /// bits that each has alone have to decode, with a row each, near enough to the start.
    fn mixes(&self, decode: &[u64]) -> bool {
        let limits = &self.resources.limits;
        decode.len() > self.resources.runner.pipeline.exact_rows
            && decode.len() < limits.wants
            && decode.len() + PAGE <= limits.rows
            && !self.drafting.has_drafter()
            && self.requests.of(decode).all(|sequence| {
                sequence.drafter().is_none()
                    && sequence.appended() <= 1
                    && sequence.submitted() < MIXED_POSITIONS
            })
    }

    /// A pass of the entries whose sequences still run: one that got pages first may have lost
    /// them to one that came after it.
    pub(super) fn pass(
        &self,
        phase: Phase,
        mut entries: Vec<Entry>,
        repeat: u32,
    ) -> Option<PlannedPass> {
        entries.retain(|entry| self.requests.is_running(entry.id));
        PlannedPass::new(phase, entries, repeat)
    }
}
