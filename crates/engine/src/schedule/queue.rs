//! The bound of the queue, which callers check before they submit.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::Error;

/// Counts of requests, and of their prompt tokens, that were submitted and not started.
#[derive(Debug)]
pub(crate) struct QueueBound {
    requests: AtomicUsize,
    tokens: AtomicUsize,
    max_requests: usize,
    max_tokens: usize,
}

/// A place in the queue, which is left on drop.
#[derive(Debug)]
pub(crate) struct Place {
    bound: Arc<QueueBound>,
    tokens: usize,
}

impl QueueBound {
    pub(crate) fn new(max_requests: usize, max_tokens: usize) -> Self {
        let (requests, tokens) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { requests, tokens, max_requests, max_tokens }
    }

    /// Enters the queue with a prompt of `tokens` tokens.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if it is full. An empty queue has room for any prompt.
    pub(crate) fn enter(self: &Arc<Self>, tokens: usize) -> Result<Place, Error> {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let all = self.tokens.fetch_add(tokens, Ordering::Relaxed) + tokens;
        // from here on a drop leaves the queue again
        let place = Place { bound: Arc::clone(self), tokens };
        if requests > self.max_requests {
            return Err(Error::Busy {
                what: "requests",
                found: requests,
                limit: self.max_requests,
            });
        }
        if all > self.max_tokens && requests > 1 {
            return Err(Error::Busy { what: "prompt tokens", found: all, limit: self.max_tokens });
        }
        Ok(place)
    }

    /// Requests and prompt tokens in the queue.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.requests.load(Ordering::Relaxed), self.tokens.load(Ordering::Relaxed))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.bound.requests.fetch_sub(1, Ordering::Relaxed);
        self.bound.tokens.fetch_sub(self.tokens, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_by_requests_and_by_tokens() {
        let bound = Arc::new(QueueBound::new(2, 100));
        let long = bound.enter(1000).unwrap();
        assert!(matches!(bound.enter(1), Err(Error::Busy { what: "prompt tokens", .. })));
        drop(long);
        let _places = [bound.enter(50).unwrap(), bound.enter(50).unwrap()];
        let error = bound.enter(0).unwrap_err();
        assert!(matches!(error, Error::Busy { what: "requests", found: 3, limit: 2 }));
        assert_eq!(bound.counts(), (2, 100));
    }
}
