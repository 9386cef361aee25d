//! Passes over known tokens: prompts, and tokens that are computed again.
//!
//! While others decode, a pass over prompts has as many rows as fit into its time: whole pages, at
//! least one. The time lies between the targets of first tokens and of tokens
//! (`prefill_budget.rs`). Several prompts divide the rows of a pass, round robin, in chunks that
//! end at page borders.
//!
//! Where passes over prompts stream weights, short prompts run as rows of decoding passes.

use pelton_graph::{OutputKind, PAGE, Phase};

use super::Scheduler;
use crate::schedule::{
    pass::{Entry, PlannedPass, RECOMPUTE_ROWS},
    prefill_budget::{WaitingPrompt, split_rows},
};

impl Scheduler {
    /// A row of each sequence that decodes, and rows of prompts.
    pub(super) fn plan_mixed(
        &mut self,
        decode: &[u64],
        prompts: Vec<(u64, usize)>,
    ) -> Option<PlannedPass> {
        self.turns.restart_repeats();
        let mut entries = Vec::with_capacity(decode.len() + prompts.len());
        for &id in decode {
            let Some(sequence) = self.requests.get_running(id) else { continue };
            let first = sequence.submitted();
            let entry = Entry::new(id, first, 1, sequence.samples_at(first + 1));
            if self.reserve(id, first, first + 1) {
                entries.push(entry);
            }
        }
        let budget = self.timing.prompt_rows_beside(entries.len(), &self.waiting(&prompts));
        let limits = &self.resources.limits;
        let (rows, wants) = (limits.rows - entries.len(), limits.wants - entries.len());
        entries.extend(self.prompt_entries(prompts, [budget, rows], wants));
        // a sequence that got pages first may have lost them to one that came after it
        entries.retain(|entry| self.requests.is_running(entry.id));
        let decoding = entries.iter().filter(|entry| decode.contains(&entry.id)).count();
        let phase = match decoding {
            0 => Phase::Prompt,
            _ if decoding == entries.len() => Phase::Decode,
            _ => Phase::Mixed { decoding },
        };
        self.pass(phase, entries, 1)
    }

    /// The rows and the ages of prompts.
    fn waiting(&self, prompts: &[(u64, usize)]) -> Vec<WaitingPrompt> {
        let waiting = |&(id, end): &(u64, usize)| {
            let sequence = self.requests.get(id)?;
            let rows = end.saturating_sub(sequence.submitted());
            Some(WaitingPrompt { rows, age: sequence.goal().age() })
        };
        prompts.iter().filter_map(waiting).collect()
    }

    pub(super) fn plan_prompts(&mut self, prompts: Vec<(u64, usize)>) -> Option<PlannedPass> {
        // without logits nothing decodes: other sequences have their last pass under way
        let generates = self.resources.plan.output == OutputKind::Logits;
        let decodes = generates && self.requests.running_ids().len() > prompts.len();
        let limits = &self.resources.limits;
        let budget = self.timing.prompt_rows(decodes, &self.waiting(&prompts)).min(limits.rows);
        let (rows, wants) = (limits.rows, limits.wants);
        let entries = self.prompt_entries(prompts, [budget, rows], wants);
        self.pass(Phase::Prompt, entries, 1)
    }

    /// Rows of prompts, `budget` in all with up to `wants` wants. Those of a picture that see each
    /// other may exceed the budget, as far as there are `rows`.
    fn prompt_entries(
        &mut self,
        mut prompts: Vec<(u64, usize)>,
        [budget, mut rows]: [usize; 2],
        mut wants: usize,
    ) -> Vec<Entry> {
        self.turns.order_prompts(&mut prompts);
        prompts.truncate(wants);
        let span = |&(id, end): &(u64, usize)| {
            self.requests.get(id).map_or((end, end), |sequence| {
                let first = sequence.submitted();
                (first, sequence.wanted_end(first, wants).min(end))
            })
        };
        let spans: Vec<(usize, usize)> = prompts.iter().map(span).collect();
        let counts = split_rows(budget, &spans);
        let mut entries = Vec::new();
        for ((&(id, _), &(first, end)), &count) in prompts.iter().zip(&spans).zip(&counts) {
            let Some(sequence) = self.requests.get_running_mut(id) else { continue };
            if count == 0 {
                continue;
            }
            let prompt = sequence.prompt();
            let Some(running) = sequence.running_mut() else { continue };
            // a shorter chunk rather than a preemption
            let kv = &mut self.resources.kv;
            let border = kv.next_border(running.pages(), prompt, first, first + count);
            let count = border.map_or(count, |border| border - first);
            kv.slide(running.pages_mut(), first);
            let least = ((first / PAGE + 1) * PAGE).min(end) - first;
            let fits = kv.can_grow([(running.pages(), first + count)].into_iter());
            let count = if fits { count } else { least.min(count) };
            let cut = sequence.pictures().and_then(|pictures| pictures.cut(first + count));
            let count = match cut {
                Some(picture) if picture.start > first => picture.start - first,
                Some(picture) => picture.end - first,
                None => count,
            };
            if count > rows {
                // the first of the next pass
                break;
            }
            let samples = sequence.samples_at(first + count);
            let scores = sequence.score_wants(first, first + count, 0).count();
            let values = sequence.value_wants(first, first + count);
            let wanted = scores + values + usize::from(samples);
            if wanted > wants {
                // the first of the next pass
                break;
            }
            if self.reserve(id, first, first + count) {
                (rows, wants) = (rows - count, wants - wanted);
                entries.push(Entry::new(id, first, count, samples));
                self.turns.took_prompt(id);
            }
        }
        entries
    }

    /// Sequences that have to be run as a whole: the oldest, and those after it that have room.
    pub(super) fn plan_whole(&mut self, prompts: &[(u64, usize)]) -> Option<PlannedPass> {
        let (mut rows, mut wants) = (self.resources.limits.rows, self.resources.limits.wants);
        let mut entries = Vec::new();
        for &(id, end) in prompts {
            let Some(sequence) = self.requests.get_running(id) else { continue };
            let wanted = sequence.wants(0, end, 0, 0).len();
            if end <= rows && wanted <= wants && self.reserve(id, 0, end) {
                (rows, wants) = (rows - end, wants - wanted);
                entries.push(Entry::new(id, 0, end, false));
            }
        }
        self.pass(Phase::Prompt, entries, 1)
    }

    /// Known rows in the phase of decoding, the oldest sequences first: as many as have the bits
    /// that each has alone.
    pub(super) fn plan_recompute(&mut self, sequences: Vec<(u64, usize)>) -> Option<PlannedPass> {
        let limits = &self.resources.limits;
        let (mut rows, mut wants) = (limits.rows.min(limits.decode_rows()), limits.wants);
        rows = rows.min(self.resources.runner.pipeline.exact_rows.max(1));
        let mut entries = Vec::new();
        for (id, end) in sequences {
            let Some(sequence) = self.requests.get_running(id) else { continue };
            let first = sequence.submitted();
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
        self.pass(Phase::Decode, entries, 1)
    }
}
