//! The lists of a plan without what no step uses.

use crate::{BufferId, Encoder, Index, Plan};

impl Plan {
    /// The buffers that are read after the last step, or filled before the first.
    pub(crate) fn results(&self) -> Vec<BufferId> {
        let encoder = self.encoder.into_iter().flat_map(|of| [Some(of.features), of.kept]);
        let hidden = self.entry.iter().chain(&self.exit).copied();
        [self.logits].into_iter().chain(hidden).chain(encoder.flatten()).collect()
    }

    /// The same plan without the buffers, weights, caches and states that no step uses.
    #[must_use]
    pub fn keep_used(mut self) -> Self {
        self.drop_unused_buffers();
        let [mut weights, mut caches, mut states] =
            [self.weights.len(), self.caches.len(), self.states.len()].map(Places::new);
        for step in &mut self.steps {
            step.op.visit_indices(&mut |index| match index {
                Index::Weight(id) => weights.used[id.0] = true,
                Index::Cache(at) => caches.used[*at] = true,
                Index::State(at) => states.used[*at] = true,
            });
        }
        weights.keep(&mut self.weights);
        caches.keep(&mut self.caches);
        states.keep(&mut self.states);
        for step in &mut self.steps {
            step.op.visit_indices(&mut |index| match index {
                Index::Weight(id) => id.0 = weights.of(id.0),
                Index::Cache(at) => *at = caches.of(*at),
                Index::State(at) => *at = states.of(*at),
            });
        }
        self
    }

    pub(crate) fn drop_unused_buffers(&mut self) {
        let mut places = Places::new(self.buffers.len());
        self.results().iter().for_each(|id| places.used[id.0] = true);
        for id in self.steps.iter().flat_map(|s| s.inputs.iter().chain(&s.outputs)) {
            places.used[id.0] = true;
        }
        places.keep(&mut self.buffers);
        let of_steps =
            self.steps.iter_mut().flat_map(|s| s.inputs.iter_mut().chain(&mut s.outputs));
        for id in of_steps.chain(&mut self.entry).chain(&mut self.exit).chain([&mut self.logits]) {
            id.0 = places.of(id.0);
        }
        for id in self.host.iter_mut().flat_map(|part| [&mut part.entry, &mut part.exit]) {
            id.0 = places.of(id.0);
        }
        if let Some(Encoder { features, kept, .. }) = &mut self.encoder {
            for id in [features].into_iter().chain(kept) {
                id.0 = places.of(id.0);
            }
        }
    }
}

/// Which elements of a list are used, and their new indices.
struct Places {
    used: Vec<bool>,
}

impl Places {
    fn new(len: usize) -> Self {
        Self { used: vec![false; len] }
    }

    /// Drops the elements that are not used.
    fn keep<T>(&self, list: &mut Vec<T>) {
        let mut used = self.used.iter();
        list.retain(|_| used.next().is_some_and(|&used| used));
    }

    /// The new index of an element that is used: the number of used ones before it.
    fn of(&self, index: usize) -> usize {
        self.used[..index].iter().filter(|used| **used).count()
    }
}
