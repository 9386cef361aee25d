//! Results of passes, on their way to the texts and values of requests. Those of ended
//! requests are dropped.

use std::time::Duration;

use pelton_sampling::Sampled;

use super::Scheduler;
use crate::{
    Error,
    api::FinishReason,
    schedule::{
        goal::Goal,
        pass::{Entry, PlannedPass, SubmittedPass},
        sequence::Sequence,
    },
};

/// The results of one entry of a pass.
struct Results<'a> {
    scores: Vec<Sampled>,
    sampled: Vec<Sampled>,
    /// `[wanted rows, width]`.
    values: &'a [f32],
}

impl Scheduler {
    /// Waits for a pass and passes its results on.
    pub(super) fn take(&mut self, mut pass: SubmittedPass) {
        if pass.awaits_draw {
            self.draw_none(&mut pass);
        }
        let SubmittedPass { ticket, mut plan, at, .. } = pass;
        let is_newest = self.passes.is_empty();
        // the results leave the executable before they are passed on, which may take longer
        let taken = self.resources.runner.take(ticket);
        let outcome = taken.map(|outputs| {
            plan.know_drafts(outputs.drafted);
            self.drafting.keep_hidden(&self.requests, &plan, &outputs, is_newest);
            (outputs.samples.to_vec(), outputs.logits.to_vec())
        });
        let time = self.timing.take(&plan, at);
        match outcome {
            Ok((samples, values)) => {
                self.health.succeed();
                self.timing.add(&plan, time);
                self.count_drafts(&plan, &samples, time);
                self.pass_on_results(&plan, samples, &values, time);
                self.drafting.follow(&self.requests, &plan);
            }
            Err(error) => self.fail_pass(&plan, &error),
        }
    }

    /// Divides the results of a pass among its entries.
    fn pass_on_results(
        &mut self,
        plan: &PlannedPass,
        mut samples: Vec<Sampled>,
        mut values: &[f32],
        time: Duration,
    ) {
        let result = self.resources.plan.output_width();
        let width: usize = plan.entries.iter().map(|entry| entry.scores + entry.samples).sum();
        let mut column = 0;
        for entry in &plan.entries {
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
            self.advance(entry, plan.repeat, results, time);
        }
    }

    /// Advances a sequence by the results of its rows.
    fn advance(
        &mut self,
        entry: &Entry,
        repeat: u32,
        Results { scores, mut sampled, values }: Results<'_>,
        time: Duration,
    ) {
        let Some(sequence) = self.requests.get_mut(entry.id) else { return };
        sequence.take(sampled.len());
        match entry.drafts.is_empty() {
            true => {
                if let Some(running) = sequence.running_mut() {
                    running.compute(entry.end() + repeat as usize - 1);
                }
            }
            false => {
                if let Err(error) = self.verify(entry, &mut sampled) {
                    return self.end(entry.id, Err(error));
                }
            }
        }
        let Some(sequence) = self.requests.get_mut(entry.id) else { return };
        if entry.first < sequence.prompt() {
            let done = sequence.computed().min(sequence.prompt());
            sequence.goal().handle().update(|stats| {
                stats.prefill += time;
                stats.prefilled_tokens = done;
            });
        }
        if let Err(error) = sequence.score(scores) {
            return self.end(entry.id, Err(error));
        }
        if !sequence.is_scored() && !sequence.generates() {
            return self.end(entry.id, Ok(FinishReason::Length));
        }
        match sequence.goal_mut() {
            Goal::Text { .. } => self.add_tokens(entry, sampled, values),
            Goal::Values(all) => match all.push(values) {
                true => self.end(entry.id, Ok(FinishReason::End)),
                false => self.cache_pages(entry.id),
            },
        }
    }

    /// Ends a verification: only the samples of accepted drafts stay, and the one after them.
    fn verify(&mut self, entry: &Entry, sampled: &mut Vec<Sampled>) -> Result<(), Error> {
        sampled.truncate(entry.accepted(sampled) + 1);
        let is_rejected = sampled.len() <= entry.drafts.len();
        let running = self.requests.get_mut(entry.id).and_then(Sequence::running_mut);
        // a preempted sequence keeps its tokens, not its pages
        let Some(running) = running else { return Ok(()) };
        match running.pages().rollback.filter(|_| is_rejected) {
            Some(snapshot) => {
                // recurrent states have seen the rejected tokens: the others are run again
                self.resources.runner.restore_states(snapshot, running.slot())?;
                running.verify(entry.first);
            }
            // the positions above the accepted ones are run again
            None => running.verify(entry.end() - entry.drafts.len() - 1 + sampled.len()),
        }
        Ok(())
    }

    /// Adds the tokens that a pass has sampled of a text, or the one that the host
    /// draws from `values`.
    fn add_tokens(&mut self, entry: &Entry, mut sampled: Vec<Sampled>, values: &[f32]) {
        let Some(sequence) = self.requests.get_mut(entry.id) else { return };
        if !values.is_empty() {
            let tokens = self.resources.limits.tokens;
            sampled.extend(sequence.draw_on_host(values, tokens, entry.end() - 1));
        }
        match sequence.goal().is_constrained() && !sampled.is_empty() {
            true => self.advance_constraint(entry.id, sampled),
            false => self.push(entry.id, sampled, false),
        }
    }

    /// Adds tokens to a text; `ended` if its constraint ends it with them.
    pub(super) fn push(&mut self, id: u64, tokens: Vec<Sampled>, ended: bool) {
        let Some(sequence) = self.requests.get_mut(id) else { return };
        let generated = &mut self.status.generated_tokens;
        if !sequence.push(tokens, ended, self.tokenizer.as_deref(), generated) {
            // its output has had the last event
            return self.end(id, Ok(FinishReason::Cancelled));
        }
        if ended {
            return self.end(id, Ok(FinishReason::End));
        }
        self.cache_pages(id);
    }

    /// Puts the full pages of a sequence into the prefix tree, and frees those that
    /// its windows have left.
    fn cache_pages(&mut self, id: u64) {
        let Some(sequence) = self.requests.get_mut(id) else { return };
        sequence.commit(&mut self.resources.kv);
        if let Some(running) = sequence.running_mut() {
            let submitted = running.submitted();
            self.resources.kv.slide(running.pages_mut(), submitted);
        }
    }
}
