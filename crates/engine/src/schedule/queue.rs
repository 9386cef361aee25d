//! The bound of the queue, which callers check before they submit.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::constraint::InlineStep;
use crate::Error;

/// Requests that were submitted and not started, and their prompt tokens.
#[derive(Debug, Default)]
struct Counts {
    requests: usize,
    tokens: usize,
    /// Requests by client.
    clients: BTreeMap<u64, usize>,
}

/// Counts of requests, and of their prompt tokens, that were submitted and not started.
#[derive(Debug)]
pub(crate) struct QueueBound {
    counts: Mutex<Counts>,
    /// The step that requests in the queue may wait for.
    pub(crate) inline_step: InlineStep,
    max_requests: usize,
    max_tokens: usize,
}

/// A place in the queue, which is left on drop.
#[derive(Debug)]
pub(crate) struct Place {
    bound: Arc<QueueBound>,
    tokens: usize,
    client: u64,
}

impl QueueBound {
    pub(crate) fn new(max_requests: usize, max_tokens: usize) -> Self {
        Self {
            counts: Mutex::default(),
            inline_step: InlineStep::default(),
            max_requests,
            max_tokens,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the queue with a prompt of `tokens` tokens. A client that has less than its equal
    /// part of the places enters a queue that others have filled.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if it is full. An empty queue has room for any prompt.
    pub(crate) fn enter(self: &Arc<Self>, tokens: usize, client: u64) -> Result<Place, Error> {
        let mut counts = self.lock();
        let own = counts.clients.get(&client).copied().unwrap_or(0);
        let clients = counts.clients.len() + usize::from(own == 0);
        let part = self.max_requests / clients.max(1);
        let found = counts.requests + 1;
        if found > self.max_requests && (clients == 1 || own >= part) {
            return Err(Error::Busy { what: "requests", found, limit: self.max_requests });
        }
        let all = counts.tokens.saturating_add(tokens);
        if all > self.max_tokens && counts.requests > 0 {
            return Err(Error::Busy { what: "prompt tokens", found: all, limit: self.max_tokens });
        }
        (counts.requests, counts.tokens) = (found, all);
        *counts.clients.entry(client).or_default() += 1;
        drop(counts);
        Ok(Place { bound: Arc::clone(self), tokens, client })
    }

    /// Requests and prompt tokens in the queue.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let counts = self.lock();
        (counts.requests, counts.tokens)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.bound.lock();
        counts.requests = counts.requests.saturating_sub(1);
        counts.tokens = counts.tokens.saturating_sub(self.tokens);
        if let Some(own) = counts.clients.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                counts.clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_by_requests_and_by_tokens() {
        let bound = Arc::new(QueueBound::new(2, 100));
        let long = bound.enter(1000, 0).unwrap();
        assert!(matches!(bound.enter(1, 0), Err(Error::Busy { what: "prompt tokens", .. })));
        drop(long);
        let _places = [bound.enter(50, 0).unwrap(), bound.enter(50, 0).unwrap()];
        let error = bound.enter(0, 0).unwrap_err();
        assert!(matches!(error, Error::Busy { what: "requests", found: 3, limit: 2 }));
        assert_eq!(bound.counts(), (2, 100));
    }

    #[test]
    fn a_client_that_fills_the_queue_leaves_others_their_part() {
        let bound = Arc::new(QueueBound::new(8, 1000));
        let many: Vec<_> = (0..8).map(|_| bound.enter(1, 1).unwrap()).collect();
        assert!(bound.enter(1, 1).is_err());
        let few: Vec<_> = (0..4).map(|_| bound.enter(1, 2).unwrap()).collect();
        assert!(bound.enter(1, 2).is_err(), "half of the places");
        drop(few);
        drop(many);
        assert_eq!(bound.counts(), (0, 0));
        // without places there is none for anybody
        assert!(Arc::new(QueueBound::new(0, 10)).enter(1, 1).is_err());
    }
}
