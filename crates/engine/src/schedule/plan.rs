//! The plan of the next pass.
//!
//! All decoding sequences share one decoding pass with one row each; over several devices each of as many cohorts has its
//! own. Passes over prompts alternate
//! with decoding passes, so a decoding sequence waits for at most one of them. Where more sequences decode than
//! `Pipeline::exact_rows`, their rows are in the passes over prompts, which read the weights once for both.
//!
//! Where passes over prompts stream weights, short prompts run as rows of decoding passes.
//!
//! While others decode, a pass over prompts has as many rows as fit into its time: whole pages, at
//! least one. The time lies between the targets of first tokens and of tokens (`prefill_budget.rs`). Several
//! prompts divide the rows of a pass, round robin, in chunks that end at page borders.
//!
//! While the same sequences decode and nothing else is waiting, submissions grow from 1 to 2, 4 and
//! so on up to `Pipeline::repeat` passes, as long as a submission takes at most 5 ms. This saves
//! the cost of submission and readback, and bounds the wait of a new request. Tokens that were
//! computed past the end of a text are dropped with their positions.

use std::time::Duration;

use pelton_graph::{OutputKind, PAGE, Phase};

use super::{
    drafts::RECOMPUTE_ROWS,
    prefill_budget::{WaitingPrompt, split_rows},
    scheduler::{Entry, PlannedPass, Scheduler, SubmittedPass, Turn, WAIT},
    sequence::Next,
};

/// Positions up to which a row decodes in a pass with prompts: their kernels do not split its positions, which
/// takes longer than a pass of its own far from the start.
const MIXED_POSITIONS: usize = 8192;
/// Seconds that one submission of decoding passes may take: one runs and one waits when a request comes.
const SUBMISSION: f64 = WAIT / 2.0;

impl Scheduler {
    /// The next pass, with pages for all of its rows. Passes over prompts, and those that compute
    /// a preempted sequence again, take turns with decoding passes, so that a sequence that
    /// decodes never waits for more than one of them.
    pub(super) fn plan(&mut self) -> Option<PlannedPass> {
        // a plan comes to nothing where its sequences are preempted: then less is left to plan
        for _ in 0..=2 * self.running.len() + 2 {
            let (agree, late) = (self.resources.runner.pipeline.phases_agree, self.draws_late());
            let (mut decode, mut prompts, mut recompute) = (Vec::new(), Vec::new(), Vec::new());
            for (&id, sequence) in
                self.running.iter().filter_map(|id| self.sequences.get_key_value(id))
            {
                match sequence.next(agree, late) {
                    Next::Nothing => {}
                    Next::Prompt { end } => prompts.push((id, end)),
                    Next::Recompute { end } => recompute.push((id, end)),
                    Next::Decode => decode.push(id),
                }
            }
            self.keep_cohort(&mut decode);
            if self.waits_for_drafts(&decode) {
                decode.clear();
            }
            let fill = match (prompts.is_empty(), recompute.is_empty()) {
                (true, true) => None,
                (false, true) => Some(Turn::Prompt),
                (true, false) => Some(Turn::Recompute),
                (false, false) if self.fill == Turn::Prompt => Some(Turn::Recompute),
                (false, false) => Some(Turn::Prompt),
            };
            let mixes = fill == Some(Turn::Prompt) && self.mixes(&decode);
            let turn = match fill {
                Some(Turn::Prompt) if mixes => Turn::Prompt,
                Some(fill) if decode.is_empty() || self.turn == Turn::Decode => fill,
                _ if decode.is_empty() => return None,
                _ => Turn::Decode,
            };
            let work = match turn {
                Turn::Decode => self.plan_decode(decode, fill.is_none()),
                Turn::Prompt if self.resources.plan.whole_sequences => self.plan_whole(&prompts),
                Turn::Prompt if mixes => self.plan_mixed(&decode, prompts),
                Turn::Prompt => self.plan_prompts(prompts),
                Turn::Recompute => self.plan_recompute(recompute),
            };
            self.turn = turn;
            if turn != Turn::Decode {
                self.fill = turn;
            }
            if work.is_some() {
                return work;
            }
        }
        None
    }

    fn plan_decode(&mut self, mut ids: Vec<u64>, alone: bool) -> Option<PlannedPass> {
        let limits = &self.resources.limits;
        let rows = limits.rows.min(self.resources.runner.pipeline.exact_rows);
        ids.truncate(limits.rows.min(limits.wants));
        let (mut drafts, drafting) = self.drafts(&mut ids);
        // repeats run one row of each sequence
        let appended = |id: &u64| self.sequences.get(id).map_or(1, |s| s.appended().max(1));
        let single = drafts.is_empty() && ids.iter().all(|id| appended(id) == 1);
        let repeat = if single { self.repeat_of(&ids, alone) } else { 1 };
        let appended = |id: &u64| self.sequences.get(id).map_or(1, |s| s.appended().max(1));
        let each = drafts.iter().map(|(id, draft)| draft.tokens.len() + appended(id) - 1);
        let drafted: usize = each.sum();
        let mut spare = rows.saturating_sub(ids.len() + drafted);
        let mut entries = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(sequence) = self.running.get(&id).and_then(|id| self.sequences.get(id)) else {
                continue;
            };
            let first = sequence.submitted;
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
            if self.reserve(id, first, first + entry.count - 1 + repeat as usize) {
                entries.push(entry);
            }
        }
        Some(PlannedPass { drafting, ..self.work(Phase::Decode, entries, repeat)? })
    }

    /// Keeps those whose turn it is. Over several devices the others have passes of their own in flight, so that no
    /// device waits for the one after it.
    fn keep_cohort(&self, ids: &mut Vec<u64>) {
        let stages = self.resources.runner.pipeline.stages;
        if stages < 2 {
            return;
        }
        // a sequence of one of the last passes would wait for its token on the way
        let decoding =
            self.flights.iter().rev().filter(|flight| flight.work.phase == Phase::Decode);
        let recent: Vec<&SubmittedPass> = decoding.take(stages - 1).collect();
        let last = recent.len();
        let waits = |id| {
            let mut entries = recent.iter().flat_map(|flight| &flight.work.entries);
            entries.any(|entry| entry.id == id)
        };
        // each has its turn, whatever the passes over prompts between
        let ran = |id| self.sequences.get(&id).and_then(|sequence| sequence.ran);
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
        let most = self.resources.runner.pipeline.repeat.clamp(1, pelton_graph::MAX_REPEAT);
        if !alone || !ids.iter().all(|id| self.repeated.contains(id)) {
            self.repeat = 0;
        }
        self.repeated.clear();
        self.repeated.extend(ids);
        let timely = match self.decode_time.get() {
            // a cast from a float saturates
            Some(seconds) => (SUBMISSION / seconds.max(1e-9)) as u32,
            None => 1,
        };
        self.repeat = match alone {
            true => (2 * self.repeat).clamp(1, most).min(timely.max(1)),
            false => 1,
        };
        let late = self.draws_late();
        let sequences = || ids.iter().filter_map(|id| self.sequences.get(id));
        let decodable = sequences().map(|sequence| sequence.decodable(late)).min().unwrap_or(1);
        let mut repeat = self.repeat.min(u32::try_from(decodable).unwrap_or(u32::MAX)).max(1);
        let fits = |repeat: u32| {
            let reach = sequences().map(|s| (&s.pages, s.submitted + repeat as usize));
            self.resources.kv.can_grow(reach)
        };
        while repeat > 1 && !fits(repeat) {
            repeat /= 2;
        }
        repeat
    }

    /// Whether these sequences decode in one pass with rows of prompts: more of them than have the bits that
    /// each has alone, with a row each, near enough to the start.
    fn mixes(&self, decode: &[u64]) -> bool {
        let sequences = || decode.iter().filter_map(|id| self.sequences.get(id));
        let limits = &self.resources.limits;
        decode.len() > self.resources.runner.pipeline.exact_rows
            && decode.len() < limits.wants
            && decode.len() + PAGE <= limits.rows
            && self.head.is_none()
            && self.draft_model.is_none()
            && sequences().all(|sequence| {
                sequence.drafter.is_none()
                    && sequence.appended() <= 1
                    && sequence.submitted < MIXED_POSITIONS
            })
    }

    /// A row of each sequence that decodes, and rows of prompts.
    fn plan_mixed(&mut self, decode: &[u64], prompts: Vec<(u64, usize)>) -> Option<PlannedPass> {
        self.repeat = 0;
        let mut entries = Vec::with_capacity(decode.len() + prompts.len());
        for &id in decode {
            let Some(sequence) = self.running.get(&id).and_then(|id| self.sequences.get(id)) else {
                continue;
            };
            let first = sequence.submitted;
            let entry = Entry::new(id, first, 1, sequence.samples_at(first + 1));
            if self.reserve(id, first, first + 1) {
                entries.push(entry);
            }
        }
        let budget = self.budget.rows_beside(entries.len(), &self.waiting(&prompts));
        let wants = self.resources.limits.wants - entries.len();
        entries.extend(self.prompt_entries(prompts, budget, wants));
        // a sequence that got pages first may have lost them to one that came after it
        let entries: Vec<Entry> =
            entries.into_iter().filter(|entry| self.running.contains(&entry.id)).collect();
        let decoding = entries.iter().filter(|entry| decode.contains(&entry.id)).count();
        let phase = match decoding {
            0 => Phase::Prompt,
            _ if decoding == entries.len() => Phase::Decode,
            _ => Phase::Mixed { decoding },
        };
        self.work(phase, entries, 1)
    }

    /// The rows and the ages of prompts.
    fn waiting(&self, prompts: &[(u64, usize)]) -> Vec<WaitingPrompt> {
        let waiting = |&(id, end): &(u64, usize)| {
            let sequence = self.sequences.get(&id)?;
            let rows = end.saturating_sub(sequence.submitted);
            Some(WaitingPrompt { rows, age: sequence.goal.age() })
        };
        prompts.iter().filter_map(waiting).collect()
    }

    fn plan_prompts(&mut self, prompts: Vec<(u64, usize)>) -> Option<PlannedPass> {
        // without logits nothing decodes: other sequences have their last pass under way
        let generates = self.resources.plan.output == OutputKind::Logits;
        let decoding = generates && self.running.len() > prompts.len();
        let decode = decoding.then(|| self.decode_time.get().unwrap_or(0.0));
        let limits = &self.resources.limits;
        let budget = self.budget.rows(decode, &self.waiting(&prompts)).min(limits.rows);
        let entries = self.prompt_entries(prompts, budget, limits.wants);
        self.work(Phase::Prompt, entries, 1)
    }

    /// Rows of prompts, `budget` in all with up to `wants` wants.
    fn prompt_entries(
        &mut self,
        mut prompts: Vec<(u64, usize)>,
        budget: usize,
        mut wants: usize,
    ) -> Vec<Entry> {
        // round robin: those after the one that was served last come first
        let split = prompts.partition_point(|&(id, _)| id <= self.served);
        prompts.rotate_left(split);
        prompts.truncate(wants);
        let span = |&(id, end): &(u64, usize)| {
            self.sequences.get(&id).map_or((end, end), |sequence| {
                let first = sequence.submitted;
                (first, sequence.wanted_end(first, wants).min(end))
            })
        };
        let spans: Vec<(usize, usize)> = prompts.iter().map(span).collect();
        let counts = split_rows(budget, &spans);
        let mut entries = Vec::new();
        for ((&(id, _), &(first, end)), &count) in prompts.iter().zip(&spans).zip(&counts) {
            let Some(sequence) = self.running.get(&id).and_then(|id| self.sequences.get_mut(id))
            else {
                continue;
            };
            if count == 0 {
                continue;
            }
            // a shorter chunk rather than a preemption
            let kv = &mut self.resources.kv;
            let border = kv.next_border(&sequence.pages, sequence.prompt, first, first + count);
            let count = border.map_or(count, |border| border - first);
            kv.slide(&mut sequence.pages, first);
            let least = ((first / PAGE + 1) * PAGE).min(end) - first;
            let fits = kv.can_grow([(&sequence.pages, first + count)].into_iter());
            let count = if fits { count } else { least.min(count) };
            let samples = sequence.samples_at(first + count);
            let scores = sequence.score_wants(first, first + count, 0).count();
            let values = sequence.value_wants(first, first + count);
            let wanted = scores + values + usize::from(samples);
            if wanted > wants {
                // the first of the next pass
                break;
            }
            if self.reserve(id, first, first + count) {
                wants -= wanted;
                entries.push(Entry::new(id, first, count, samples));
                self.served = id;
            }
        }
        entries
    }

    /// Sequences that have to be run as a whole: the oldest, and those after it that have room.
    fn plan_whole(&mut self, prompts: &[(u64, usize)]) -> Option<PlannedPass> {
        let (mut rows, mut wants) = (self.resources.limits.rows, self.resources.limits.wants);
        let mut entries = Vec::new();
        for &(id, end) in prompts {
            let Some(sequence) = self.running.get(&id).and_then(|id| self.sequences.get(id)) else {
                continue;
            };
            let wanted = sequence.wants(0, end, 0, 0).len();
            if end <= rows && wanted <= wants && self.reserve(id, 0, end) {
                (rows, wants) = (rows - end, wants - wanted);
                entries.push(Entry::new(id, 0, end, false));
            }
        }
        self.work(Phase::Prompt, entries, 1)
    }

    /// Known rows in the phase of decoding, the oldest sequences first: as many as have the bits that each has alone.
    fn plan_recompute(&mut self, sequences: Vec<(u64, usize)>) -> Option<PlannedPass> {
        let limits = &self.resources.limits;
        let (mut rows, mut wants) = (limits.rows.min(limits.decode_rows()), limits.wants);
        rows = rows.min(self.resources.runner.pipeline.exact_rows.max(1));
        let mut entries = Vec::new();
        for (id, end) in sequences {
            let Some(sequence) = self.running.get(&id).and_then(|id| self.sequences.get(id)) else {
                continue;
            };
            let first = sequence.submitted;
            let count = (end - first).min(RECOMPUTE_ROWS).min(rows);
            let samples = sequence.samples_at(first + count);
            if count == 0 || wants < usize::from(samples) {
                break;
            }
            if self.reserve(id, first, first + count) {
                rows -= count;
                wants -= usize::from(samples);
                entries.push(Entry::new(id, first, count, samples));
            }
        }
        self.work(Phase::Decode, entries, 1)
    }

    /// A pass of the entries whose sequences still run: one that got pages first may have lost
    /// them to one that came after it.
    fn work(&self, phase: Phase, mut entries: Vec<Entry>, repeat: u32) -> Option<PlannedPass> {
        entries.retain(|entry| self.running.contains(&entry.id));
        let (drafting, leaves_hidden) = (Duration::ZERO, false);
        let work = PlannedPass { phase, entries, repeat, drafting, leaves_hidden };
        (!work.entries.is_empty()).then_some(work)
    }
}
