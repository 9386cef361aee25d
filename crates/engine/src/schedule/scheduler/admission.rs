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

use pelton_graph::PAGE;

use super::Scheduler;
use crate::{
    Error,
    kv::{Namespace, PageCache, SequencePages},
    schedule::{
        resources::Resources,
        sequence::{AwaitedPrefix, Sequence, Stage},
    },
};

/// Positions of generated tokens that a request must have pages for before it starts, if it can
/// become that long.
const RESERVE: usize = 256;

impl Scheduler {
    /// Starts queued requests while there are slots and pages. The first that finds too few pages
    /// holds up those after it; one that waits for another's prefix does not.
    pub(super) fn start_queued(&mut self) {
        if !self.requests.has_free_slot() || self.requests.queued().is_empty() {
            return;
        }
        let mut queued: Vec<u64> = self.requests.queued().iter().copied().collect();
        self.sort(&mut queued);
        while let Some(id) = queued.pop() {
            if !self.requests.has_free_slot() || !self.try_start(id) {
                return;
            }
            if self.shares.are_several() && !self.requests.queued().contains(&id) {
                self.sort(&mut queued);
            }
        }
    }

    /// Sorts queued requests, the next one last: by priority, preempted ones first, then by the
    /// tokens that their clients were served, then by arrival.
    fn sort(&self, queued: &mut [u64]) {
        queued.sort_by_cached_key(|&id| {
            let key = self.requests.get(id).map(|sequence| {
                let client = sequence.terms().client;
                let served = self.shares.served(client.id);
                (Reverse(client.priority), !sequence.stage().is_preempted(), served, id)
            });
            Reverse(key)
        });
    }

    /// Starts a request. Returns whether the next one may be tried.
    fn try_start(&mut self, id: u64) -> bool {
        let Some(sequence) = self.requests.get(id) else { return true };
        let is_fresh = match sequence.stage() {
            Stage::Waiting { prefix, .. } => {
                if prefix.is_some_and(|prefix| self.is_computed_elsewhere(prefix)) {
                    return true;
                }
                true
            }
            Stage::Preempted => false,
            // tokens that are still to be taken belong to its text
            Stage::Draining(_) | Stage::Running(_) => return true,
        };
        if sequence.goal().is_constraint_busy() {
            return true;
        }
        let kv = &mut self.resources.kv;
        let (mut pages, hit) = match sequence.namespace() {
            Some(namespace) => lookup(kv, &namespace, sequence),
            None => (SequencePages::new(kv.groups()), 0),
        };
        if is_fresh && let Some(prefix) = self.prefix_under_way(id, hit) {
            self.resources.kv.release(&mut pages);
            self.await_prefix(id, prefix);
            return true;
        }
        if !self.has_pages_for(id, &pages) {
            self.resources.kv.release(&mut pages);
            return false;
        }
        let restore = self.resources.kv.take_restore(&mut pages);
        let (slot, is_first) = match self.requests.start(id, pages, hit) {
            Ok(started) => started,
            Err(mut pages) => {
                self.resources.kv.release(&mut pages);
                return false;
            }
        };
        tracing::debug!(id, slot, hit, is_first, "a request starts");
        if is_first {
            self.charge(id, hit);
        }
        if let Err(error) = self.prepare_slot(id, slot, restore) {
            self.end(id, Err(error));
        }
        true
    }

    /// Lets a request wait for a prefix that another one computes.
    fn await_prefix(&mut self, id: u64, prefix: AwaitedPrefix) {
        if self.resources.kv.is_recurrent()
            && let Some(running) =
                self.requests.get_mut(prefix.leader).and_then(Sequence::running_mut)
        {
            let borders = &mut running.pages_mut().borders;
            if !borders.contains(&prefix.depth) {
                borders.push(prefix.depth);
            }
        }
        if let Some(sequence) = self.requests.get_mut(id) {
            sequence.await_prefix(prefix);
        }
    }

    /// Whether a request may start with these pages: enough others remain for its near future and
    /// for all running requests. A request that is alone gets all pages.
    fn has_pages_for(&self, id: u64, pages: &SequencePages) -> bool {
        let kv = &self.resources.kv;
        let reach = |tokens: usize, most: usize| (tokens + RESERVE).min(most.saturating_sub(1));
        let Some(sequence) = self.requests.get(id) else { return false };
        let mut demand = kv.demand(pages, reach(sequence.tokens().len(), sequence.most()));
        for (_, other) in self.requests.running() {
            let Some(running) = other.running() else { continue };
            let more = kv.demand(running.pages(), reach(other.expected(), other.most()));
            demand.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        self.requests.running_ids().is_empty() || kv.has(&demand)
    }

    /// Charges the client of a request that starts with `hit` cached positions.
    fn charge(&mut self, id: u64, hit: usize) {
        let Some(sequence) = self.requests.get_mut(id) else { return };
        let text = sequence.most().saturating_sub(sequence.prompt()).min(RESERVE);
        sequence.charge(text);
        // tokens that a constraint forces may be there already
        let run = sequence.tokens().len().saturating_sub(hit);
        self.shares.charge(sequence.terms().client.id, (run + text) as u64);
        let queued = sequence.goal().age();
        sequence.goal().handle().update(|stats| {
            stats.queued = Some(queued);
            stats.cached_tokens = hit;
            stats.prefilled_tokens = hit;
        });
        self.status.prefix_hit_tokens += hit as u64;
        self.status.prefix_lookup_tokens += sequence.prompt() as u64;
    }

    /// Gives a slot the recurrent states and the adapters of the sequence that starts in it.
    fn prepare_slot(&mut self, id: u64, slot: u32, restore: Option<u32>) -> Result<(), Error> {
        let Resources { runner, plan, .. } = &mut self.resources;
        if let Some(snapshot) = restore {
            runner.restore_states(snapshot, slot)?;
        }
        match self.requests.get(id) {
            Some(sequence) if plan.adapters().is_some() => {
                runner.set_adapters(slot, &sequence.terms().loras)
            }
            _ => Ok(()),
        }
    }

    /// Whether a running request still computes a prefix.
    fn is_computed_elsewhere(&self, AwaitedPrefix { leader, depth }: AwaitedPrefix) -> bool {
        let leader = self.requests.get(leader).and_then(Sequence::running);
        leader.is_some_and(|running| running.pages().depth < depth)
    }

    /// A prefix of a request's prompt, longer than the `hit` positions that are cached, that a
    /// running request computes.
    fn prefix_under_way(&self, id: u64, hit: usize) -> Option<AwaitedPrefix> {
        let sequence = self.requests.get(id)?;
        // `None` for one that shares nothing
        sequence.terms().salt?;
        let tokens = sequence.shareable();
        let tokens = &tokens[..tokens.len().saturating_sub(1)];
        self.requests.running().find_map(|(leader, other)| {
            let is_alike = other.namespace() == sequence.namespace()
                && other.decodes_prompt() == sequence.decodes_prompt();
            if !is_alike || other.computed() >= other.prompt() {
                return None;
            }
            let prompt = &other.identities()[..other.prompt()];
            let common = tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
            let depth = common / PAGE;
            (depth * PAGE > hit && other.running()?.pages().depth < depth)
                .then_some(AwaitedPrefix { leader, depth })
        })
    }

    /// Lets a running sequence reach `positions` positions: evicts cached prefixes, then preempts
    /// other sequences. Returns false if it was itself preempted or ended.
    pub(super) fn reserve(&mut self, id: u64, first: usize, positions: usize) -> bool {
        loop {
            let Some(running) = self.requests.get_mut(id).and_then(Sequence::running_mut) else {
                return false;
            };
            let kv = &mut self.resources.kv;
            kv.slide(running.pages_mut(), first);
            if kv.grow(running.pages_mut(), positions).is_ok() {
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

    /// The running sequence of the lowest priority with the least computed work, never the oldest
    /// of the highest priority.
    fn victim(&self) -> Option<u64> {
        let all = || {
            let running = self.requests.running();
            running.map(|(id, s)| (id, s.terms().client.priority, s.submitted()))
        };
        let first = all().min_by_key(|&(id, priority, _)| (Reverse(priority), id))?.0;
        let others = all().filter(|&(id, ..)| id != first);
        let least = others.min_by_key(|&(id, priority, work)| (priority, work, Reverse(id)));
        least.map(|(id, ..)| id)
    }

    /// Takes the pages and the slot of a sequence, which then waits to be resumed. Its full pages
    /// stay in the prefix tree until they are evicted.
    pub(super) fn preempt(&mut self, id: u64) {
        let Some(sequence) = self.requests.get_mut(id) else { return };
        tracing::debug!(id, computed = sequence.computed(), "a request is preempted");
        sequence.commit(&mut self.resources.kv);
        sequence.goal().handle().update(|stats| stats.preemptions += 1);
        self.status.preemptions += 1;
        self.requests.preempt(id, &mut self.resources.kv);
    }
}

/// The cached pages of a sequence's prefix and the positions that they hold. A prefix does not end
/// inside a picture whose rows see each other: all of them are run in one pass.
fn lookup(
    kv: &mut PageCache,
    namespace: &Namespace,
    sequence: &Sequence,
) -> (SequencePages, usize) {
    let mut tokens = sequence.shareable();
    loop {
        let (mut pages, hit) = kv.lookup(namespace.clone(), tokens, sequence.prompt_rows());
        match sequence.pictures().and_then(|pictures| pictures.cut(hit)) {
            Some(rows) => {
                kv.release(&mut pages);
                tokens = &tokens[..=rows.start];
            }
            None => return (pages, hit),
        }
    }
}
