//! Which drafted tokens the next decoding pass verifies, and what becomes of them.

use std::{collections::BTreeMap, time::Duration};

use pelton_sampling::Sampled;
use web_time::Instant;

use super::{
    goal::Goal,
    resources::Resources,
    scheduler::{Draft, PlannedPass, Scheduler, UNKNOWN},
    sequence::Sequence,
    speculate::{Ask, Choice, DRAFT_MAX, Proposal, all, choose},
};
use crate::api::{Speculation, SpeculationStats};

/// Rows of one sequence that compute tokens again in a pass: with so few, every backend's rows have
/// the bits that they had alone.
pub(super) const RECOMPUTE_ROWS: usize = 16;
/// Numbers of tokens that a draft model is considered for.
const MODEL_COUNTS: [usize; 8] = [1, 2, 3, 4, 6, 8, 11, DRAFT_MAX];

/// The drafts that a pass of some sequences is to verify.
struct DraftPlan {
    /// Drafts by lookup `[sequences]`.
    proposals: Vec<Proposal>,
    choice: Choice,
    /// Tokens that the draft model drafts of each sequence in `modelled`.
    count: usize,
    modelled: Vec<bool>,
}

/// Tokens that a draft model has drafted for a sequence.
struct Found {
    /// [`UNKNOWN`] as long as they are not known.
    tokens: Vec<u32>,
    /// The position of the first in its sequence, where they are not known.
    at: Option<u32>,
}

/// The number of drafted tokens that were sampled too, in their order.
pub(super) fn accepted(drafts: &[u32], sampled: &[Sampled]) -> usize {
    drafts.iter().zip(sampled).take_while(|(draft, sampled)| sampled.token == Some(**draft)).count()
}

impl Scheduler {
    /// Whether decoding has to wait until passes are taken: drafts continue tokens that the host
    /// knows, and after a verification the next position is not known before.
    pub(super) fn waits_for_drafts(&mut self, ids: &[u64]) -> bool {
        if ids.is_empty() || self.flights.is_empty() {
            return false;
        }
        if self.flights.iter().any(|flight| flight.work.drafted() > 0) {
            return true;
        }
        let in_flight = |id| self.sequences.get(id).is_some_and(|s| s.ahead + s.flights > 0);
        ids.iter().any(in_flight) && self.plan_drafts(ids).is_some_and(|plan| plan.choice.is_some())
    }

    /// Drafts of the sequences that decode next, for which there are pages, with the time that they
    /// took. Sequences whose constraints are not ready with them in time leave `ids`.
    pub(super) fn drafts(&mut self, ids: &mut Vec<u64>) -> (BTreeMap<u64, Draft>, Duration) {
        let plan = self.plan_drafts(ids).filter(|plan| plan.choice.is_some());
        let planned = plan.is_some();
        let mut drafts = BTreeMap::new();
        let mut time = Duration::ZERO;
        if let Some(plan) = plan {
            let begun = Instant::now();
            let finds = plan.count > 0 && self.finds_drafts(ids);
            let by_model = self.model_drafts(ids, &plan, finds);
            if plan.count > 0 && !finds {
                time = begun.elapsed();
                let sequences = plan.modelled.iter().filter(|&&by_model| by_model).count();
                let drafted = by_model.values().filter(|found| !found.tokens.is_empty()).count();
                // not where it has run a prompt
                if drafted == sequences {
                    self.costs.add_model(sequences, time.as_secs_f64() / plan.count as f64);
                }
            }
            let each = ids.iter().zip(plan.proposals).zip(plan.choice.counts).zip(plan.modelled);
            for (((&id, proposal), count), is_modelled) in each {
                let (found, at) = match by_model.get(&id) {
                    Some(found) => (&found.tokens, found.at),
                    None if is_modelled => continue,
                    None => (&proposal.tokens, None),
                };
                let tokens = found[..found.len().min(count)].to_vec();
                if !tokens.is_empty() {
                    drafts.insert(id, Draft { tokens, most: count, by_model: is_modelled, at });
                }
            }
            self.prepare_rollbacks(&mut drafts);
            let late = self.allow_drafts(&mut drafts);
            ids.retain(|id| !late.contains(id));
            // passes of a draft model that were not awaited are part of the time of the pass
            time = if finds { Duration::ZERO } else { begun.elapsed() };
        }
        // drafts never cost another sequence its pages
        let reach = ids.iter().filter_map(|id| {
            let sequence = self.sequences.get(id)?;
            let drafted = drafts.get(id).map_or(0, |draft| draft.tokens.len());
            let appended = sequence.appended().max(1);
            Some((&sequence.pages, sequence.submitted + appended + drafted))
        });
        if !drafts.is_empty() && !self.resources.kv.can_grow(reach) {
            drafts.clear();
        }
        if !drafts.is_empty() || (planned && self.head.is_some()) {
            // repeats begin anew after it; without the hidden states of each pass a head has no drafts
            self.repeated.clear();
        }
        (drafts, time)
    }

    /// Takes snapshots of recurrent states for the sequences that have drafts; without one a sequence
    /// has none.
    fn prepare_rollbacks(&mut self, drafts: &mut BTreeMap<u64, Draft>) {
        let Resources { kv, .. } = &mut self.resources;
        if !kv.is_recurrent() {
            return;
        }
        drafts.retain(|id, _| {
            let sequence = self.sequences.get_mut(id);
            sequence.is_some_and(|s| kv.rollback_snapshot(&mut s.pages).is_some())
        });
    }

    /// The drafts with the greatest expected gain; `None` without any source.
    fn plan_drafts(&mut self, ids: &[u64]) -> Option<DraftPlan> {
        let limits = &self.resources.limits;
        let pipeline = &self.resources.runner.pipeline;
        // rows of tokens that constraints have appended come on top of one a sequence
        let sequences = || ids.iter().filter_map(|id| self.sequences.get(id));
        let appended: usize = sequences().map(|s| s.appended().saturating_sub(1)).sum();
        let rows = limits.rows.min(limits.wants).min(pipeline.exact_rows).saturating_sub(appended);
        if rows <= ids.len() {
            return None;
        }
        let (mut proposals, mut always, mut any) = (Vec::new(), false, false);
        let mut room = Vec::new();
        for id in ids {
            let mut proposal = Proposal::default();
            let mut most = 0;
            let known = self.sequences.get(id).map_or(0, Sequence::appended);
            if let Some(sequence) = self.sequences.get_mut(id)
                && let Some(drafter) = &mut sequence.drafter
            {
                drafter.observe(&sequence.tokens);
                any = true;
                always |= drafter.speculation == Speculation::Always;
                // the row of the newest token samples one too
                most = sequence.most.saturating_sub(sequence.tokens.len() + 1).min(DRAFT_MAX);
                // those are to be run first
                most = if known > RECOMPUTE_ROWS { 0 } else { most };
                proposal = drafter.propose(&sequence.tokens, most);
            }
            room.push(most);
            proposals.push(proposal);
        }
        if !any {
            return None;
        }
        // without this time there is nothing to compare with
        let plain = self.costs.plain(ids.len());
        let plain = if always { Some(plain.unwrap_or(0.0)) } else { plain }?;
        let model = (rows, appended, plain, always);
        let mut best = self.choose_with_model(ids, &proposals, &room, model, 0);
        if self.has_draft_model() {
            for count in MODEL_COUNTS {
                let other = self.choose_with_model(ids, &proposals, &room, model, count);
                let better = other.0.gain > best.0.gain || (always && count <= 4);
                if other.0.is_some() && better {
                    best = other;
                }
            }
        }
        let (choice, modelled, count) = best;
        let model = self.costs.model(ids.len());
        tracing::trace!(?plain, model, gain = choice.gain, counts = ?choice.counts, count, "drafts");
        Some(DraftPlan { proposals, choice, count, modelled })
    }

    /// The best choice where a draft model drafts `count` tokens of the sequences of which it is
    /// expected to have more accepted than there are by lookup.
    fn choose_with_model(
        &self,
        ids: &[u64],
        proposals: &[Proposal],
        room: &[usize],
        (rows, appended, plain, always): (usize, usize, f64, bool),
        count: usize,
    ) -> (Choice, Vec<bool>, usize) {
        let others = self.model_rate.get();
        let mut by_model: Vec<Option<Vec<f64>>> = Vec::with_capacity(ids.len());
        for ((id, proposal), &room) in ids.iter().zip(proposals).zip(room) {
            let drafter = self.sequences.get(id).and_then(|sequence| sequence.drafter.as_ref());
            let chances = drafter.map(|drafter| drafter.model_chances(count.min(room), others));
            by_model.push(chances.filter(|chances| {
                !chances.is_empty() && chances.iter().sum::<f64>() > proposal.expected()
            }));
        }
        let modelled: Vec<bool> = by_model.iter().map(Option::is_some).collect();
        let chances: Vec<&[f64]> = by_model
            .iter()
            .zip(proposals)
            .map(|(model, proposal)| model.as_deref().unwrap_or(&proposal.chances))
            .collect();
        let sequences = modelled.iter().filter(|&&by_model| by_model).count();
        if always {
            return (all(&chances, rows), modelled, if sequences > 0 { count } else { 0 });
        }
        let finds = sequences > 0 && self.finds_drafts(ids);
        let drafting = match sequences {
            0 => 0.0,
            _ if finds => 0.0,
            _ => count as f64 * self.costs.model(sequences),
        };
        let cost = |rows| {
            let cost = self.costs.drafts(rows + appended, ids.len(), plain, finds);
            // where recurrent states are rolled back, accepted tokens are run again
            let again = if self.resources.kv.is_recurrent() { cost - plain } else { 0.0 };
            cost + again + drafting
        };
        let rows = rows.min(self.costs.rows_to_try(ids.len(), finds));
        let count = if sequences > 0 { count } else { 0 };
        (choose(&chances, rows, plain, cost), modelled, count)
    }

    /// Whether there is a draft model, which may be the head of its file.
    fn has_draft_model(&self) -> bool {
        self.draft_model.is_some() || self.head.is_some()
    }

    /// Whether a pass of these sequences finds the tokens of the draft model on the device. A constraint has
    /// to see them before.
    fn finds_drafts(&self, ids: &[u64]) -> bool {
        let constrained = |id| {
            let goal = self.sequences.get(id).map(|sequence| &sequence.goal);
            matches!(goal, Some(Goal::Text { draw, .. }) if draw.constraint.is_some())
        };
        self.is_paired && !ids.iter().any(constrained)
    }

    /// The draft model's tokens of the sequences that it is to draft for. They are unknown if the pass that
    /// verifies them `finds` them.
    fn model_drafts(&mut self, ids: &[u64], plan: &DraftPlan, finds: bool) -> BTreeMap<u64, Found> {
        if plan.count == 0 {
            return BTreeMap::new();
        }
        let mut asks = Vec::new();
        for (&id, _) in ids.iter().zip(&plan.modelled).filter(|(_, by_model)| **by_model) {
            if let Some(sequence) = self.sequences.get(&id)
                && let (Some(slot), Goal::Text { draw, .. }) = (sequence.slot, &sequence.goal)
            {
                let (tokens, prompt) = (sequence.tokens.as_slice(), sequence.prompt);
                asks.push(Ask { id, slot, tokens, prompt, draw });
            }
        }
        let begun = match (&mut self.draft_model, &mut self.head) {
            (Some(model), _) => model.begin(&asks, plan.count),
            (None, Some(head)) => head.begin(&asks, plan.count),
            (None, None) => return BTreeMap::new(),
        };
        let found = begun.and_then(|places| {
            if finds {
                let each = asks.iter().zip(places).filter(|(_, at)| at.is_some());
                let tokens = || vec![UNKNOWN; plan.count];
                return Ok(each
                    .map(|(ask, at)| (ask.id, Found { tokens: tokens(), at }))
                    .collect());
            }
            let drafts = match (&mut self.draft_model, &mut self.head) {
                (Some(model), _) => model.finish()?,
                (None, Some(head)) => head.finish()?,
                (None, None) => Vec::new(),
            };
            let known = |(id, tokens)| (id, Found { tokens, at: None });
            Ok(drafts.into_iter().map(known).collect())
        });
        match found {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(%error, "the draft model or head failed, and is used no more");
                (self.draft_model, self.head) = (None, None);
                BTreeMap::new()
            }
        }
    }

    /// Counts the drafts of a pass that were accepted.
    pub(super) fn verified(&mut self, work: &PlannedPass, samples: &[Sampled], time: Duration) {
        if work.phase != pelton_graph::Phase::Decode {
            return;
        }
        if work.drafted() == 0 {
            if self.has_draft_model() {
                for entry in &work.entries {
                    let sequence = self.sequences.get_mut(&entry.id);
                    if let Some(drafter) = sequence.and_then(|s| s.drafter.as_mut()) {
                        drafter.model_rate.observe_no_model();
                    }
                }
                self.model_rate.observe_no_model();
            }
            return;
        }
        let sequences = work.entries.len();
        let plain = Duration::from_secs_f64(self.costs.known_plain(sequences).unwrap_or(0.0));
        let time = time + work.drafting;
        let (mut column, mut all) = (0, 0);
        let mut sum = SpeculationStats { time, ..SpeculationStats::default() };
        for entry in &work.entries {
            let sampled = &samples[column.min(samples.len())..];
            column += entry.samples;
            let accepted = accepted(&entry.drafts, sampled);
            all += accepted + 1;
            let own = SpeculationStats {
                drafted: entry.drafts.len() as u64,
                accepted: accepted as u64,
                time,
                plain_time: plain * (accepted as u32 + 1),
            };
            sum.drafted += own.drafted;
            sum.accepted += own.accepted;
            let Some(sequence) = self.sequences.get_mut(&entry.id) else { continue };
            sequence.goal.handle().update(|stats| stats.speculation.add(&own));
            if let Some(drafter) = &mut sequence.drafter {
                for rate in [&mut drafter.model_rate, &mut self.model_rate] {
                    match entry.by_model {
                        true => rate.observe_model(entry.drafts.len(), accepted),
                        false => rate.observe_no_model(),
                    }
                }
            }
        }
        sum.plain_time = plain * all as u32 / sequences.max(1) as u32;
        self.status.speculation.add(&sum);
    }
}
