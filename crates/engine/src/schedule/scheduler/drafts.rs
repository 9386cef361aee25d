//! Which drafted tokens the next decoding pass verifies, and what becomes of them.

use std::{collections::BTreeMap, time::Duration};

use pelton_graph::Phase;
use pelton_sampling::Sampled;
use web_time::Instant;

use super::Scheduler;
use crate::{
    api::SpeculationStats,
    schedule::{
        drafting::Found,
        goal::Goal,
        pass::{Draft, PlannedPass},
        resources::Resources,
        sequence::{InFlight, Sequence},
        speculate::{Ask, Choice, DRAFT_MAX, LookupDrafter, Proposal, all, choose},
    },
};

/// Numbers of tokens that a drafter is considered for.
const DRAFTER_COUNTS: [usize; 8] = [1, 2, 3, 4, 6, 8, 11, DRAFT_MAX];

/// The drafts that a pass of some sequences is to verify.
struct DraftPlan {
    /// Drafts by lookup `[sequences]`.
    proposals: Vec<Proposal>,
    numbers: Numbers,
}

/// How many tokens are drafted.
struct Numbers {
    choice: Choice,
    /// Tokens that the drafter drafts of each sequence in `by_model`.
    count: usize,
    /// Whether the drafter drafts for a sequence, and not the lookup `[sequences]`.
    by_model: Vec<bool>,
}

/// Drafts of some sequences, to choose from.
struct Candidates {
    /// Drafts by lookup `[sequences]`.
    proposals: Vec<Proposal>,
    /// The most drafted tokens of each sequence `[sequences]`.
    room: Vec<usize>,
    /// The most rows of the pass, without the appended ones.
    rows: usize,
    /// Rows of tokens that constraints have appended, on top of one of each sequence.
    appended: usize,
    /// Seconds of a pass without drafts.
    plain: f64,
    /// Whether drafts are verified whatever the gain.
    always: bool,
}

impl Scheduler {
    /// Whether decoding has to wait until passes are taken: drafts continue tokens that the host
    /// knows, and after a verification the next position is not known before.
    pub(super) fn waits_for_drafts(&mut self, ids: &[u64]) -> bool {
        if ids.is_empty() || self.passes.is_empty() {
            return false;
        }
        if self.passes.iter().any(|pass| pass.plan.drafted() > 0) {
            return true;
        }
        let is_in_flight = |sequence: &Sequence| sequence.in_flight() != InFlight::default();
        self.requests.of(ids).any(is_in_flight) && self.plan_drafts(ids).is_some()
    }

    /// Drafts of the sequences that decode next, for which there are pages, with the time that they
    /// took. Sequences whose constraints are not ready with them in time leave `ids`.
    pub(super) fn drafts(&mut self, ids: &mut Vec<u64>) -> (BTreeMap<u64, Draft>, Duration) {
        let Some(plan) = self.plan_drafts(ids) else { return (BTreeMap::new(), Duration::ZERO) };
        let begun = Instant::now();
        let finds = plan.numbers.count > 0 && self.finds_drafts(ids);
        let by_model = self.model_drafts(ids, &plan.numbers, finds);
        if plan.numbers.count > 0 && !finds {
            self.measure_drafter(&plan.numbers, &by_model, begun.elapsed());
        }
        let mut drafts = joined(ids, plan, &by_model);
        self.prepare_rollbacks(&mut drafts);
        let late = self.allow_drafts(&mut drafts);
        ids.retain(|id| !late.contains(id));
        // passes of a drafter that were not awaited are part of the time of the pass
        let time = if finds { Duration::ZERO } else { begun.elapsed() };
        if !drafts.is_empty() && !self.has_pages_for_drafts(ids, &drafts) {
            drafts.clear();
        }
        if !drafts.is_empty() || self.drafting.reads_hidden() {
            // repeats begin anew after it; without the hidden states of each pass a head has no
            // drafts
            self.turns.forget_repeated();
        }
        (drafts, time)
    }

    /// Adds the time that a drafter took, unless it has run a prompt.
    fn measure_drafter(
        &mut self,
        numbers: &Numbers,
        by_model: &BTreeMap<u64, Found>,
        time: Duration,
    ) {
        let sequences = numbers.by_model.iter().filter(|&&by_model| by_model).count();
        let drafted = by_model.values().filter(|found| !found.tokens.is_empty()).count();
        if drafted == sequences {
            self.timing.add_drafter(sequences, time.as_secs_f64() / numbers.count as f64);
        }
    }

    /// Whether there are pages for drafts: they never cost another sequence its pages.
    fn has_pages_for_drafts(&self, ids: &[u64], drafts: &BTreeMap<u64, Draft>) -> bool {
        let reach = ids.iter().filter_map(|id| {
            let sequence = self.requests.get(*id)?;
            let running = sequence.running()?;
            let drafted = drafts.get(id).map_or(0, |draft| draft.tokens.len());
            let appended = sequence.appended().max(1);
            Some((running.pages(), running.submitted() + appended + drafted))
        });
        self.resources.kv.can_grow(reach)
    }

    /// Takes snapshots of recurrent states for the sequences that have drafts; without one
    /// a sequence has none.
    fn prepare_rollbacks(&mut self, drafts: &mut BTreeMap<u64, Draft>) {
        let Resources { kv, .. } = &mut self.resources;
        if !kv.is_recurrent() {
            return;
        }
        drafts.retain(|&id, _| {
            let running = self.requests.get_mut(id).and_then(Sequence::running_mut);
            running.is_some_and(|running| kv.rollback_snapshot(running.pages_mut()).is_some())
        });
    }

    /// The drafts with the greatest expected gain; `None` if none pays.
    fn plan_drafts(&mut self, ids: &[u64]) -> Option<DraftPlan> {
        let candidates = self.draft_candidates(ids)?;
        let mut best = self.choose_drafts(ids, &candidates, 0);
        if self.drafting.has_drafter() {
            for count in DRAFTER_COUNTS {
                let other = self.choose_drafts(ids, &candidates, count);
                let is_better =
                    other.choice.gain > best.choice.gain || (candidates.always && count <= 4);
                if other.choice.is_some() && is_better {
                    best = other;
                }
            }
        }
        let Numbers { choice: Choice { counts, gain }, count, .. } = &best;
        let (plain, model) = (candidates.plain, self.timing.costs().model(ids.len()));
        tracing::trace!(plain, model, gain, ?counts, count, "drafts");
        let is_some = best.choice.is_some();
        is_some.then_some(DraftPlan { proposals: candidates.proposals, numbers: best })
    }

    /// Drafts of some sequences, to choose from; `None` if there is no choice.
    fn draft_candidates(&mut self, ids: &[u64]) -> Option<Candidates> {
        let limits = &self.resources.limits;
        let most = limits.rows.min(limits.wants).min(self.resources.runner.pipeline.exact_rows);
        let sequences = self.requests.of(ids);
        let appended: usize = sequences.map(|s| s.appended().saturating_sub(1)).sum();
        let rows = most.saturating_sub(appended);
        if rows <= ids.len() {
            return None;
        }
        let (mut proposals, mut room) = (Vec::new(), Vec::new());
        let (mut always, mut any) = (false, false);
        for &id in ids {
            let sequence = self.requests.get_mut(id);
            let proposed = sequence.and_then(|sequence| {
                let proposed = sequence.propose()?;
                always |= sequence.drafter().is_some_and(LookupDrafter::is_always);
                Some(proposed)
            });
            any |= proposed.is_some();
            let (most, proposal) = proposed.unwrap_or_default();
            room.push(most);
            proposals.push(proposal);
        }
        if !any {
            return None;
        }
        // without this time there is nothing to compare with
        let plain = self.timing.costs().plain(ids.len());
        let plain = if always { Some(plain.unwrap_or(0.0)) } else { plain }?;
        Some(Candidates { proposals, room, rows, appended, plain, always })
    }

    /// The best numbers of drafted tokens. The drafter drafts `count` tokens of each sequence for
    /// which it promises more accepted tokens than the lookup.
    fn choose_drafts(&self, ids: &[u64], candidates: &Candidates, count: usize) -> Numbers {
        let Candidates { proposals, room, rows, appended, plain, always } = candidates;
        let others = self.drafting.rate();
        let mut of_model: Vec<Option<Vec<f64>>> = Vec::with_capacity(ids.len());
        for ((&id, proposal), &room) in ids.iter().zip(proposals).zip(room) {
            let drafter = self.requests.get(id).and_then(Sequence::drafter);
            let chances = drafter.map(|drafter| drafter.model_chances(count.min(room), others));
            of_model.push(chances.filter(|chances| {
                !chances.is_empty() && chances.iter().sum::<f64>() > proposal.expected()
            }));
        }
        let by_model: Vec<bool> = of_model.iter().map(Option::is_some).collect();
        let chances: Vec<&[f64]> = of_model
            .iter()
            .zip(proposals)
            .map(|(model, proposal)| model.as_deref().unwrap_or(&proposal.chances))
            .collect();
        let sequences = by_model.iter().filter(|&&by_model| by_model).count();
        let count = if sequences > 0 { count } else { 0 };
        if *always {
            return Numbers { choice: all(&chances, *rows), count, by_model };
        }
        let costs = self.timing.costs();
        let finds = sequences > 0 && self.finds_drafts(ids);
        let drafting = match sequences {
            0 => 0.0,
            _ if finds => 0.0,
            _ => count as f64 * costs.model(sequences),
        };
        let cost = |rows: usize| {
            let cost = costs.drafts(rows + appended, ids.len(), *plain, finds);
            // where recurrent states are rolled back, accepted tokens are run again
            let again = if self.resources.kv.is_recurrent() { cost - plain } else { 0.0 };
            cost + again + drafting
        };
        let rows = (*rows).min(costs.rows_to_try(ids.len(), finds));
        Numbers { choice: choose(&chances, rows, *plain, cost), count, by_model }
    }

    /// Whether a pass of these sequences finds the drafter's tokens on the device. A constraint has
    /// to see them before.
    fn finds_drafts(&self, ids: &[u64]) -> bool {
        let mut sequences = self.requests.of(ids);
        self.drafting.is_paired() && !sequences.any(|sequence| sequence.goal().is_constrained())
    }

    /// The drafter's tokens of the sequences that it is to draft for. They are unknown if the pass
    /// that verifies them `finds` them.
    fn model_drafts(
        &mut self,
        ids: &[u64],
        numbers: &Numbers,
        finds: bool,
    ) -> BTreeMap<u64, Found> {
        if numbers.count == 0 {
            return BTreeMap::new();
        }
        let mut asks = Vec::new();
        for (&id, _) in ids.iter().zip(&numbers.by_model).filter(|(_, by_model)| **by_model) {
            if let Some(sequence) = self.requests.get(id)
                && let (Some(running), Goal::Text { draw, .. }) =
                    (sequence.running(), sequence.goal())
            {
                let (slot, tokens, prompt) = (running.slot(), sequence.tokens(), sequence.prompt());
                asks.push(Ask { id, slot, tokens, prompt, draw });
            }
        }
        self.drafting.draft(&asks, numbers.count, finds)
    }

    /// Counts the drafts of a pass that were accepted.
    pub(super) fn count_drafts(&mut self, plan: &PlannedPass, samples: &[Sampled], time: Duration) {
        if plan.phase != Phase::Decode {
            return;
        }
        if plan.drafted() == 0 {
            if self.drafting.has_drafter() {
                for entry in &plan.entries {
                    let sequence = self.requests.get_mut(entry.id);
                    if let Some(drafter) = sequence.and_then(Sequence::drafter_mut) {
                        drafter.observe_drafts(false, 0, 0);
                    }
                }
                self.drafting.observe(false, 0, 0);
            }
            return;
        }
        let sequences = plan.entries.len();
        let plain = self.timing.costs().known_plain(sequences).unwrap_or(0.0);
        let plain = Duration::from_secs_f64(plain);
        let time = time + plan.drafting;
        let (mut column, mut all) = (0, 0);
        let mut sum = SpeculationStats { time, ..SpeculationStats::default() };
        for entry in &plan.entries {
            let sampled = &samples[column.min(samples.len())..];
            column += entry.samples;
            let (drafted, accepted) = (entry.drafts.len(), entry.accepted(sampled));
            all += accepted + 1;
            let own = SpeculationStats {
                drafted: drafted as u64,
                accepted: accepted as u64,
                time,
                plain_time: plain * (accepted as u32 + 1),
            };
            sum.drafted += own.drafted;
            sum.accepted += own.accepted;
            let Some(sequence) = self.requests.get_mut(entry.id) else { continue };
            sequence.goal().handle().update(|stats| stats.speculation.add(&own));
            if let Some(drafter) = sequence.drafter_mut() {
                drafter.observe_drafts(entry.by_model, drafted, accepted);
                self.drafting.observe(entry.by_model, drafted, accepted);
            }
        }
        sum.plain_time = plain * all as u32 / sequences.max(1) as u32;
        self.status.speculation.add(&sum);
    }
}

/// The planned numbers of drafted tokens, by lookup and of the drafter.
fn joined(ids: &[u64], plan: DraftPlan, by_model: &BTreeMap<u64, Found>) -> BTreeMap<u64, Draft> {
    let mut drafts = BTreeMap::new();
    let Numbers { choice, by_model: is_modelled, .. } = plan.numbers;
    let each = ids.iter().zip(plan.proposals).zip(choice.counts).zip(is_modelled);
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
    drafts
}
