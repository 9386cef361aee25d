//! Submission of passes, and what becomes of their results.

use std::time::Duration;

use pelton_graph::{Effort, Hidden, Input, Pass, Phase, Row, TableEdit, Want};
use pelton_sampling::Sampled;
use web_time::Instant;

use super::{
    drafts::accepted,
    goal::Goal,
    hidden::keep_hidden,
    resources::Resources,
    scheduler::{Entry, PlannedPass, Scheduler, SubmittedPass},
};
use crate::{Error, api::FinishReason};

/// The results of one entry of a pass.
struct Results<'a> {
    scores: Vec<Sampled>,
    sampled: Vec<Sampled>,
    /// `[wanted rows, width]`.
    values: &'a [f32],
}

impl Scheduler {
    /// Submits a pass; if that fails, its requests fail.
    pub(super) fn submit(&mut self, mut work: PlannedPass) {
        let submitted = Instant::now();
        if let Err(error) = self.save_rollbacks(&work) {
            return self.fail_pass(&work, &error);
        }
        self.run_kept_rows();
        work.leaves_hidden = self.leaves_hidden(&work);
        let mut rows: Vec<Row> = Vec::new();
        let mut efforts: Vec<Effort> = Vec::new();
        let mut wants: Vec<Want<'_>> = Vec::new();
        let mut tables: Vec<TableEdit<'_>> = Vec::new();
        let mut later = false;
        for entry in &mut work.entries {
            let Some(sequence) = self.sequences.get(&entry.id) else { continue };
            debug_assert!(
                entry.first >= sequence.pages.depth * pelton_graph::PAGE,
                "a row would write to a shared page"
            );
            let end = entry.first + entry.count;
            let before = wants.len();
            wants.extend(sequence.score_wants(entry.first, end, rows.len()));
            entry.scores = wants.len() - before;
            let wanted = sequence.wants(entry.first, end, rows.len(), entry.drafts.len());
            entry.values = wanted.iter().filter(|want| matches!(want, Want::Logits { .. })).count();
            later |= wanted.iter().any(|want| matches!(want, Want::Later { .. }));
            if entry.values > 0 {
                // one whose token is drawn on the host wants logits
                entry.samples = 0;
            }
            wants.extend(wanted);
            let slot = sequence.slot.unwrap_or(0);
            let known = end - entry.drafts.len();
            efforts.extend((entry.first..end).map(|position| sequence.effort_at(position)));
            rows.extend((entry.first..known).map(|position| sequence.row(position)));
            let drafts = (0..).zip(&entry.drafts).map(|(i, &token)| match entry.at {
                Some(at) => Input::Drafted(at + i),
                None => Input::Token(token),
            });
            let position = |position: usize| position as u32;
            let drafts = (known..end).map(position).zip(drafts);
            rows.extend(drafts.map(|(position, input)| Row { input, position, slot }));
            for (group, table) in sequence.pages.tables.iter().enumerate() {
                if let Some((first, pages)) = table.unsent() {
                    let (group, first) = (group as u32, first as u32);
                    tables.push(TableEdit { group, slot, first, pages });
                }
            }
        }
        if efforts.iter().all(|effort| effort.is_full()) {
            efforts.clear();
        }
        tracing::trace!(phase = ?work.phase, rows = rows.len(), repeat = work.repeat, "a pass");
        let pass = Pass {
            phase: work.phase,
            rows: &rows,
            tables: &tables,
            wants: &wants,
            efforts: &efforts,
            hidden: Hidden::NONE,
            keeps_hidden: self.keeps_hidden(&work),
            repeat: work.repeat,
        };
        match self.resources.runner.submit(&pass) {
            Ok(ticket) => {
                for entry in &work.entries {
                    let Some(sequence) = self.sequences.get_mut(&entry.id) else { continue };
                    sequence.pages.mark_sent();
                    sequence.submitted = entry.first + entry.count + work.repeat as usize - 1;
                    sequence.ran = Some(submitted);
                    sequence.flights += 1;
                    sequence.ahead += entry.samples * work.repeat as usize;
                    sequence.verifying = !entry.drafts.is_empty();
                    sequence.awaits_draw = later;
                }
                self.save_states(&work);
                self.flights.push_back(SubmittedPass {
                    ticket,
                    work,
                    submitted,
                    awaits_draw: later,
                });
            }
            Err(error) => self.fail_pass(&work, &error),
        }
    }

    /// Saves the recurrent states that the drafts of a pass may have to be rolled back to.
    fn save_rollbacks(&mut self, work: &PlannedPass) -> Result<(), Error> {
        for entry in work.entries.iter().filter(|entry| !entry.drafts.is_empty()) {
            if let Some(sequence) = self.sequences.get(&entry.id)
                && let (Some(slot), Some(snapshot)) = (sequence.slot, sequence.pages.rollback)
            {
                self.resources.runner.save_states(slot, snapshot)?;
            }
        }
        Ok(())
    }

    /// Saves the recurrent states of the sequences of a submitted pass that end at the border of a
    /// page, as far as there are snapshots.
    fn save_states(&mut self, work: &PlannedPass) {
        // states after drafted tokens may be rolled back
        for entry in work.entries.iter().filter(|entry| entry.drafts.is_empty()) {
            let Resources { runner, kv, .. } = &mut self.resources;
            let Some(sequence) = self.sequences.get_mut(&entry.id) else { continue };
            let (Some(slot), Some(_)) = (sequence.slot, sequence.salt) else { continue };
            let (prompt, end) = (sequence.prompt_rows(), sequence.submitted);
            // prefixes beyond the prompt are not shared
            if end > prompt && !sequence.is_uniform() {
                continue;
            }
            let Some(snapshot) = kv.snapshot_at(&mut sequence.pages, prompt, end) else {
                continue;
            };
            if let Err(error) = runner.save_states(slot, snapshot) {
                // the sequence goes on without it
                tracing::error!(%error, "a snapshot of recurrent states is not saved");
                kv.forget_snapshot(&mut sequence.pages, snapshot);
            }
        }
    }

    /// Waits for a pass and passes its results on.
    pub(super) fn take(&mut self, mut flight: SubmittedPass) {
        if flight.awaits_draw {
            self.draw_none(&mut flight);
        }
        let SubmittedPass { ticket, mut work, submitted, .. } = flight;
        let is_newest = self.flights.is_empty();
        // the results leave the executable before they are passed on, which may take longer
        let taken = self.resources.runner.take(ticket);
        let outcome = taken.map(|outputs| {
            work.know_drafts(outputs.drafted);
            if let Some(head) = &mut self.head {
                keep_hidden(head, &self.sequences, &work, &outputs, is_newest);
            }
            (outputs.samples.to_vec(), outputs.logits.to_vec())
        });
        let now = Instant::now();
        let begun = match self.last_taken {
            // the passes of the draft model came before it
            Some(last) if work.finds_drafts() => last,
            last => last.map_or(submitted, |last| last.max(submitted)),
        };
        self.last_taken = Some(now);
        match outcome {
            Ok((samples, values)) => {
                self.failures = 0;
                self.measured(&work, now - begun);
                self.succeeded(&work, samples, &values, now - begun);
                self.follow_with_head(&work);
            }
            Err(error) => self.fail_pass(&work, &error),
        }
    }

    fn measured(&mut self, work: &PlannedPass, time: Duration) {
        let rows = work.entries.iter().map(|entry| entry.count).sum::<usize>();
        match work.phase {
            Phase::Prompt | Phase::Mixed { .. } => self.budget.measured(rows, time),
            Phase::Decode if work.drafted() > 0 => {
                self.costs.add_drafts(rows, time, work.finds_drafts());
            }
            Phase::Decode if rows == work.entries.len() => {
                let seconds = time.as_secs_f64() / f64::from(work.repeat);
                self.decode_time.add(seconds);
                self.costs.add_plain(rows, seconds, work.repeat);
            }
            // generated tokens that are computed again; no sequence is encoded
            Phase::Decode | Phase::Encode => {}
        }
    }

    fn succeeded(
        &mut self,
        work: &PlannedPass,
        mut samples: Vec<Sampled>,
        mut values: &[f32],
        time: Duration,
    ) {
        let result = self.resources.plan.output_width();
        let width: usize = work.entries.iter().map(|entry| entry.scores + entry.samples).sum();
        let mut column = 0;
        self.verified(work, &samples, time);
        for entry in &work.entries {
            // `[repeat, scores and samples]` of the entry; one with scores has no repeats
            let repeats = samples.chunks_mut(width.max(1));
            let mut scores: Vec<Sampled> = repeats
                .flat_map(|all| all.iter_mut().skip(column).take(entry.scores + entry.samples))
                .map(std::mem::take)
                .collect();
            let sampled = scores.split_off(entry.scores);
            column += entry.scores + entry.samples;
            let own = values.split_off(..(entry.values * result).min(values.len()));
            let results = Results { scores, sampled, values: own.unwrap_or_default() };
            self.entry_succeeded(entry, work.repeat, results, time);
        }
    }

    fn entry_succeeded(
        &mut self,
        entry: &Entry,
        repeat: u32,
        Results { scores, mut sampled, values }: Results<'_>,
        time: Duration,
    ) {
        // a request that has ended: its results are dropped
        let Some(sequence) = self.sequences.get_mut(&entry.id) else { return };
        sequence.flights -= 1;
        sequence.ahead -= sampled.len();
        // a preempted sequence keeps its tokens, not its pages
        let current = sequence.slot.is_some();
        let mut computed = entry.first + entry.count + repeat as usize - 1;
        if !entry.drafts.is_empty() {
            sequence.verifying = false;
            // the positions above the accepted ones are run again
            sampled.truncate(accepted(&entry.drafts, &sampled) + 1);
            computed = entry.first + entry.count - entry.drafts.len() - 1 + sampled.len();
            if let Some(snapshot) = sequence.pages.rollback
                && let Some(slot) = sequence.slot
                && sampled.len() <= entry.drafts.len()
            {
                // recurrent states have seen the rejected tokens: the others are run again
                computed = entry.first;
                if let Err(error) = self.resources.runner.restore_states(snapshot, slot) {
                    return self.end(entry.id, Err(error));
                }
            }
            if current {
                sequence.submitted = computed;
            }
        }
        if current {
            sequence.computed = computed;
        }
        if entry.first < sequence.prompt {
            let done = sequence.computed.min(sequence.prompt);
            sequence.goal.handle().update(|stats| {
                stats.prefill += time;
                stats.prefilled_tokens = done;
            });
        }
        if let Err(error) = sequence.score(scores) {
            return self.end(entry.id, Err(error));
        }
        if sequence.scores.is_none() && !sequence.generates() {
            return self.end(entry.id, Ok(FinishReason::Length));
        }
        match &mut sequence.goal {
            Goal::Text { draw, output } => {
                if !values.is_empty() {
                    let position = entry.first + entry.count - 1;
                    let tokens = self.resources.limits.tokens;
                    let history = &sequence.tokens[..];
                    sampled.extend(draw.on_host(
                        values,
                        tokens,
                        history,
                        position,
                        sequence.prompt,
                    ));
                }
                if draw.constraint.is_some() && !sampled.is_empty() {
                    return self.advance_constraint(entry.id, sampled);
                }
                for sampled in sampled {
                    self.status.generated_tokens += u64::from(sampled.token.is_some());
                    sequence.tokens.extend(sampled.token);
                    let last = sequence.tokens.len() >= sequence.most;
                    if !output.push(sampled, last, self.tokenizer.as_deref()) {
                        // its output has had the last event
                        return self.end(entry.id, Ok(FinishReason::Cancelled));
                    }
                }
            }
            Goal::Values(all) => {
                if all.push(values) {
                    return self.end(entry.id, Ok(FinishReason::End));
                }
            }
        }
        if current {
            sequence.commit(&mut self.resources.kv);
            self.resources.kv.slide(&mut sequence.pages, sequence.submitted);
        }
    }

    /// Fails the requests of a pass.
    pub(super) fn fail_pass(&mut self, work: &PlannedPass, error: &Error) {
        if let Error::Weights(_) = error {
            return self.lose_file(error);
        }
        let reason = match error {
            Error::Pass(reason) => reason.clone(),
            other => other.to_string(),
        };
        for entry in &work.entries {
            self.end(entry.id, Err(Error::Pass(reason.clone())));
        }
        self.failed(&reason);
    }
}
