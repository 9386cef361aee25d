//! All requests of one model, and the slots that they run in.

use std::collections::{BTreeMap, BTreeSet};

use super::sequence::Sequence;
use crate::kv::{PageCache, SequencePages};

/// All requests, numbered in the order of their arrival: the least number is the oldest.
pub(super) struct Requests {
    sequences: BTreeMap<u64, Sequence>,
    /// Requests without a slot: those that wait for their start, and preempted ones.
    queue: BTreeSet<u64>,
    /// Requests with a slot.
    running: BTreeSet<u64>,
    free_slots: Vec<u32>,
    newest: u64,
}

impl Requests {
    /// No requests, and as many free slots.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            sequences: BTreeMap::new(),
            queue: BTreeSet::new(),
            running: BTreeSet::new(),
            free_slots: (0..slots as u32).rev().collect(),
            newest: 0,
        }
    }

    /// Queues a request. Returns its number.
    pub(super) fn add(&mut self, sequence: Sequence) -> u64 {
        self.newest += 1;
        self.sequences.insert(self.newest, sequence);
        self.queue.insert(self.newest);
        self.newest
    }

    pub(super) fn len(&self) -> usize {
        self.sequences.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Sequence> {
        self.sequences.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Sequence> {
        self.sequences.get_mut(&id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &Sequence)> {
        self.sequences.iter().map(|(&id, sequence)| (id, sequence))
    }

    /// The requests of these numbers that there are.
    pub(super) fn of<'a>(&'a self, ids: &'a [u64]) -> impl Iterator<Item = &'a Sequence> + Clone {
        ids.iter().filter_map(|id| self.sequences.get(id))
    }

    /// The numbers of requests without a slot.
    pub(super) fn queued(&self) -> &BTreeSet<u64> {
        &self.queue
    }

    /// The numbers of requests with a slot.
    pub(super) fn running_ids(&self) -> &BTreeSet<u64> {
        &self.running
    }

    /// The requests with a slot.
    pub(super) fn running(&self) -> impl Iterator<Item = (u64, &Sequence)> + Clone {
        self.running.iter().filter_map(|&id| Some((id, self.sequences.get(&id)?)))
    }

    pub(super) fn is_running(&self, id: u64) -> bool {
        self.running.contains(&id)
    }

    /// A request, if it has a slot.
    pub(super) fn get_running(&self, id: u64) -> Option<&Sequence> {
        self.running.get(&id).and_then(|id| self.sequences.get(id))
    }

    /// A request, if it has a slot.
    pub(super) fn get_running_mut(&mut self, id: u64) -> Option<&mut Sequence> {
        self.running.get(&id).and_then(|id| self.sequences.get_mut(id))
    }

    pub(super) fn has_free_slot(&self) -> bool {
        !self.free_slots.is_empty()
    }

    /// Lets a queued request run in a free slot, with pages of which the first `hit` positions are
    /// computed. Returns the slot, and whether it is the first start; the pages if there is no
    /// slot or no such request.
    pub(super) fn start(
        &mut self,
        id: u64,
        pages: SequencePages,
        hit: usize,
    ) -> Result<(u32, bool), SequencePages> {
        let Some(sequence) = self.sequences.get_mut(&id) else { return Err(pages) };
        let Some(slot) = self.free_slots.pop() else { return Err(pages) };
        self.queue.remove(&id);
        self.running.insert(id);
        Ok((slot, sequence.start(slot, pages, hit)))
    }

    /// Takes the slot and the pages of a running request, which is queued again.
    pub(super) fn preempt(&mut self, id: u64, kv: &mut PageCache) {
        let Some(sequence) = self.sequences.get_mut(&id) else { return };
        self.free_slots.extend(sequence.release(kv));
        self.running.remove(&id);
        self.queue.insert(id);
    }

    /// Removes a request, and frees its slot and its pages. Its full pages stay
    /// cached if it `succeeded`.
    pub(super) fn remove(
        &mut self,
        id: u64,
        succeeded: bool,
        kv: &mut PageCache,
    ) -> Option<Sequence> {
        self.queue.remove(&id);
        self.running.remove(&id);
        let mut sequence = self.sequences.remove(&id)?;
        if succeeded {
            sequence.commit(kv);
        }
        self.free_slots.extend(sequence.release(kv));
        Some(sequence)
    }

    /// Compares slots, queue and stages, in debug builds.
    pub(super) fn check(&self, slots: usize) {
        debug_assert_eq!(self.running.len() + self.free_slots.len(), slots);
        debug_assert_eq!(self.running.len() + self.queue.len(), self.sequences.len());
        debug_assert!(self.all().all(|(id, s)| s.running().is_some() == self.is_running(id)));
    }
}
