//! Which requests start, and which lose their pages again.
//!
//! Requests start by priority, then by the tokens that their clients were served, then in the order
//! of arrival. A start needs a slot, and pages for the near future of all: their tokens and up to
//! 256 generated ones. A request whose prompt shares a prefix with one that is still being computed
//! waits for that one's pages. A request that is alone gets all pages that there are.
//!
//! When a sequence needs a page and none can be evicted, the sequence with the least computed work,
//! never the oldest, loses its pages and its slot. Its full pages stay in the prefix tree until
//! they are evicted, so resumption is cheap. A preempted sequence computes its generated tokens
//! again in the decoding phase, so its text stays the same.

use std::cmp::Reverse;

use super::{resources::Resources, scheduler::Scheduler};
use crate::{Error, kv::SequencePages};

/// Positions of generated tokens that a request must have pages for before it starts, if it can
/// become that long.
const RESERVE: usize = 256;

impl Scheduler {
    /// Starts requests by priority, then in the order of the tokens that their clients were served,
    /// then in the order of their arrival, while there are slots and pages. The first that finds too
    /// few pages holds up those after it; one that waits for another's prefix does not.
    pub(super) fn admit(&mut self) {
        if self.slots.is_empty() || self.queue.is_empty() {
            return;
        }
        let mut waiting: Vec<u64> = self.queue.iter().copied().collect();
        self.sort(&mut waiting);
        while let Some(id) = waiting.pop() {
            if self.slots.is_empty() || !self.try_start(id) {
                return;
            }
            if self.shares.are_several() && !self.queue.contains(&id) {
                self.sort(&mut waiting);
            }
        }
    }

    /// Sorts waiting requests, the next one last. Preempted ones come before others of their
    /// priority.
    fn sort(&self, waiting: &mut [u64]) {
        waiting.sort_by_cached_key(|id| {
            let key = self.sequences.get(id).map(|sequence| {
                let served = self.shares.served(sequence.client.id);
                (Reverse(sequence.client.priority), sequence.place.is_some(), served, *id)
            });
            Reverse(key)
        });
    }

    /// Starts a request. Returns whether the next one may be tried.
    fn try_start(&mut self, id: u64) -> bool {
        let Some(sequence) = self.sequences.get(&id) else { return true };
        // tokens that are still to be taken belong to it
        if sequence.flights > 0
            || sequence.goal.is_constraint_busy()
            || self.waits(sequence.waits_for)
        {
            return true;
        }
        let fresh = sequence.place.is_some();
        let kv = &mut self.resources.kv;
        let (mut pages, hit) = match sequence.namespace() {
            Some(namespace) => kv.lookup(namespace, sequence.shareable(), sequence.prompt_rows()),
            None => (SequencePages::new(kv.groups()), 0),
        };
        let leader = if fresh { self.leader(id, hit) } else { None };
        let kv = &mut self.resources.kv;
        if let Some((leader, depth)) = leader {
            kv.release(&mut pages);
            if let Some(leader) = self.sequences.get_mut(&leader)
                && kv.is_recurrent()
                && !leader.pages.borders.contains(&depth)
            {
                leader.pages.borders.push(depth);
            }
            if let Some(sequence) = self.sequences.get_mut(&id) {
                sequence.waits_for = Some((leader, depth));
            }
            return true;
        }
        let reach = |tokens: usize, most: usize| (tokens + RESERVE).min(most.saturating_sub(1));
        let mut demand = kv.demand(&pages, reach(sequence.tokens.len(), sequence.most));
        for other in self.running.iter().filter_map(|id| self.sequences.get(id)) {
            let more = kv.demand(&other.pages, reach(other.expected(), other.most));
            demand.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        // one that is alone gets all there is
        if !self.running.is_empty() && !kv.has(&demand) {
            kv.release(&mut pages);
            return false;
        }
        let (Some(sequence), Some(slot)) = (self.sequences.get_mut(&id), self.slots.pop()) else {
            kv.release(&mut pages);
            return false;
        };
        tracing::debug!(id, slot, tokens = sequence.tokens.len(), hit, fresh, "a request starts");
        let restore = kv.take_restore(&mut pages);
        sequence.start(slot, pages, hit);
        if sequence.place.take().is_some() {
            let text = sequence.most.saturating_sub(sequence.prompt).min(RESERVE);
            sequence.charged = text;
            // tokens that a constraint forces may be there already
            let run = sequence.tokens.len().saturating_sub(hit);
            self.shares.charge(sequence.client.id, (run + text) as u64);
            let queued = sequence.goal.age();
            sequence.goal.handle().update(|stats| {
                stats.queued = Some(queued);
                stats.cached_tokens = hit;
                stats.prefilled_tokens = hit;
            });
            self.status.prefix_hit_tokens += hit as u64;
            self.status.prefix_lookup_tokens += sequence.prompt as u64;
        }
        self.queue.remove(&id);
        self.running.insert(id);
        if let Err(error) = self.prepare_slot(id, slot, restore) {
            self.end(id, Err(error));
        }
        true
    }

    /// Gives a slot the recurrent states and the adapters of the sequence that starts in it.
    fn prepare_slot(&mut self, id: u64, slot: u32, restore: Option<u32>) -> Result<(), Error> {
        let Resources { runner, plan, .. } = &mut self.resources;
        if let Some(snapshot) = restore {
            runner.restore_states(snapshot, slot)?;
        }
        match self.sequences.get(&id) {
            Some(sequence) if plan.adapters().is_some() => {
                runner.set_adapters(slot, &sequence.loras)
            }
            _ => Ok(()),
        }
    }

    /// Whether the prefix that a request waits for is still being computed.
    fn waits(&self, waits_for: Option<(u64, usize)>) -> bool {
        waits_for.is_some_and(|(leader, depth)| {
            self.running.contains(&leader)
                && self.sequences.get(&leader).is_some_and(|leader| leader.pages.depth < depth)
        })
    }

    /// A running request that computes a longer prefix of this one's prompt than the `hit`
    /// positions that are cached, with the number of pages that they share.
    fn leader(&self, id: u64, hit: usize) -> Option<(u64, usize)> {
        let sequence = self.sequences.get(&id)?;
        // `None` for one that shares nothing
        sequence.salt?;
        let tokens = sequence.shareable();
        let tokens = &tokens[..tokens.len().saturating_sub(1)];
        self.running.iter().find_map(|&leader| {
            let other = self.sequences.get(&leader)?;
            let is_alike = other.namespace() == sequence.namespace()
                && other.decodes_prompt == sequence.decodes_prompt;
            if !is_alike || other.computed >= other.prompt {
                return None;
            }
            let prompt = &other.tokens[..other.prompt];
            let common = tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
            let depth = common / pelton_graph::PAGE;
            (depth * pelton_graph::PAGE > hit && other.pages.depth < depth)
                .then_some((leader, depth))
        })
    }

    /// Lets a running sequence reach `positions` positions: evicts cached prefixes, then preempts
    /// other sequences. Returns false if it was itself preempted or ended.
    pub(super) fn reserve(&mut self, id: u64, first: usize, positions: usize) -> bool {
        loop {
            let Some(sequence) = self.sequences.get_mut(&id) else { return false };
            let kv = &mut self.resources.kv;
            kv.slide(&mut sequence.pages, first);
            if kv.grow(&mut sequence.pages, positions).is_ok() {
                return true;
            }
            match self.victim() {
                Some(victim) => {
                    self.preempt(victim);
                    if victim == id {
                        return false;
                    }
                }
                None => {
                    // every page is its own: the sizes of the pools rule that out
                    let available = self.resources.limits.context;
                    let error = Error::CacheFull { needed: positions, available };
                    self.end(id, Err(error));
                    return false;
                }
            }
        }
    }

    /// The running sequence of the lowest priority with the least computed work, never the oldest of
    /// the highest priority.
    fn victim(&self) -> Option<u64> {
        let priority =
            |id: &u64| self.sequences.get(id).map_or(0, |sequence| sequence.client.priority);
        let first = self.running.iter().copied().min_by_key(|id| (Reverse(priority(id)), *id));
        let others = self.running.iter().copied().filter(|id| Some(*id) != first);
        others.min_by_key(|id| {
            let work = self.sequences.get(id).map_or(0, |sequence| sequence.submitted);
            (priority(id), work, Reverse(*id))
        })
    }

    /// Takes the pages and the slot of a sequence, which then waits to be resumed. Its full pages
    /// stay in the prefix tree until they are evicted.
    pub(super) fn preempt(&mut self, id: u64) {
        let Some(sequence) = self.sequences.get_mut(&id) else { return };
        tracing::debug!(id, computed = sequence.computed, "a request is preempted");
        sequence.commit(&mut self.resources.kv);
        self.slots.extend(sequence.release(&mut self.resources.kv));
        sequence.goal.handle().update(|stats| stats.preemptions += 1);
        self.status.preemptions += 1;
        self.running.remove(&id);
        self.queue.insert(id);
    }
}
