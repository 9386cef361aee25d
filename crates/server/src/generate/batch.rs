//! Several texts of one request, submitted as the queue has room for them.

use std::sync::Arc;

use axum::http::StatusCode;

use crate::error::ApiError;

/// Submits the text of a number.
type Submit<T> = Arc<dyn Fn(usize) -> Result<T, ApiError> + Send + Sync>;

/// Texts of one request that are not all submitted. A request may have more of them than the queue
/// holds.
pub(crate) struct Batch<T> {
    /// Submits the text of a number, until all are submitted: it has the prompt with its pictures.
    submit: Option<Submit<T>>,
    next: usize,
    count: usize,
    /// Whether a submission may have to compile a constraint.
    pub(crate) compiles: bool,
}

impl<T> Batch<T> {
    /// `count` texts, which `submit` submits by their numbers.
    pub(crate) fn new(
        count: usize,
        compiles: bool,
        submit: impl Fn(usize) -> Result<T, ApiError> + Send + Sync + 'static,
    ) -> Self {
        Self { submit: Some(Arc::new(submit)), next: 0, count, compiles }
    }

    /// Whether all are submitted.
    pub(crate) fn is_submitted(&self) -> bool {
        self.next == self.count
    }

    /// Submits texts until the queue is full. Blocks for as long as that takes.
    ///
    /// # Errors
    ///
    /// If a text cannot be submitted, or there is no room for the first one.
    pub(crate) fn submit(&mut self) -> Result<Vec<T>, ApiError> {
        let mut some = Vec::new();
        while let Some(submit) = self.submit.as_ref().filter(|_| self.next < self.count) {
            match submit(self.next) {
                Ok(one) => some.push(one),
                Err(error) if error.status == StatusCode::TOO_MANY_REQUESTS && self.next > 0 => {
                    break;
                }
                Err(error) => return Err(error),
            }
            self.next += 1;
        }
        if self.is_submitted() {
            self.submit = None;
        }
        Ok(some)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    #[test]
    fn a_full_queue_ends_a_slice() {
        let room = Arc::new(AtomicUsize::new(3));
        let left = Arc::clone(&room);
        let submit = move |i| match left.load(Ordering::SeqCst) {
            0 => Err(ApiError::busy("the queue is full", Duration::from_secs(1))),
            more => {
                left.store(more - 1, Ordering::SeqCst);
                Ok(i)
            }
        };
        let mut batch = Batch::new(5, false, submit.clone());
        assert_eq!(batch.submit().unwrap(), [0, 1, 2]);
        assert!(batch.submit().unwrap().is_empty() && !batch.is_submitted());
        room.store(9, Ordering::SeqCst);
        assert_eq!(batch.submit().unwrap(), [3, 4]);
        assert!(batch.is_submitted() && batch.submit().unwrap().is_empty());
        // others fill the queue from the start
        room.store(0, Ordering::SeqCst);
        assert_eq!(Batch::new(5, false, submit).submit().unwrap_err().status.as_u16(), 429);
        let broken = |_| Err::<(), _>(ApiError::internal("broken"));
        assert_eq!(Batch::new(5, false, broken).submit().unwrap_err().status.as_u16(), 500);
    }
}
